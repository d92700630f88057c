/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clips slices to the threads of a transaction. Runs in any thread; the facts
 * come from programs: thread runs may overlap and be in any order.
 */
#include "upload/format/parts/thread_runs.h"

#include <errno.h>

#include "ringbuf/base/array.h"

/* A thread_run as ticks of a slice. */
struct range {
	int32_t tid;
	uint32_t first, end;
};

static inline void free_ranges_auto(struct range **ranges)
{
	free(*ranges);
}

static uint64_t end_of(const struct fgt_thread_run *thread_run)
{
	return thread_run->to_ns ? thread_run->to_ns : UINT64_MAX;
}

bool fgt_thread_runs_overlap(const struct fgt_thread_run *thread_runs,
			     size_t count, int32_t tid, uint64_t begin_ns,
			     uint64_t end_ns)
{
	for (size_t i = 0; i < count; i++)
		if (thread_runs[i].tid == tid &&
		    begin_ns <= end_of(&thread_runs[i]) &&
		    end_ns >= thread_runs[i].from_ns)
			return true;
	return count == 0;
}

static struct range to_range(const struct fgt_ring_slice *slice,
			     const struct fgt_thread_run *thread_run)
{
	const uint64_t *tick_ns = slice->tick_ns;

	return (struct range){
		.tid = thread_run->tid,
		.first = (uint32_t)FGT_ARRAY_BISECT(
			i, slice->tick_count, tick_ns[i] < thread_run->from_ns),
		.end = (uint32_t)FGT_ARRAY_BISECT(
			i, slice->tick_count, tick_ns[i] <= end_of(thread_run)),
	};
}

/* The first part of the run that is in a range; false: none is. */
static bool take_part(const struct fgt_transaction_facts *facts,
		      const struct range *ranges, int32_t tid,
		      struct fgt_run *run, struct fgt_run *ret_part)
{
	uint32_t run_end = run->first_tick + run->tick_count;
	uint32_t first = run_end, end = run_end;

	for (size_t i = 0; i < facts->thread_run_count; i++) {
		const struct range *range = &ranges[i];
		uint32_t begin = range->first > run->first_tick
					 ? range->first
					 : run->first_tick;

		if (range->tid != tid || range->end <= begin || begin >= first)
			continue;
		first = begin;
		end = range->end < run_end ? range->end : run_end;
	}
	if (first == run_end)
		return false;
	*ret_part = *run;
	ret_part->first_tick = first;
	ret_part->tick_count = end - first;
	run->first_tick = end;
	run->tick_count = run_end - end;
	return true;
}

/* The number of runs that stay; ret_runs: NULL, or with room for all of
 * them. */
static uint32_t clip(const struct fgt_transaction_facts *facts,
		     const struct range *ranges,
		     const struct fgt_ring_slice *slice,
		     struct fgt_run *ret_runs)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		struct fgt_run run = slice->runs[i], part;
		int32_t tid = slice->threads[run.thread].tid;

		while (run.tick_count &&
		       take_part(facts, ranges, tid, &run, &part)) {
			if (ret_runs)
				ret_runs[count] = part;
			count++;
		}
	}
	return count;
}

int fgt_thread_runs_clip(const struct fgt_transaction_facts *facts,
			 struct fgt_ring_slice *slice)
{
	FGT_AUTO(free_ranges) struct range *ranges = NULL;
	struct fgt_run *runs;

	if (facts->all_threads || !facts->thread_run_count)
		return 0;
	if (!FGT_ARRAY_NEW(ranges, facts->thread_run_count))
		return -ENOMEM;
	for (size_t i = 0; i < facts->thread_run_count; i++)
		ranges[i] = to_range(slice, &facts->thread_runs[i]);
	if (!FGT_ARRAY_NEW(runs, clip(facts, ranges, slice, NULL)))
		return -ENOMEM;
	slice->run_count = clip(facts, ranges, slice, runs);
	free(slice->runs);
	slice->runs = runs;
	/* They may belong to runs that were removed. */
	slice->edge_count = 0;
	return 0;
}
