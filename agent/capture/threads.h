/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of one target: who exists, and what is remembered of each
 * between two ticks. Identity is (tid, start time).
 */
#ifndef FGT_AGENT_CAPTURE_THREADS_H
#define FGT_AGENT_CAPTURE_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/capture/account.h"
#include "agent/capture/fd_budget.h"
#include "agent/capture/preempted.h"
#include "agent/capture/process.h"
#include "agent/capture/switch_edges.h"
#include "agent/capture/switches.h"
#include "ringbuf/ring.h"

#define FGT_THREADS_MAX	   65536u /* a target; more are not sampled */
#define FGT_THREAD_NO_SLOT UINT32_MAX

struct fgt_perf_thread; /* running_perf_thread.c */
struct fgt_thread_signal; /* running_signal.c */

/* What context switches tell of a thread, where the kernel tells of them. */
struct fgt_thread_switches {
	uint32_t index;
	bool is_handed; /* it slept when it began to be watched: */
	struct fgt_switch_off handed;
	uint64_t version; /* of the slot when it was looked at last */
	uint64_t shown_ns; /* off.ns of what the ring shows; 0: of none */
	struct fgt_switch_off blocked_at; /* where it stood in last_block */
	struct fgt_switch_seen seen;
};

/* What is known of a thread only while it is active: see fgt_threads_retire. */
struct fgt_active_thread {
	struct fgt_thread *thread;
	int syscall_fd;
	uint64_t active_ns; /* when it was last known to run */
	bool is_run_sampled; /* a sample told of a tick since it blocked */
	bool was_stopped; /* by us since: that switch does not count */
	uint32_t pending_ticks; /* the last so many have no sample yet */
	uint32_t switch_rate; /* per second, smoothed */
	struct fgt_account account; /* where perf has no events per CPU */
	uint64_t used_ns; /* CPU time since the last tick, likewise */
	uint64_t stretch_ns; /* used since it was last put on a CPU */

	struct fgt_perf_thread *perf;
	struct fgt_thread_signal *signal;
	uint64_t perf_retry_ns; /* not worth an event before this instant */

	uint64_t sampled_wait_ns; /* use.wait_ns at its last sample */
	struct fgt_last_run last_run, last_block; /* its last sample, block */
	struct fgt_last_run unshown; /* a sample that no tick has shown … */
	uint64_t unshown_tick; /* … and when it came */
	uint64_t sample_tick; /* when the last sample came */
	uint64_t counted_switches; /* times put on a CPU … */
	uint64_t counted_ns; /* … up to this instant */
};

/* Many of many threads are idle: no larger than it must be. */
struct fgt_thread {
	int32_t tid;
	uint32_t slot; /* in the ring; FGT_THREAD_NO_SLOT: not sampled */
	uint64_t start_time;
	uint32_t inode; /* of its directory: another one, another thread? */
	uint32_t scan; /* number of the scan that listed it last */
	uint32_t index; /* in threads->items */
	int schedstat_fd;
	struct fgt_cpu_use use; /* at its last look */
	struct fgt_active_thread *active; /* NULL: idle; moves, see below */
	struct fgt_thread_switches *switches; /* NULL: not watched */

	bool is_ended : 1; /* leaves the table at the end of the tick */
	bool is_replaced : 1; /* its number belongs to another one already */
	bool has_new_name : 1; /* the kernel said so */
	bool is_new : 1; /* nothing known of it yet */
	bool has_run : 1; /* since the last tick, says the provider */
	bool needs_look : 1; /* though it may not have run again */
	bool lacks_maps : 1; /* its last stack led where none was known */
	bool has_unsafe_call : 1; /* seen in one that a stop would break */
	bool is_sampled : 1; /* a perf sample fell on it in this tick */
	bool is_restless : 1; /* was found so; see look_runnable.c */
	bool takes_signals : 1; /* was seen in sigtimedwait(2) */
	bool is_fragile : 1; /* seen in a call that our signal would break */
	uint8_t young_ticks : 4; /* at which its name was read again */
	uint8_t open_looks : 4; /* at which it did not block our signal */
	uint8_t signal_refusals : 4; /* looks since at which it did */

	uint16_t state; /* as the ring has it */
	uint16_t call_state; /* of its last blocking call */
	uint32_t settled_switches; /* use.switches when state was set */
	uint32_t read_bytes; /* of stack that its last read needed */
	uint32_t stack_unused; /* bytes of a small one, at its end … */
	uint32_t stack_since_ms; /* … and since when it is so much */
	/* Of its account, while it is idle. */
	int32_t due_us, hidden_us;
	uint64_t shown_wait_ns; /* of use.wait_ns, as ticks without a sample */

	struct fgt_thread *hash_next;
};

struct fgt_threads {
	struct fgt_thread **items;
	struct fgt_thread **buckets;
	/* Those that ran within a second, one behind the other: they move when
	 * others come or go. */
	struct fgt_active_thread *active;
	uint32_t count, capacity, bucket_count;
	uint32_t active_count, active_peak, active_capacity;
	uint32_t sampled_count; /* those with a slot */
	uint32_t scan;
	uint32_t nlink; /* of the task directory at the last scan */
	int64_t last_pid; /* of the namespace, at the last scan */
	int last_pid_fd; /* borrowed; see fgt_threads_scan() */
	uint32_t ticks_since_scan;
	bool is_stale; /* something says that threads came or went */
	bool is_scan_owed; /* it was put off, to list less often */
	bool is_full; /* more threads than fit */
	bool has_ended; /* some thread is marked as ended */
	int32_t excluded[FGT_EXCLUDED_MAX]; /* never sampled; 0: none */
	uint64_t known_runtime_ns; /* sum of use.runtime_ns */
	int task_fd; /* borrowed */
	const char *process_name; /* borrowed */
	struct fgt_fd_budget *budget;
	struct fgt_ring *ring;
	/* Called before a thread becomes idle; and before it is freed: others
	 * keep things for it. */
	void (*on_idle)(void *context, struct fgt_thread *thread);
	void (*on_free)(void *context, struct fgt_thread *thread);
	void *context;
};

/* process_name: for threads that ended before theirs could be read; borrowed,
 * and may change. */
int fgt_threads_init(struct fgt_threads *threads, int task_fd,
		     const char *process_name, struct fgt_fd_budget *budget,
		     struct fgt_ring *ring);
void fgt_threads_done(struct fgt_threads *threads);

struct fgt_thread *fgt_threads_find(const struct fgt_threads *threads,
				    int32_t tid);

/*
 * Adds a thread that the kernel told of. One that is gone already gets the
 * start time 0, the process's name (it most likely never had another), and
 * leaves at the end of the next tick. NULL: no room.
 */
struct fgt_thread *fgt_threads_add(struct fgt_threads *threads, int32_t tid);

/*
 * Lists /proc/PID/task if something says that threads came or went. has_events:
 * the kernel tells of births and deaths, so its word is taken. last_pid: what
 * fgt_threads_last_pid() says, negative if unknown; FGT_LAST_PID_ASK: it is
 * read from last_pid_fd if it matters. True: they have been listed.
 */
#define FGT_LAST_PID_ASK INT64_MAX
bool fgt_threads_scan(struct fgt_threads *threads, bool has_events,
		      int64_t last_pid);
/* Are there more or fewer than when they were last counted for a scan? */
bool fgt_threads_has_other_count(const struct fgt_threads *threads);

/* What is read from /proc/sys/kernel/ns_last_pid; negative errno. */
int64_t fgt_threads_last_pid(int fd);

/* Puts a thread among the active ones. False: no memory. */
bool fgt_threads_activate(struct fgt_threads *threads,
			  struct fgt_thread *thread, uint64_t now_ns);
/* Its use as it is now: true if it ran since the last look at it, which makes
 * it an active one. False also without memory for that: it is asked again. */
bool fgt_threads_take_use(struct fgt_threads *threads,
			  struct fgt_thread *thread,
			  const struct fgt_cpu_use *use);
/* After all of them have been made idle. */
void fgt_threads_free_active(struct fgt_threads *threads);
/* Makes one idle: closes and frees what it kept, but for what follows from its
 * past. */
void fgt_threads_deactivate(struct fgt_threads *threads,
			    struct fgt_thread *thread);
/* Those that have been idle for a second, and for two periods. */
void fgt_threads_retire(struct fgt_threads *threads, uint64_t now_ns,
			uint64_t period_ns);
/* All shall be looked at in the next tick. */
void fgt_threads_look_at_all(struct fgt_threads *threads, uint64_t now_ns);

/* Re-reads a name; tells the ring if it is another one. */
void fgt_threads_rename(struct fgt_threads *threads, struct fgt_thread *thread);

/* Marks a thread as ended. */
void fgt_threads_end(struct fgt_threads *threads, struct fgt_thread *thread);
/* What a look at it found: 1: it ran, and is an active one; -ESRCH: it is gone,
 * and marked as ended: then true. */
bool fgt_threads_note(struct fgt_threads *threads, struct fgt_thread *thread,
		      int found, uint64_t now_ns);
void fgt_threads_end_all(struct fgt_threads *threads);
/* Frees those that are marked; between the ring's begin and commit. One that
 * was sampled in this tick stays until the next. */
void fgt_threads_reap(struct fgt_threads *threads);

#endif
