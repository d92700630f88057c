/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts a slice into windows. Pure.
 */
#include "upload/why/windows.h"

#include <errno.h>
#include <stdlib.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/pace.h"

#define NS_PER_MS 1e6

static uint32_t first_tick_from(const struct fgt_ring_slice *slice, uint64_t ns)
{
	return (uint32_t)FGT_ARRAY_BISECT(at, slice->tick_count,
					  slice->tick_ns[at] < ns);
}

/* False if too little of it was recorded. */
static bool add(struct fgt_windows *windows, const struct fgt_ring_slice *slice,
		uint64_t from_ns, uint64_t end_ns, double recorded_at_least)
{
	struct fgt_window window = {
		.first = first_tick_from(slice, from_ns),
		.end = first_tick_from(slice, end_ns),
	};
	uint64_t periods =
		fgt_pace_weight(slice, window.first, window.end - window.first);
	double recorded_ms = (double)(periods * slice->period_ns) / NS_PER_MS;

	if (!periods || recorded_ms < windows->length_ms * recorded_at_least)
		return false;
	for (uint32_t tick = window.first; tick < window.end; tick++) {
		windows->of_tick[tick] = windows->count;
		windows->tick_ms[tick] = windows->length_ms *
					 fgt_pace_at(slice, tick) /
					 (double)periods;
	}
	windows->windows[windows->count++] = window;
	return true;
}

/* The window's end, or where no tick lies in it, that of one whose last tick is
 * the one before: a damaged file may have a gap of any length. */
static uint64_t skip_gap_before(const struct fgt_ring_slice *slice,
				uint64_t end_ns, uint64_t length_ns)
{
	uint32_t at = first_tick_from(slice, end_ns - length_ns);

	return at && at == first_tick_from(slice, end_ns)
		       ? slice->tick_ns[at - 1] + 1
		       : end_ns;
}

static uint64_t skip_gap_after(const struct fgt_ring_slice *slice,
			       uint64_t from_ns, uint64_t length_ns)
{
	uint32_t at = first_tick_from(slice, from_ns);

	return at < slice->tick_count &&
			       at == first_tick_from(slice, from_ns + length_ns)
		       ? slice->tick_ns[at]
		       : from_ns;
}

/* Alternates between the time before and after, so that the nearest come
 * first. */
static void add_others(struct fgt_windows *windows,
		       const struct fgt_ring_slice *slice, uint64_t from_ns,
		       uint64_t end_ns, uint32_t most)
{
	uint64_t first_ns = slice->tick_ns[0];
	uint64_t last_ns = fgt_slice_end_ns(slice);
	uint64_t length_ns = end_ns - from_ns, before = from_ns, after = end_ns;
	bool has_before = true, has_after = true;

	while ((has_before || has_after) && windows->count + 1 < most) {
		if (before >= first_ns + length_ns)
			before = skip_gap_before(slice, before, length_ns);
		if (after + length_ns <= last_ns)
			after = skip_gap_after(slice, after, length_ns);
		has_before = before >= first_ns + length_ns;
		has_after = after + length_ns <= last_ns;
		if (has_before) {
			before -= length_ns;
			(void)add(windows, slice, before, before + length_ns,
				  0.5);
		}
		if (has_after) {
			(void)add(windows, slice, after, after + length_ns,
				  0.5);
			after += length_ns;
		}
	}
}

static void add_up_ticks(struct fgt_windows *windows, uint32_t tick_count)
{
	for (uint32_t i = tick_count; i-- > 0;) {
		bool goes_on = i + 1 < tick_count &&
			       windows->of_tick[i] == windows->of_tick[i + 1];

		windows->rest[i] = goes_on ? windows->rest[i + 1] + 1 : 1;
		windows->rest_ms[i] = windows->tick_ms[i] +
				      (goes_on ? windows->rest_ms[i + 1] : 0);
	}
}

struct fgt_window_part fgt_windows_part(const struct fgt_windows *windows,
					uint32_t tick, uint32_t end)
{
	struct fgt_window_part part = {
		.window = windows->of_tick[tick],
		.end = tick + windows->rest[tick],
		.ms = windows->rest_ms[tick],
	};

	if (part.end > end) {
		part.end = end;
		part.ms -= windows->rest_ms[end];
	}
	return part;
}

int fgt_windows_new(const struct fgt_ring_slice *slice, uint64_t from_ns,
		    uint64_t to_ns, uint32_t most,
		    struct fgt_windows **ret_windows)
{
	FGT_AUTO(fgt_windows_free) struct fgt_windows *windows = NULL;
	uint32_t first, end;
	uint64_t end_ns;

	if (from_ns > to_ns)
		return -EINVAL;
	first = first_tick_from(slice, from_ns);
	end = first_tick_from(slice, to_ns == UINT64_MAX ? to_ns : to_ns + 1);
	if (end < first + 2)
		return -ENODATA;
	windows = calloc(1, sizeof(*windows));
	if (!windows || !FGT_ARRAY_NEW(windows->windows, FGT_WINDOWS_MAX) ||
	    !FGT_ARRAY_NEW(windows->of_tick, slice->tick_count) ||
	    !FGT_ARRAY_NEW(windows->tick_ms, slice->tick_count) ||
	    !FGT_ARRAY_NEW(windows->rest, slice->tick_count) ||
	    !FGT_ARRAY_NEW(windows->rest_ms, slice->tick_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->tick_count; i++)
		windows->of_tick[i] = FGT_WINDOW_NONE;
	/* A tick stands for the time up to the next one. Ticks have jitter: the
	 * next one may come before a period is over. */
	from_ns = slice->tick_ns[first];
	end_ns = slice->tick_ns[end - 1] + slice->period_ns;
	if (end < slice->tick_count && slice->tick_ns[end] < end_ns)
		end_ns = slice->tick_ns[end];
	windows->length_ms = (double)(end_ns - from_ns) / NS_PER_MS;
	if (!add(windows, slice, from_ns, end_ns, 0))
		return -ENODATA;
	add_others(windows, slice, from_ns, end_ns, most);
	add_up_ticks(windows, slice->tick_count);
	*ret_windows = FGT_TAKE(windows);
	return 0;
}

void fgt_windows_free(struct fgt_windows *windows)
{
	if (!windows)
		return;
	free(windows->windows);
	free(windows->of_tick);
	free(windows->tick_ms);
	free(windows->rest);
	free(windows->rest_ms);
	free(windows);
}

static int ascending(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

/* None is negative. */
struct fgt_rank fgt_rank_of(double *values, uint32_t count)
{
	uint32_t others = count - 1, zeros = 0;
	struct fgt_rank rank = { .place = 1, .others = others };
	double *sorted = values + 1;

	if (!others)
		return rank;
	/* Most are 0 as a rule, and are not sorted. */
	for (uint32_t i = 0; i < others; i++)
		if (sorted[i] == 0) {
			sorted[i] = sorted[zeros];
			sorted[zeros++] = 0;
		}
	FGT_ARRAY_SORT(sorted + zeros, others - zeros, ascending);
	rank.usual_ms = (sorted[(others - 1) / 2] + sorted[others / 2]) / 2;
	rank.most_ms = sorted[others - 1];
	rank.high_ms = sorted[others - 1 - others / FGT_RANK_PER_HIGH];
	rank.place += others - (uint32_t)FGT_ARRAY_BISECT(
				       at, others, sorted[at] < values[0]);
	return rank;
}
