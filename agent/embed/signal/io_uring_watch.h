/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does this very process use io_uring? A timer on the CPU time of a thread ends
 * its wait in io_uring_enter(2) with EINTR, and any thread may be the next to
 * wait so. What the kernel shares with the program for it is a mapping with a
 * special name. Used in the sampler's thread.
 */
#ifndef FGT_AGENT_EMBED_SIGNAL_IO_URING_WATCH_H
#define FGT_AGENT_EMBED_SIGNAL_IO_URING_WATCH_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: nothing known yet. */
struct fgt_io_uring_watch {
	bool has_ring; /* for ever: a program that has had one goes on with it */
	uint64_t asked_ns; /* for a thread that shall be signalled */
	uint64_t read_ns; /* when the mappings were last read */
	uint64_t paid_ns; /* up to here for what readings have cost */
};

/*
 * Reads the mappings, /proc/PID/maps as in proc(5), from the descriptor: is a
 * ring among them? Those that the program has made of its own memory
 * (IORING_SETUP_NO_MMAP) have no name. False also if they cannot be read.
 * MT-Safe | AS-Safe
 */
bool fgt_io_uring_is_in(int maps_fd);

/*
 * Before a thread gets a timer: is there a ring? Read once a tick at most; where
 * readings have lately cost more than their share of CPU time, it is answered
 * as of the last one. now_ns, here and below: of the tick.
 * MT-Unsafe | AS-Unsafe
 */
bool fgt_io_uring_watch_ask(struct fgt_io_uring_watch *watch, uint64_t now_ns);

/*
 * The same while threads have timers. Read the more rarely, the longer ago one
 * was asked for, and once a second in the end.
 * MT-Unsafe | AS-Unsafe
 */
bool fgt_io_uring_watch_follow(struct fgt_io_uring_watch *watch,
			       uint64_t now_ns);

#endif
