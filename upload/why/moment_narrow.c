/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves of a slice what its last moment needs. Pure.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "upload/why/moment.h"

/* What is left of a run before the end and after the thread's last move; false:
 * nothing. */
static bool cut_run(const struct fgt_ring_slice *slice, struct fgt_run *run,
		    uint32_t end)
{
	uint32_t moved;

	if (end > run->first_tick + run->tick_count)
		end = run->first_tick + run->tick_count;
	run->tick_count = end - run->first_tick;
	moved = fgt_moment_moved_tick(slice, run->thread, end - 1);
	if (moved >= end)
		return false;
	if (run->first_tick < moved) {
		run->first_tick = moved;
		run->tick_count = end - moved;
	}
	return true;
}

static int by_time(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* When the thread of a run at the first tick began it; false: not known. */
static bool find_begin(const struct fgt_ring_slice *slice,
		       const struct fgt_run *run, uint64_t oldest_ns,
		       uint64_t *ret_ns)
{
	uint64_t ns = slice->threads[run->thread].moved_ns;

	if (!ns || ns > slice->tick_ns[slice->tick_count - 1])
		return false;
	/* What was credited to earlier ticks may have undone a later move. */
	if (ns > slice->tick_ns[0])
		ns = slice->tick_ns[0];
	*ret_ns = ns > oldest_ns ? ns : oldest_ns;
	return true;
}

/* Puts the times at which runs began before the first tick, and oldest_ns; room
 * is for one more than there are runs. false: not all are known. */
static bool list_begins(const struct fgt_ring_slice *view, uint64_t oldest_ns,
			uint64_t *begins, uint32_t *ret_count)
{
	uint32_t count = 1, kept = 1;

	begins[0] = oldest_ns;
	for (uint32_t i = 0; i < view->run_count; i++)
		if (!view->runs[i].first_tick &&
		    !find_begin(view, &view->runs[i], oldest_ns,
				&begins[count++]))
			return false;
	FGT_ARRAY_SORT(begins, count, by_time);
	for (uint32_t i = 1; i < count; i++)
		if (begins[i] != begins[kept - 1])
			begins[kept++] = begins[i];
	/* Without runs at the first tick there is nothing to reach. */
	*ret_count = count == 1 ? 0
				: kept - (begins[kept - 1] == view->tick_ns[0]);
	return true;
}

/* Makes the begins ticks of the view, which is not at oldest_ns yet. ret_ticks:
 * memory of its ticks. 1: done; 0: not all begins are known; -ENOMEM. */
static int reach_back(struct fgt_ring_slice *view, uint64_t oldest_ns,
		      struct fgt_run *runs, uint64_t **ret_ticks)
{
	uint64_t *ticks, begin_ns = 0;
	uint32_t count;

	if (!FGT_ARRAY_NEW(ticks,
			   (size_t)view->run_count + 1 + view->tick_count))
		return -ENOMEM;
	*ret_ticks = ticks;
	if (!list_begins(view, oldest_ns, ticks, &count))
		return 0;
	memcpy(ticks + count, view->tick_ns, view->tick_count * sizeof(*ticks));
	for (uint32_t i = 0; i < view->run_count; i++) {
		uint32_t first = runs[i].first_tick + count;

		if (!runs[i].first_tick &&
		    find_begin(view, &runs[i], oldest_ns, &begin_ns))
			first = (uint32_t)FGT_ARRAY_BISECT(
				at, count, ticks[at] < begin_ns);
		runs[i].tick_count += runs[i].first_tick + count - first;
		runs[i].first_tick = first;
	}
	view->tick_ns = ticks;
	view->tick_count += count;
	view->pace_count = 0; /* of ticks that have other numbers now */
	return 1;
}

/* Copies the runs that reach the end, and what they go on from, to the end of
 * ret_runs, [run_count]; returns the index of the first. */
static uint32_t keep_runs(const struct fgt_ring_slice *slice, uint32_t end,
			  struct fgt_run *ret_runs)
{
	const struct fgt_run *kept = NULL; /* the latest one */
	uint32_t first = slice->run_count;

	for (uint32_t i = slice->run_count; i-- > 0;) {
		const struct fgt_run *run = &slice->runs[i];

		if ((run->first_tick >= end ||
		     run->first_tick + run->tick_count < end) &&
		    !(kept == run + 1 && fgt_moment_goes_on(slice, run) &&
		      fgt_moment_moved_tick(slice, run->thread, end - 1) <
			      kept->first_tick))
			continue;
		kept = run;
		ret_runs[first - 1] = *run;
		first -= cut_run(slice, &ret_runs[first - 1], end);
	}
	return first;
}

int fgt_moment_narrow(const struct fgt_ring_slice *slice, uint64_t oldest_ns,
		      bool has_ended, struct fgt_ring_slice **ret_slice,
		      bool *ret_is_whole)
{
	FGT_AUTO(free) void *memory = NULL;
	FGT_AUTO(free) void *tick_memory = NULL;
	struct fgt_ring_slice view = *slice;
	uint64_t *ticks = NULL;
	int r = 1;
	struct fgt_run *runs;
	uint32_t first, end = fgt_moment_end(slice, has_ended);

	if (!FGT_ARRAY_NEW(runs, slice->run_count))
		return -ENOMEM;
	memory = runs;
	first = keep_runs(slice, end, runs);
	/* What follows is not of its life. */
	if (has_ended && end)
		view.tick_count = end;
	view.runs = runs + first;
	view.run_count = slice->run_count - first;
	/* They may belong to a run that was left out. */
	view.edge_count = view.wake_count = 0;
	if (oldest_ns < slice->tick_ns[0])
		r = reach_back(&view, oldest_ns, runs + first, &ticks);
	tick_memory = ticks;
	if (r < 0)
		return r;
	*ret_is_whole = r > 0;
	return fgt_slice_narrow_runs(&view, ret_slice);
}
