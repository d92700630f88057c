/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows holders and wakers. Pure; believes no number of the slice that its
 * check does not cover.
 */
#include "upload/why/culprit.h"

#include "ringbuf/base/array.h"
#include "ringbuf/slice/processes.h"

static bool has_begun(const struct fgt_doings *doings,
		      const struct fgt_ring_slice *slice, size_t thread,
		      uint32_t tick)
{
	uint32_t run = doings->thread_runs[thread];

	return run < doings->thread_runs[thread + 1] &&
	       slice->runs[run].first_tick <= tick;
}

uint32_t fgt_culprit_thread(const struct fgt_doings *doings,
			    const struct fgt_ring_slice *slice, int32_t tid,
			    uint32_t tick)
{
	/* A number may have been used by several threads in turn: the last one
	 * that had begun by then. */
	size_t at =
		FGT_ARRAY_BISECT(i, slice->thread_count,
				 slice->threads[i].tid < tid ||
					 (slice->threads[i].tid == tid &&
					  has_begun(doings, slice, i, tick)));

	if (!at || slice->threads[at - 1].tid != tid ||
	    fgt_doings_run_at(doings, slice, (uint32_t)(at - 1), tick) ==
		    FGT_ID_NONE)
		return FGT_ID_NONE;
	return (uint32_t)(at - 1);
}

const struct fgt_slice_wake *
fgt_culprit_wake(const struct fgt_doings *doings,
		 const struct fgt_ring_slice *slice, const struct fgt_run *run)
{
	uint32_t last;
	uint64_t from_ns;
	size_t at;

	/* Its reason may have become known late. */
	run = &slice->runs[doings->wait_lasts[run - slice->runs]];
	last = run->first_tick + run->tick_count - 1;
	from_ns = slice->tick_ns[last];
	at = FGT_ARRAY_BISECT(i, slice->wake_count,
			      slice->wakes[i].thread < run->thread ||
				      (slice->wakes[i].thread == run->thread &&
				       slice->wakes[i].at_ns < from_ns));
	/* It is awake, or in another wait, by the tick after the last one. */
	if (last + 1 >= slice->tick_count || at == slice->wake_count ||
	    slice->wakes[at].thread != run->thread ||
	    slice->wakes[at].at_ns > slice->tick_ns[last + 1])
		return NULL;
	return &slice->wakes[at];
}

struct waited_for {
	int32_t tid; /* 0: no thread, or not known */
	int32_t pid; /* 0: any */
};

static struct waited_for next_of(const struct fgt_doings *doings,
				 const struct fgt_ring_slice *slice,
				 const struct fgt_run *run, bool with_wakers)
{
	const struct fgt_slice_wake *wake;
	const struct fgt_slice_waker *waker;
	struct waited_for next = { 0 };
	uint32_t kind;

	if (!fgt_state_is_blocked(run->state))
		return next;
	if (run->wait)
		next.tid = slice->waits[run->wait - 1].owner_tid;
	kind = doings->doings[doings->run_doings[run - slice->runs]].kind;
	if (next.tid || kind == FGT_WAIT_SLEEP || !with_wakers)
		return next;
	wake = fgt_culprit_wake(doings, slice, run);
	waker = wake ? &slice->wakers[wake->waker] : NULL;
	if (waker && waker->context == FGT_WAKE_TASK)
		next = (struct waited_for){ waker->tid, waker->pid };
	return next;
}

/* Shortens *end to where something else may be found. FGT_ID_NONE: none. */
static uint32_t find_next_run(const struct fgt_doings *doings,
			      const struct fgt_ring_slice *slice,
			      struct waited_for next, uint32_t tick,
			      uint32_t *end)
{
	uint32_t thread;

	if (!next.tid ||
	    fgt_slice_find_thread(slice, next.tid) == slice->thread_count)
		return FGT_ID_NONE;
	thread = fgt_culprit_thread(doings, slice, next.tid, tick);
	if (thread == FGT_ID_NONE) {
		*end = tick + 1;
		return FGT_ID_NONE;
	}
	if (next.pid && fgt_slice_process_of(slice, thread).pid != next.pid)
		return FGT_ID_NONE;
	return fgt_doings_run_at(doings, slice, thread, tick);
}

static bool is_among(const uint32_t *runs, uint32_t count, uint32_t run)
{
	for (uint32_t i = 0; i < count; i++)
		if (runs[i] == run)
			return true;
	return false;
}

/* Each waits for a lock that the next one holds; or threads wake each other in
 * turn, of which none is to blame. */
static bool is_deadlock(const struct fgt_ring_slice *slice, uint32_t last)
{
	uint32_t wait = slice->runs[last].wait;

	return wait && slice->waits[wait - 1].owner_tid;
}

struct fgt_culprit fgt_culprit_find(const struct fgt_doings *doings,
				    const struct fgt_ring_slice *slice,
				    uint32_t run, uint32_t tick,
				    bool with_wakers)
{
	uint32_t seen[FGT_CULPRIT_DEPTH_MAX];
	struct fgt_culprit culprit = { .run = run, .end = UINT32_MAX };

	while (culprit.depth < FGT_CULPRIT_DEPTH_MAX) {
		const struct fgt_run *at = &slice->runs[culprit.run];
		uint32_t next;

		if (culprit.end > at->first_tick + at->tick_count)
			culprit.end = at->first_tick + at->tick_count;
		seen[culprit.depth] = culprit.run;
		next = find_next_run(doings, slice,
				     next_of(doings, slice, at, with_wakers),
				     tick, &culprit.end);
		if (next == FGT_ID_NONE)
			break;
		if (is_among(seen, culprit.depth + 1, next))
			return (struct fgt_culprit){
				.run = run,
				.end = culprit.end,
				.is_cycle = is_deadlock(slice, culprit.run),
			};
		culprit.run = next;
		culprit.depth++;
	}
	return culprit;
}
