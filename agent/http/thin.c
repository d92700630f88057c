/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drops ticks of a slice. Runs in the thread of a connection, on a slice that
 * only it has.
 */
#include "agent/http/thin.h"

#include <errno.h>
#include <stdlib.h>

#include "ringbuf/slice/pace.h"

/* So that 99, 100 and 50 Hz are of 101 what they mean. */
#define HZ_TOLERANCE 1.025

/* Ticks before so many ones that are left: those whose number step divides. */
static uint32_t left_before(uint32_t tick, uint32_t step)
{
	return tick / step + (tick % step != 0);
}

static void thin_ticks(struct fgt_ring_slice *slice, uint32_t step)
{
	uint32_t count = left_before(slice->tick_count, step);

	for (uint32_t i = 0; i < count; i++)
		slice->tick_ns[i] = slice->tick_ns[(size_t)i * step];
	slice->tick_count = count;
}

static void thin_runs(struct fgt_ring_slice *slice, uint32_t step)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		struct fgt_run run = slice->runs[i];
		uint32_t first = left_before(run.first_tick, step);
		uint32_t end =
			left_before(run.first_tick + run.tick_count, step);

		if (first == end)
			continue;
		run.first_tick = first;
		run.tick_count = end - first;
		slice->runs[count++] = run;
	}
	slice->run_count = count;
}

/* Each tick that is left stands for step times as much. */
static int thin_paces(struct fgt_ring_slice *slice, uint32_t step)
{
	struct fgt_pace *paces = FGT_TAKE(slice->paces);
	uint32_t count = slice->pace_count;
	int r = 0;

	slice->pace_count = 0;
	for (uint32_t i = 0; i < count && r == 0; i++) {
		uint32_t first = left_before(paces[i].first_tick, step);

		if (first < slice->tick_count)
			r = fgt_pace_add(slice, first, paces[i].periods);
	}
	free(paces);
	return r;
}

int fgt_web_thin(struct fgt_ring_slice *slice, uint32_t hz, struct fgt_why *why)
{
	double recorded_hz = 1e9 / (double)slice->period_ns;
	uint32_t step = 1;
	int r;

	if (hz == 0)
		return 0;
	if (hz > recorded_hz * 1.01)
		return fgt_why_set(
			why, -EINVAL,
			"bad hz: \"%u\": the stacks were recorded at "
			"%.0f Hz: ask for at most that, or raise "
			"sampling.hz",
			hz, recorded_hz);
	while (recorded_hz / step > hz * HZ_TOLERANCE)
		step++;
	if (step == 1)
		return 0;
	thin_ticks(slice, step);
	thin_runs(slice, step);
	slice->edge_count = 0;
	r = thin_paces(slice, step);
	slice->period_ns *= step;
	slice->effective_hz /= step;
	slice->missed_ticks /= step;
	if (r == 0 && (slice->tick_count < 2 || slice->run_count == 0))
		return fgt_why_set(why, -ENODATA,
				   "fewer than two ticks at this hz: ask for "
				   "more seconds");
	return r;
}
