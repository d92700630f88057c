/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows holders and wakers. Pure; believes no number of the slice that its
 * check does not cover.
 */
#include "upload/why/culprit.h"

#include "ringbuf/base/array.h"
#include "ringbuf/slice/processes.h"

uint32_t fgt_culprit_thread(const struct fgt_doings *doings,
			    const struct fgt_ring_slice *slice, int32_t tid,
			    uint32_t tick)
{
	uint32_t at = fgt_slice_find_thread(slice, tid);

	/* A number may have been used by several threads. */
	for (; at < slice->thread_count && slice->threads[at].tid == tid; at++)
		if (fgt_doings_run_at(doings, slice, at, tick) != FGT_ID_NONE)
			return at;
	return FGT_ID_NONE;
}

/* The last run of the same wait: its reason may have become known late. */
static const struct fgt_run *last_of_wait(const struct fgt_ring_slice *slice,
					  const struct fgt_run *run)
{
	const struct fgt_run *end = slice->runs + slice->run_count;
	const struct fgt_run *next = run + 1;

	while (next < end && next->thread == run->thread &&
	       next->first_tick == run->first_tick + run->tick_count &&
	       next->stack == run->stack && next->state == run->state &&
	       (!run->wait || next->wait == run->wait))
		run = next++;
	return run;
}

const struct fgt_slice_wake *
fgt_culprit_wake(const struct fgt_ring_slice *slice, const struct fgt_run *run)
{
	uint32_t last;
	uint64_t from_ns;
	size_t at;

	run = last_of_wait(slice, run);
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

/* The thread that it waits for, FGT_ID_NONE: none, or not known. */
static uint32_t next_thread(const struct fgt_doings *doings,
			    const struct fgt_ring_slice *slice,
			    const struct fgt_run *run, uint32_t tick,
			    bool with_wakers)
{
	const struct fgt_slice_wake *wake;
	const struct fgt_slice_waker *waker;
	uint32_t kind, thread;

	if (!fgt_state_is_blocked(run->state))
		return FGT_ID_NONE;
	if (run->wait && slice->waits[run->wait - 1].owner_tid)
		return fgt_culprit_thread(doings, slice,
					  slice->waits[run->wait - 1].owner_tid,
					  tick);
	kind = doings->doings[doings->run_doings[run - slice->runs]].kind;
	if (kind == FGT_WAIT_SLEEP || !with_wakers)
		return FGT_ID_NONE;
	wake = fgt_culprit_wake(slice, run);
	waker = wake ? &slice->wakers[wake->waker] : NULL;
	if (!waker || waker->context != FGT_WAKE_TASK)
		return FGT_ID_NONE;
	thread = fgt_culprit_thread(doings, slice, waker->tid, tick);
	if (thread == FGT_ID_NONE ||
	    fgt_slice_process_of(slice, thread).pid != waker->pid)
		return FGT_ID_NONE;
	return thread;
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
static struct fgt_culprit end_of_cycle(const struct fgt_ring_slice *slice,
				       uint32_t first, uint32_t last)
{
	uint32_t wait = slice->runs[last].wait;

	return (struct fgt_culprit){
		.run = first,
		.is_cycle = wait && slice->waits[wait - 1].owner_tid,
	};
}

struct fgt_culprit fgt_culprit_find(const struct fgt_doings *doings,
				    const struct fgt_ring_slice *slice,
				    uint32_t run, uint32_t tick,
				    bool with_wakers)
{
	uint32_t seen[FGT_CULPRIT_DEPTH_MAX];
	struct fgt_culprit culprit = { .run = run };

	while (culprit.depth < FGT_CULPRIT_DEPTH_MAX) {
		uint32_t thread = next_thread(doings, slice,
					      &slice->runs[culprit.run], tick,
					      with_wakers);
		uint32_t next;

		seen[culprit.depth] = culprit.run;
		if (thread == FGT_ID_NONE)
			break;
		next = fgt_doings_run_at(doings, slice, thread, tick);
		if (next == FGT_ID_NONE)
			break;
		if (is_among(seen, culprit.depth + 1, next))
			return end_of_cycle(slice, run, culprit.run);
		culprit.run = next;
		culprit.depth++;
	}
	return culprit;
}
