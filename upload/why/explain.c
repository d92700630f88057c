/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts an explanation together. Pure.
 */
#include "upload/why/explain.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/wait.h"

/* Parts of the range's length that are worth a line. */
#define WORTH_PART   0.05
#define PASSIVE_PART 0.25
#define WORTH_TICKS  3
/* How far beyond what was seen elsewhere, as a part of what lies between that
 * and the median. */
#define BEYOND_PART 0.5
/* What comes back (every few seconds a lock is held for long) is unusual, too,
 * if it is large, and most windows have next to nothing of it. */
#define RECURRING_FLOORS 3
#define RECURRING_TIMES	 5
#define RECURRING_PER	 4
/* Of the whole machine, in which many things happen. */
#define PRESSURE_PART 0.2
/* Standard deviations of a number of ticks that are no accident. */
#define CHANCE 4
/* Of 8 bytes; more than 13 000 things of threads share them. */
#define NUMBERS_MAX (1u << 22)

/* Ticks meet what is shorter than their distance by chance: their number is
 * spread like counts. One more: a median of 0 ticks is no proof of none. */
static bool is_chance(double ms, double usual_ms, double tick_ms)
{
	double excess_ms = ms - usual_ms;

	return excess_ms * excess_ms <
	       CHANCE * CHANCE * (usual_ms + tick_ms) * tick_ms;
}

/* More than a period where the rate was lowered. */
static double tick_ms_of(const struct fgt_windows *windows)
{
	return windows->length_ms /
	       (windows->windows[0].end - windows->windows[0].first);
}

static double floor_ms_of(const struct fgt_windows *windows, bool is_passive)
{
	double least_ms = WORTH_TICKS * tick_ms_of(windows);
	double part_ms =
		(is_passive ? PASSIVE_PART : WORTH_PART) * windows->length_ms;

	return part_ms > least_ms ? part_ms : least_ms;
}

bool fgt_explain_is_worth(const struct fgt_explanation *explanation, double ms,
			  bool is_passive)
{
	return ms >= floor_ms_of(explanation->windows, is_passive);
}

bool fgt_explain_is_unusual(const struct fgt_explanation *explanation,
			    double ms, bool is_passive,
			    const struct fgt_rank *rank)
{
	const struct fgt_windows *windows = explanation->windows;
	double floor_ms = floor_ms_of(windows, is_passive);
	double tick_ms = tick_ms_of(windows);
	uint32_t others = rank->others;

	if (windows->count <= FGT_EXPLAIN_WINDOWS_MIN)
		return ms >= floor_ms;
	if (others < FGT_EXPLAIN_WINDOWS_MIN)
		return false;
	if (ms < rank->usual_ms + floor_ms ||
	    is_chance(ms, rank->usual_ms, tick_ms))
		return false;
	if (ms >= rank->usual_ms + RECURRING_FLOORS * floor_ms &&
	    ms >= RECURRING_TIMES * rank->usual_ms &&
	    rank->place <= 1 + others / RECURRING_PER)
		return true;
	return rank->place <= 1 + others / FGT_RANK_PER_HIGH &&
	       ms >= rank->high_ms + floor_ms / 2 +
			       BEYOND_PART * (rank->high_ms - rank->usual_ms);
}

/* Time of threads in the range of which nothing is known. */
static double count_unknown(const struct fgt_explanation *explanation)
{
	const struct fgt_ring_slice *slice = explanation->slice;
	const struct fgt_windows *windows = explanation->windows;
	double ms = 0;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		uint32_t end = run->first_tick + run->tick_count;

		if (run->stack != FGT_NODE_NONE &&
		    run->state != FGT_STATE_UNKNOWN)
			continue;
		for (uint32_t tick = run->first_tick; tick < end;) {
			const struct fgt_window_part part =
				fgt_windows_part(windows, tick, end);

			ms += part.window == 0 ? part.ms : 0;
			tick = part.end;
		}
	}
	return ms;
}

static int list_pids(const struct fgt_ring_slice *slice,
		     struct fgt_id_map *pids)
{
	uint32_t id;
	int r = fgt_id_map_add(pids, (uint32_t)slice->process.pid, &id);

	for (uint32_t i = 0; i < slice->process_count && r == 0; i++)
		r = fgt_id_map_add(pids, (uint32_t)slice->processes[i].pid,
				   &id);
	return r;
}

/* Only where no thread of the slice woke it, which shows more. */
static int find_outside(struct fgt_explanation *explanation)
{
	const struct fgt_ring_slice *slice = explanation->slice;
	const struct fgt_window *range = &explanation->windows->windows[0];
	uint64_t from_ns = slice->tick_ns[range->first];
	uint64_t to_ns = slice->tick_ns[range->end - 1];
	struct fgt_id_map pids = { 0 };
	bool is_inside = false;
	int32_t pid = 0;
	int r = list_pids(slice, &pids);

	for (uint32_t i = 0; i < slice->wake_count && r == 0; i++) {
		const struct fgt_slice_wake *wake = &slice->wakes[i];
		int32_t waker = slice->wakers[wake->waker].pid;

		if (wake->thread != explanation->thread || !waker ||
		    wake->at_ns < from_ns || wake->at_ns > to_ns)
			continue;
		pid = waker;
		is_inside |= fgt_id_map_find(&pids, (uint32_t)waker) !=
			     FGT_ID_NONE;
	}
	fgt_id_map_done(&pids);
	explanation->outside_pid = is_inside ? 0 : pid;
	return r;
}

/* Windows of which it is not known are left out. */
static int explain_pressure(struct fgt_explanation *explanation,
			    enum fgt_pressure_kind kind)
{
	const struct fgt_ring_slice *slice = explanation->slice;
	const struct fgt_windows *windows = explanation->windows;
	struct fgt_explained_pressure *pressure = &explanation->pressures[kind];
	double least = PRESSURE_PART * windows->length_ms;
	FGT_AUTO(free) void *bytes = NULL;
	uint32_t count = 0;
	double *values;

	if (!FGT_ARRAY_NEW(values, windows->count))
		return -ENOMEM;
	bytes = values;
	for (uint32_t i = 0; i < windows->count; i++) {
		const struct fgt_window *window = &windows->windows[i];

		values[count] = fgt_pressure_ms(
			slice, kind, slice->tick_ns[window->first],
			slice->tick_ns[window->end - 1]);
		if (i == 0)
			pressure->ms = values[0];
		count += i == 0 || !isnan(values[count]);
	}
	pressure->rank = fgt_rank_of(values, count);
	pressure->is_unusual =
		pressure->ms >= pressure->rank.usual_ms + least &&
		pressure->ms >= pressure->rank.high_ms + least / 2 &&
		count > FGT_EXPLAIN_WINDOWS_MIN;
	return 0;
}

static int explain_pressures(struct fgt_explanation *explanation)
{
	int r = 0;

	for (int kind = 0; kind < FGT_PRESSURE_KINDS && r == 0; kind++)
		r = explain_pressure(explanation, kind);
	return r;
}

static int choose_thread(struct fgt_explanation *explanation, int32_t tid)
{
	const struct fgt_window *range = &explanation->windows->windows[0];

	for (uint32_t tick = range->first; tick < range->end; tick++) {
		explanation->thread = fgt_culprit_thread(
			explanation->doings, explanation->slice, tid, tick);
		if (explanation->thread != FGT_ID_NONE) {
			explanation->is_thread_chosen = true;
			return 0;
		}
	}
	return -ESRCH;
}

/* Each window has a number for each thing that a group of threads does: there
 * are so many windows as leave room for that. */
static int count_windows(const struct fgt_ring_slice *slice,
			 const struct fgt_doings *doings, uint32_t *ret_most)
{
	struct fgt_id_map rows = { 0 };
	uint32_t count = slice->thread_count + 1, id;
	int r = 0;

	for (uint32_t i = 0; i < slice->run_count && r == 0; i++)
		r = fgt_id_map_add(
			&rows,
			(uint64_t)doings->thread_groups[slice->runs[i].thread]
					<< 32 |
				doings->run_doings[i],
			&id);
	if (count < rows.count)
		count = rows.count;
	fgt_id_map_done(&rows);
	count = NUMBERS_MAX / count;
	if (count > FGT_WINDOWS_MAX)
		count = FGT_WINDOWS_MAX;
	*ret_most = count > FGT_EXPLAIN_WINDOWS_MIN
			    ? count
			    : FGT_EXPLAIN_WINDOWS_MIN + 1;
	return r;
}

int fgt_explain(const struct fgt_ring_slice *slice, uint64_t from_ns,
		uint64_t to_ns, int32_t tid,
		const struct fgt_filter *candidates,
		struct fgt_explanation **ret_explanation)
{
	FGT_AUTO(fgt_explanation_free)
	struct fgt_explanation *explanation = NULL;
	uint32_t windows;
	int r;

	explanation = calloc(1, sizeof(*explanation));
	if (!explanation)
		return -ENOMEM;
	explanation->slice = slice;
	explanation->thread = FGT_ID_NONE;
	explanation->has_wakes = slice->wake_count > 0;
	explanation->has_waits = slice->wait_count > 0;
	r = fgt_doings_new(slice, &explanation->doings);
	if (r == 0)
		r = count_windows(slice, explanation->doings, &windows);
	if (r == 0)
		r = fgt_windows_new(slice, from_ns, to_ns, windows,
				    &explanation->windows);
	if (r == 0 && tid)
		r = choose_thread(explanation, tid);
	else if (r == 0 && fgt_filter_is_any(candidates))
		r = fgt_filter_mark(candidates, slice, &explanation->marks);
	if (r == 0)
		r = fgt_explain_thread(explanation);
	if (r == 0)
		r = fgt_explain_causes(explanation);
	if (r == 0)
		r = explain_pressures(explanation);
	if (r == 0)
		r = find_outside(explanation);
	if (r < 0)
		return r;
	explanation->unknown_ms = count_unknown(explanation);
	*ret_explanation = FGT_TAKE(explanation);
	return 0;
}

void fgt_explanation_free(struct fgt_explanation *explanation)
{
	if (!explanation)
		return;
	fgt_doings_free(explanation->doings);
	fgt_windows_free(explanation->windows);
	free(explanation->marks);
	free(explanation);
}
