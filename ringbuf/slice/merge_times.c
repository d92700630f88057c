/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The times of a merged slice. One sampler ticks all its targets at the same
 * instants, so that the ticks of one are mostly those of the others. Runs in
 * any thread.
 */
#include <errno.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/merge.h"
#include "ringbuf/slice/pace.h"

static int compare_times(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static int unite_ticks(struct fgt_merge *merge)
{
	struct fgt_ring_slice *result = merge->result;
	size_t total = 0, used = 0;

	for (uint32_t i = 0; i < merge->count; i++)
		total += merge->sources[i].slice->tick_count;
	if (total > UINT32_MAX || !FGT_ARRAY_NEW(result->tick_ns, total))
		return -ENOMEM;
	for (uint32_t i = 0; i < merge->count; i++) {
		const struct fgt_ring_slice *slice = merge->sources[i].slice;

		memcpy(result->tick_ns + used, slice->tick_ns,
		       slice->tick_count * sizeof(*slice->tick_ns));
		used += slice->tick_count;
	}
	FGT_ARRAY_SORT(result->tick_ns, total, compare_times);
	used = 0;
	for (size_t i = 0; i < total; i++)
		if (!used || result->tick_ns[i] != result->tick_ns[used - 1])
			result->tick_ns[used++] = result->tick_ns[i];
	result->tick_count = (uint32_t)used;
	return 0;
}

/* Where a tick ends that the next one does not: a missed one is no part of it.
 * Never behind the next one, whatever the period of a hostile slice: only
 * differences are compared. */
static uint64_t end_of(const struct fgt_ring_slice *slice, uint32_t tick)
{
	uint64_t begin_ns = slice->tick_ns[tick], gap_ns;
	uint64_t length_ns = fgt_pace_ns(slice, tick) - slice->period_ns / 2;

	if (tick + 1 < slice->tick_count) {
		gap_ns = slice->tick_ns[tick + 1] - begin_ns;
		if (gap_ns < length_ns || gap_ns - length_ns < slice->period_ns)
			return slice->tick_ns[tick + 1];
	}
	return begin_ns + length_ns;
}

static int map_ticks(const struct fgt_ring_slice *result,
		     struct fgt_merge_source *source)
{
	const struct fgt_ring_slice *slice = source->slice;
	uint32_t at = 0;

	if (!FGT_ARRAY_NEW(source->ticks, slice->tick_count) ||
	    !FGT_ARRAY_NEW(source->ends, slice->tick_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->tick_count; i++) {
		uint64_t end_ns = end_of(slice, i);

		while (result->tick_ns[at] != slice->tick_ns[i])
			at++;
		source->ticks[i] = at++;
		while (at < result->tick_count && result->tick_ns[at] < end_ns)
			at++;
		source->ends[i] = at;
	}
	return 0;
}

/* Periods of a source's tick k from the result's tick on, which it covers: up to
 * the next one, of another source, or to its end. */
static uint32_t periods_from(const struct fgt_merge *merge,
			     const struct fgt_merge_source *source, uint32_t k,
			     uint32_t tick)
{
	const struct fgt_ring_slice *slice = source->slice;
	uint32_t pace = fgt_pace_at(slice, k);
	uint64_t end_ns = tick + 1 < source->ends[k]
				  ? merge->result->tick_ns[tick + 1]
				  : slice->tick_ns[k] + fgt_pace_ns(slice, k);
	uint64_t periods =
		(end_ns - merge->result->tick_ns[tick] + slice->period_ns / 2) /
		slice->period_ns;

	if (source->ends[k] - source->ticks[k] == 1)
		return pace;
	return periods < 1 ? 1 : periods > pace ? pace : (uint32_t)periods;
}

/* A tick stands for as long as the fastest of its slices lets it. */
static int add_paces(struct fgt_merge *merge)
{
	struct fgt_ring_slice *result = merge->result;
	uint32_t *periods;
	int r = 0;

	if (!FGT_ARRAY_NEW(periods, result->tick_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < merge->count; i++) {
		const struct fgt_merge_source *source = &merge->sources[i];

		for (uint32_t k = 0; k < source->slice->tick_count; k++) {
			for (uint32_t t = source->ticks[k]; t < source->ends[k];
			     t++) {
				uint32_t of = periods_from(merge, source, k, t);

				if (!periods[t] || periods[t] > of)
					periods[t] = of;
			}
		}
	}
	for (uint32_t t = 0; t < result->tick_count && r == 0; t++)
		r = fgt_pace_add(result, t, periods[t] ? periods[t] : 1);
	free(periods);
	return r;
}

static int compare_anchors(const void *left, const void *right)
{
	const struct fgt_anchor *a = left, *b = right;

	return (a->mono_ns > b->mono_ns) - (a->mono_ns < b->mono_ns);
}

static int unite_anchors(struct fgt_merge *merge)
{
	struct fgt_ring_slice *result = merge->result;
	size_t total = 0, used = 0;

	for (uint32_t i = 0; i < merge->count; i++)
		total += merge->sources[i].slice->anchor_count;
	if (!FGT_ARRAY_NEW(result->anchors, total))
		return -ENOMEM;
	for (uint32_t i = 0; i < merge->count; i++) {
		const struct fgt_ring_slice *slice = merge->sources[i].slice;

		memcpy(result->anchors + used, slice->anchors,
		       slice->anchor_count * sizeof(*slice->anchors));
		used += slice->anchor_count;
	}
	FGT_ARRAY_SORT(result->anchors, total, compare_anchors);
	used = 0;
	for (size_t i = 0; i < total; i++)
		if (!used || result->anchors[i].mono_ns !=
				     result->anchors[used - 1].mono_ns)
			result->anchors[used++] = result->anchors[i];
	result->anchor_count = (uint32_t)used;
	return 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* What one sampler missed, all its targets lack. */
static void count(struct fgt_merge *merge)
{
	struct fgt_ring_slice *result = merge->result;
	uint32_t last = result->tick_count - 1;

	for (uint32_t i = 0; i < merge->count; i++) {
		const struct fgt_ring_slice *slice = merge->sources[i].slice;

		if (slice->requested_from_ns < result->requested_from_ns)
			result->requested_from_ns = slice->requested_from_ns;
		result->requested_to_ns =
			larger(result->requested_to_ns, slice->requested_to_ns);
		result->missed_ticks =
			larger(result->missed_ticks, slice->missed_ticks);
		result->evicted_ticks =
			larger(result->evicted_ticks, slice->evicted_ticks);
		result->lapped_ticks =
			larger(result->lapped_ticks, slice->lapped_ticks);
		result->brief_threads += slice->brief_threads;
		result->brief_cpu_ns += slice->brief_cpu_ns;
		result->lost_wakes += slice->lost_wakes;
	}
	if (last)
		result->effective_hz =
			last * 1e9 /
			(double)(result->tick_ns[last] - result->tick_ns[0]);
}

int fgt_merge_times(struct fgt_merge *merge)
{
	const struct fgt_ring_slice *first = merge->sources[0].slice;
	const struct fgt_ring_slice *longest = first;
	int r = unite_ticks(merge);

	/* All are of one machine, each for the ticks that it has. */
	for (uint32_t i = 1; i < merge->count; i++)
		if (merge->sources[i].slice->pressure_count >
		    longest->pressure_count)
			longest = merge->sources[i].slice;
	merge->result->period_ns = first->period_ns;
	merge->result->requested_from_ns = first->requested_from_ns;
	merge->result->effective_hz = first->effective_hz;
	for (uint32_t i = 0; i < merge->count && r == 0; i++)
		r = map_ticks(merge->result, &merge->sources[i]);
	if (r == 0)
		r = add_paces(merge);
	if (r == 0)
		r = unite_anchors(merge);
	if (r == 0)
		r = fgt_pressures_copy(longest->pressures,
				       longest->pressure_count, merge->result);
	if (r == 0)
		count(merge);
	return r;
}
