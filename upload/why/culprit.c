/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows holders and wakers. Pure; believes no number of the slice that its
 * check does not cover.
 */
#include "upload/why/culprit.h"

#include "ringbuf/base/array.h"
#include "ringbuf/slice/processes.h"
#include "ringbuf/slice/wait.h"

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

/* The wake-up that ends what the run does at the tick, NULL if it is not known;
 * shortens *end to where another one may follow. */
static const struct fgt_slice_wake *
find_wake(const struct fgt_doings *doings, const struct fgt_ring_slice *slice,
	  const struct fgt_run *run, uint32_t tick, uint32_t *end)
{
	/* Its reason may have become known late. */
	const struct fgt_run *last =
		&slice->runs[doings->wait_lasts[run - slice->runs]];
	uint32_t next = tick + 1;
	const struct fgt_slice_wake *wake =
		fgt_wake_find(slice, run->thread, tick,
			      last->first_tick + last->tick_count, &next);

	if (next < *end)
		*end = next;
	return wake;
}

struct waited_for {
	int32_t tid; /* 0: no thread, or not known */
	int32_t pid; /* 0: any */
};

/* end: NULL: without wakers; else like that of find_wake(). */
static struct waited_for next_of(const struct fgt_doings *doings,
				 const struct fgt_ring_slice *slice,
				 const struct fgt_run *run, uint32_t tick,
				 uint32_t *end)
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
	if (next.tid || kind == FGT_WAIT_SLEEP || !end)
		return next;
	wake = find_wake(doings, slice, run, tick, end);
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

uint32_t fgt_culprit_holder(const struct fgt_doings *doings,
			    const struct fgt_ring_slice *slice, uint32_t run,
			    uint32_t tick)
{
	uint32_t end = UINT32_MAX;

	return find_next_run(
		doings, slice,
		next_of(doings, slice, &slice->runs[run], tick, NULL), tick,
		&end);
}

struct fgt_lock_cycle fgt_culprit_cycle(const struct fgt_doings *doings,
					const struct fgt_ring_slice *slice,
					uint32_t run, uint32_t tick)
{
	struct fgt_lock_cycle cycle = { .run = run, .tick = tick };
	uint32_t at = run, kept = run, count = 0;

	/* A cycle is met again by the time that twice as many were followed
	 * from the one that is kept. */
	for (uint32_t i = 1; i <= FGT_CULPRIT_CYCLE_MAX; i++) {
		at = fgt_culprit_holder(doings, slice, at, tick);
		if (at == FGT_ID_NONE)
			return cycle;
		count++;
		if (at == kept) {
			cycle.run = kept;
			cycle.count = count;
			return cycle;
		}
		if ((i & (i - 1)) == 0) {
			kept = at;
			count = 0;
		}
	}
	return cycle;
}

/* The run that a culprit's run waits for. */
static uint32_t step(const struct fgt_doings *doings,
		     const struct fgt_ring_slice *slice,
		     struct fgt_culprit *culprit, bool with_wakers)
{
	const struct fgt_run *at = &slice->runs[culprit->run];
	uint32_t tick = culprit->cycle.tick;

	if (culprit->end > at->first_tick + at->tick_count)
		culprit->end = at->first_tick + at->tick_count;
	return find_next_run(doings, slice,
			     next_of(doings, slice, at, tick,
				     with_wakers ? &culprit->end : NULL),
			     tick, &culprit->end);
}

struct fgt_culprit fgt_culprit_find(const struct fgt_doings *doings,
				    const struct fgt_ring_slice *slice,
				    uint32_t run, uint32_t tick,
				    bool with_wakers)
{
	uint32_t seen[FGT_CULPRIT_DEPTH_MAX + 1];
	struct fgt_culprit culprit = {
		.run = run,
		.end = UINT32_MAX,
		.cycle = { .run = run, .tick = tick },
	};
	uint32_t next;
	bool is_cycle;

	for (;;) {
		seen[culprit.depth] = culprit.run;
		next = step(doings, slice, &culprit, with_wakers);
		is_cycle = is_among(seen, culprit.depth + 1, next);
		if (next == FGT_ID_NONE || is_cycle ||
		    culprit.depth == FGT_CULPRIT_DEPTH_MAX)
			break;
		culprit.run = next;
		culprit.depth++;
	}
	if (next == FGT_ID_NONE)
		return culprit;
	culprit.is_cut = !is_cycle;
	/* Or threads wake each other in turn, of which none is to blame. */
	culprit.cycle = fgt_culprit_cycle(doings, slice, next, tick);
	/* What was followed behind the depth may end sooner. */
	if (!is_cycle && culprit.cycle.count)
		culprit.end = tick + 1;
	if (is_cycle || culprit.cycle.count) {
		culprit.run = run;
		culprit.depth = 0;
		culprit.is_cut = false;
	}
	return culprit;
}
