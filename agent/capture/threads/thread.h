/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is remembered of one thread of a target between two ticks. Plain data;
 * belongs to the sampler's thread.
 */
#ifndef FGT_AGENT_CAPTURE_THREADS_THREAD_H
#define FGT_AGENT_CAPTURE_THREADS_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FGT_THREADS_MAX	   65536u /* a target; more are not sampled */
#define FGT_THREAD_NO_SLOT UINT32_MAX

/* What the scheduler has counted of one thread. Compared whole, with zero
 * tolerance. */
struct fgt_cpu_use {
	uint64_t runtime_ns; /* on a CPU */
	uint64_t wait_ns; /* runnable, waiting for one */
	uint64_t switches; /* times put on a CPU */
};

struct fgt_look_thread; /* look/look.h */
struct fgt_thread_switches; /* who_ran/switches.h */

/* Known of a thread only while it is active: see fgt_thread_table_retire(). */
struct fgt_active_thread {
	struct fgt_thread *thread;
	struct fgt_look_thread *look; /* what looks remember of it */
	int syscall_fd;
	uint32_t stack_since_ms; /* when its stack_unused became so much */
	uint64_t active_ns; /* when it was last known to run */
	struct fgt_cpu_use use; /* at its last look */

	void *source; /* what the source of running stacks keeps */
	uint32_t switch_rate; /* per second, smoothed */
	uint64_t source_retry_ns; /* not worth sampling before this */
	/* One of its last samples did not hold all of its stack, and the rest
	 * of such a stack can be read: after so many that do, no more. */
	uint8_t lacks_stack;
	/* Lowest place on another stack at which a signal interrupted it, whose
	 * handler has its own; 0: none that a sample lacked. */
	uint64_t interrupted_sp;
	/* A signal has shown an alternate stack with room for two. */
	bool has_room_aside;
	/* Of a source that has events and timers: which of them this is,
	 * whether the event must fire more often, what the thread used in a
	 * tick in which it ran, smoothed over some eight, and when it may have
	 * an event again. */
	bool has_event, is_often_in_kernel;
	uint8_t event_refusals;
	uint32_t ran_ns;
	uint64_t event_retry_ns;
};

/*
 * Only of threads whose schedstat is read, or whose switches the kernel
 * reports: hardly any in a process that samples itself.
 */
struct fgt_thread_aside {
	int schedstat_fd;
	int32_t wait_due_us; /* of its account, while it is idle */
	uint64_t wait_ns, switch_count; /* of its use, likewise */
	uint64_t shown_wait_ns; /* of use.wait_ns, as ticks without a sample */
	struct fgt_thread_switches *switches; /* NULL: not watched */
};

/* Many of many threads are idle: no larger than it must be. */
struct fgt_thread {
	int32_t tid;
	uint32_t slot; /* in the ring; FGT_THREAD_NO_SLOT: not sampled */
	uint32_t start_time; /* the low half: 497 days until it comes again */
	uint32_t inode; /* of its directory: another one, another thread? */

	uint32_t hash_next : 17; /* see thread_store.c */
	uint32_t stack_unused : 10; /* pages of a small one, at its end */
	bool is_ended : 1; /* leaves the table at the end of the tick */
	bool is_replaced : 1; /* its number belongs to another one already */
	bool is_listed : 1; /* by the scan that goes on */
	bool has_new_name : 1; /* reported by the kernel */
	bool is_new : 1; /* nothing known of it yet */
	bool is_put_off : 1; /* … at its first tick, which it has not got */
	bool has_aside : 1; /* see fgt_thread_store_aside() */
	bool has_run : 1; /* since the last tick, by the provider */
	bool has_switched : 1; /* was put on a CPU since its state was set */
	/* In the ring; without switches also if it is shown runnable. */
	bool is_shown_running : 1;
	bool needs_look : 1; /* though it may not have run again */
	bool is_incomplete : 1; /* its last stack led where no map was known, or
				 * its rule or wait was not read yet */
	bool has_unsafe_call : 1; /* seen in one that a stop would break */
	bool is_sampled : 1; /* a perf sample fell on it in this tick */
	bool is_restless : 1; /* was found so; see look_polled.c */
	bool takes_signals : 1; /* was seen in sigtimedwait(2) */
	bool is_fragile : 1; /* a signal would break what it does */
	bool is_followed : 1; /* its wait: see fgt_look_follow() */
	uint8_t followed_waits : 2; /* such waits so far, modulo 4 */
	uint8_t young_ticks : 4; /* at which its name was read again */
	uint8_t open_looks : 4; /* at which it did not block the signal */
	uint8_t signal_refusals : 4; /* looks since at which it did */

	uint16_t call_state; /* of its last blocking call */
	uint16_t read_units; /* see fgt_thread_read_bytes() */
	int32_t due_us; /* of its account, while it is idle */
	uint64_t runtime_ns; /* of its use, likewise */
	struct fgt_active_thread *active; /* NULL: idle; it moves */
};

_Static_assert(sizeof(struct fgt_thread) == 48, "there may be thousands");

#define FGT_THREAD_READ_UNIT 16u /* bytes; a read is at most 256 KiB */

/* Bytes of stack that its last read needed, or a few more; 0: not known. */
static inline uint32_t fgt_thread_read_bytes(const struct fgt_thread *thread)
{
	return thread->read_units * FGT_THREAD_READ_UNIT;
}

static inline void fgt_thread_set_read_bytes(struct fgt_thread *thread,
					     size_t bytes)
{
	thread->read_units = (uint16_t)((bytes + FGT_THREAD_READ_UNIT - 1) /
					FGT_THREAD_READ_UNIT);
}

#endif
