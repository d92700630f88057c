/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every thread does at one instant: equal stacks together, and threads
 * that wait for each other.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_UPLOAD_WHY_MOMENT_H
#define FGT_UPLOAD_WHY_MOMENT_H

#include "ringbuf/base/owner.h"
#include "ringbuf/slice/slice.h"

/* Threads with the same stack and state, that wait for the same kind of thing
 * and the same lock. */
struct fgt_moment_group {
	uint32_t run; /* of its first thread */
	uint32_t first, count; /* of threads[] */
	uint32_t first_tick; /* since when, of the one that is longest there */
	/* false: its process was not sampled before, or it waits again and
	 * again */
	bool is_begin_known;
	bool is_repeated; /* seen for longer than it waits at most */
	bool is_same_wait; /* also the same descriptor, child or time */
};

struct fgt_moment {
	const struct fgt_ring_slice *slice; /* borrowed */
	uint32_t tick; /* the last one up to the instant */
	uint32_t *runs; /* [slice->thread_count]: at the tick; FGT_ID_NONE */
	uint32_t *first_ticks; /* [slice->process_count] */
	struct fgt_moment_group *groups; /* by their first thread's tid */
	uint32_t group_count;
	uint32_t *threads; /* [thread_count], by group, then tid */
	uint32_t thread_count;
	/* Runs of threads each of which waits for a lock that the next one
	 * holds, and the last for one of the first; cycles one after
	 * another. */
	uint32_t *cycle_runs;
	uint32_t *cycle_ends; /* [cycle_count]: index behind its last run */
	uint32_t cycle_count;
};

/* tid 0: all threads. shown: [run_count], runs without it are in no group, but
 * in cycles; NULL: all. at_ns UINT64_MAX: the last tick that has threads, before
 * a signal ended them. The slice must outlive it. -ENODATA: no tick up to at_ns, or no such thread at
 * it; -ENOMEM. */
int fgt_moment_new(const struct fgt_ring_slice *slice, uint64_t at_ns,
		   int32_t tid, const bool *shown,
		   struct fgt_moment **ret_moment);
/*
 * What a moment at the last tick that has threads needs of a slice, as an
 * independent slice: the runs that reach that tick, and what the same threads
 * did before without a change of stack or state, a switch or a wake-up. Runs
 * from before the slice begin at moved_ns of their threads, at oldest_ns at the
 * earliest. has_ended: the process ends with the slice; the last tick is the one
 * before it lost the first of the threads that it had then. ret_is_whole: that was known of all of them, or there is nothing
 * older. -ENODATA if there are no threads, -ENOMEM.
 */
int fgt_moment_narrow(const struct fgt_ring_slice *slice, uint64_t oldest_ns,
		      bool has_ended, struct fgt_ring_slice **ret_slice,
		      bool *ret_is_whole);
void fgt_moment_free(struct fgt_moment *moment);
FGT_DEFINE_AUTO(struct fgt_moment *, fgt_moment_free);

/* ---- Between the parts of a moment --------------------------------------- */

/* Behind the tick that is now; 0: no thread has any. has_ended: as above. */
uint32_t fgt_moment_end(const struct fgt_ring_slice *slice, bool has_ended);
/* Does the thread do the same in its next run? The reason may be known later. */
bool fgt_moment_goes_on(const struct fgt_ring_slice *slice,
			const struct fgt_run *run);
/* The last tick, up to that one, before which the thread got or left a CPU, or
 * was woken: ticks find threads that nap in the same place again and again. */
uint32_t fgt_moment_moved_tick(const struct fgt_ring_slice *slice,
			       uint32_t thread, uint32_t tick);
/* Of all threads at the tick: cycle_runs and cycle_ends. -ENOMEM. */
int fgt_moment_find_cycles(struct fgt_moment *moment);

#endif
