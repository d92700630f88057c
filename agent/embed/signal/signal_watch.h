/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What signals to threads would disturb in this very process: waits in
 * io_uring, and timers on CPU time that signal the process. Used in the
 * sampler's thread.
 */
#ifndef FGT_AGENT_EMBED_SIGNAL_SIGNAL_WATCH_H
#define FGT_AGENT_EMBED_SIGNAL_SIGNAL_WATCH_H

#include <stdbool.h>
#include <stdint.h>

/* ---- io_uring ---------------------------------------------------------- */

/*
 * A timer on the CPU time of a thread ends its wait in io_uring_enter(2) with
 * EINTR, and any thread may be the next to wait so. What the kernel shares with
 * the program for it is a mapping with a special name. All zero: nothing known
 * yet.
 */
struct fgt_io_uring_watch {
	bool has_ring; /* stays: such a program goes on with it */
	uint64_t asked_ns; /* for a thread that shall be signalled */
	uint64_t read_ns; /* when the mappings were last read */
	uint64_t paid_ns; /* up to here for what readings have cost */
};

/*
 * True if a ring is among /proc/PID/maps (proc(5)), read by fgt_fd_pread().
 * Rings in memory of the program (IORING_SETUP_NO_MMAP) have no name. False
 * also if they cannot be read. MT-Safe | AS-Safe
 */
bool fgt_io_uring_is_in(int *maps_fd);

/*
 * Before a thread gets a timer: is there a ring? Reads at most once a tick. If
 * readings have cost more than their share of CPU time, the answer is that of
 * the last one. now_ns, here and below: of the tick. MT-Unsafe | AS-Unsafe
 */
bool fgt_io_uring_watch_ask(struct fgt_io_uring_watch *watch, uint64_t now_ns);

/*
 * The same while threads have timers. The longer ago a thread was asked for,
 * the rarer the readings, down to one a second. MT-Unsafe | AS-Unsafe
 */
bool fgt_io_uring_watch_follow(struct fgt_io_uring_watch *watch,
			       uint64_t now_ns);

/* ---- Timers on CPU time ------------------------------------------------ */

/*
 * Such a timer, as profilers have, signals at the same ticks of the kernel as
 * those that signal threads. Where the handler of the latter has begun first,
 * with all signals blocked, the kernel gives the signal of the former to any
 * other thread, whose sleep it ends. All zero: none was seen.
 */
struct fgt_cpu_timer_watch {
	uint64_t seen_ns;
	uint64_t listed_ns; /* when those of timer_create(2) were last read */
	bool is_listed; /* one was among them, or might have been */
	unsigned int own_timers; /* of this source; set by the caller */
};

/*
 * True if there is one now, or was in the last two seconds. Timers of
 * setitimer(2) are seen at once, those of timer_create(2) within a second, also
 * while they are not set; if there are too many of these, one is taken to be
 * among them. A timer that was seen is asked for again once a second.
 * MT-Unsafe | AS-Unsafe
 */
bool fgt_cpu_timer_watch_ask(struct fgt_cpu_timer_watch *watch,
			     uint64_t now_ns);

/*
 * 1 if one is among /proc/PID/timers (proc(5)), read by fgt_fd_pread(), else
 * 0. -E2BIG: it is not among the first 700 besides own_timers, and there are
 * more; errno of read(2). MT-Safe | AS-Safe
 */
int fgt_cpu_timer_find(int *timers_fd, unsigned int own_timers);

#endif
