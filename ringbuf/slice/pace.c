/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paces of a slice. Runs in any thread; looks up in logarithmic time, since a
 * file may claim as many paces as ticks.
 */
#include "ringbuf/slice/pace.h"

#include <errno.h>

#include "ringbuf/base/array.h"

/* Periods before tick; pace is the one in force there, NULL: the nominal. */
static uint64_t periods_before(const struct fgt_pace *pace, uint32_t tick)
{
	if (!pace)
		return tick;
	return pace->periods_before +
	       (uint64_t)(tick - pace->first_tick) * pace->periods;
}

static const struct fgt_pace *find(const struct fgt_ring_slice *slice,
				   uint32_t tick)
{
	size_t count = FGT_ARRAY_BISECT(at, slice->pace_count,
					slice->paces[at].first_tick <= tick);

	return count ? &slice->paces[count - 1] : NULL;
}

int fgt_pace_add(struct fgt_ring_slice *slice, uint32_t first_tick,
		 uint32_t periods)
{
	const struct fgt_pace *last = NULL;
	struct fgt_pace *paces;

	if (slice->pace_count &&
	    slice->paces[slice->pace_count - 1].first_tick == first_tick)
		slice->pace_count--;
	if (slice->pace_count)
		last = &slice->paces[slice->pace_count - 1];
	if (periods == (last ? last->periods : 1))
		return 0;
	paces = reallocarray(slice->paces, slice->pace_count + (size_t)1,
			     sizeof(*paces));
	if (!paces)
		return -ENOMEM;
	last = slice->pace_count ? &paces[slice->pace_count - 1] : NULL;
	paces[slice->pace_count] = (struct fgt_pace){
		.first_tick = first_tick,
		.periods = periods,
		.periods_before = periods_before(last, first_tick),
	};
	slice->paces = paces;
	slice->pace_count++;
	return 0;
}

int fgt_pace_narrow(const struct fgt_ring_slice *source, uint32_t first_tick,
		    uint32_t tick_count, struct fgt_ring_slice *result)
{
	int error = fgt_pace_add(result, 0, fgt_pace_at(source, first_tick));

	for (uint32_t i = 0; i < source->pace_count && !error; i++) {
		const struct fgt_pace *pace = &source->paces[i];

		if (pace->first_tick > first_tick &&
		    pace->first_tick - first_tick < tick_count)
			error = fgt_pace_add(result,
					     pace->first_tick - first_tick,
					     pace->periods);
	}
	return error;
}

uint32_t fgt_pace_at(const struct fgt_ring_slice *slice, uint32_t tick)
{
	const struct fgt_pace *pace = find(slice, tick);

	return pace ? pace->periods : 1;
}

uint64_t fgt_pace_ns(const struct fgt_ring_slice *slice, uint32_t tick)
{
	uint64_t periods = fgt_pace_at(slice, tick);

	/* Far beyond any real one, and sums of it do not overflow. */
	if (slice->period_ns > UINT64_MAX / 4 / periods)
		return UINT64_MAX / 4;
	return periods * slice->period_ns;
}

uint64_t fgt_pace_weight(const struct fgt_ring_slice *slice,
			 uint32_t first_tick, uint32_t tick_count)
{
	uint32_t end = first_tick + tick_count;

	if (!slice->pace_count)
		return tick_count;
	return periods_before(find(slice, end), end) -
	       periods_before(find(slice, first_tick), first_tick);
}

uint32_t fgt_pace_slowest(const struct fgt_ring_slice *slice,
			  uint64_t *ret_lowered_periods)
{
	uint64_t lowered = 0;
	uint32_t slowest = 1;

	for (uint32_t i = 0; i < slice->pace_count; i++) {
		const struct fgt_pace *pace = &slice->paces[i];
		uint32_t end = i + 1 < slice->pace_count ? pace[1].first_tick
							 : slice->tick_count;

		if (pace->periods > slowest)
			slowest = pace->periods;
		if (pace->periods > 1)
			lowered += (uint64_t)(end - pace->first_tick) *
				   pace->periods;
	}
	*ret_lowered_periods = lowered;
	return slowest;
}
