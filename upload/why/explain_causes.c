/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What took more time than usual, in all threads: each tick of a thread goes
 * to the thread that it waited for at last, and to what that one did. Pure.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "upload/why/explain.h"

/* What one group of threads did, or kept others waiting with. */
struct cause {
	uint32_t group, doing;
	uint32_t run, waiter_run; /* in the range; FGT_ID_NONE */
	uint32_t threads, waiters; /* in the range */
	uint32_t last_thread, last_waiter; /* counted last, + 1 */
	double own_ms, waited_ms; /* in the range */
	struct fgt_lock_cycle cycle;
};

struct cause_tally {
	const struct fgt_explanation *of;
	struct fgt_id_map map; /* group and doing → cause */
	struct cause *causes;
	uint32_t capacity;
	double *ms; /* [capacity of causes × window_count] */
	size_t ms_capacity;
	/* [group_count × window_count]: time of the group's threads there */
	double *present_ms;
	uint32_t looks; /* for holders */
};

static void tally_done(struct cause_tally *tally)
{
	fgt_id_map_done(&tally->map);
	free(tally->causes);
	free(tally->ms);
	free(tally->present_ms);
}

/* Room for one more cause, with no time yet. */
static int add_cause(struct cause_tally *tally, uint32_t group, uint32_t doing)
{
	uint32_t windows = tally->of->windows->count;
	size_t at = tally->map.count - 1;
	int r = FGT_ARRAY_GROW(tally->causes, at, tally->capacity);

	if (r == 0)
		r = FGT_ARRAY_RESERVE(tally->ms, (at + 1) * windows,
				      tally->ms_capacity);
	if (r < 0)
		return r;
	memset(tally->ms + at * windows, 0, windows * sizeof(*tally->ms));
	tally->causes[at] = (struct cause){ .group = group,
					    .doing = doing,
					    .run = FGT_ID_NONE,
					    .waiter_run = FGT_ID_NONE };
	return 0;
}

static int find_cause(struct cause_tally *tally, uint32_t run,
		      uint32_t *ret_cause)
{
	const struct fgt_doings *doings = tally->of->doings;
	uint32_t thread = tally->of->slice->runs[run].thread;
	uint32_t group = doings->thread_groups[thread];
	uint32_t doing = doings->run_doings[run], before = tally->map.count;
	int r = fgt_id_map_add(&tally->map, ((uint64_t)group << 32) | doing,
			       ret_cause);

	if (r == 0 && *ret_cause == before)
		r = add_cause(tally, group, doing);
	return r;
}

static double *present_of(const struct cause_tally *tally, uint32_t run)
{
	const struct fgt_explanation *of = tally->of;
	uint32_t group = of->doings->thread_groups[of->slice->runs[run].thread];

	return tally->present_ms + (size_t)group * of->windows->count;
}

/* A window in which neither these threads existed nor those that they kept
 * waiting is no baseline. */
static bool is_comparable(const struct cause_tally *tally,
			  const struct cause *cause, uint32_t window)
{
	return present_of(tally, cause->run)[window] > 0 ||
	       (cause->waiter_run != FGT_ID_NONE &&
		present_of(tally, cause->waiter_run)[window] > 0);
}

/* A thread's ticks come one after another, so that it is counted once. */
static void count_in_range(struct cause_tally *tally, uint32_t at, uint32_t run,
			   const struct fgt_culprit *culprit, double ms)
{
	struct cause *cause = &tally->causes[at];
	uint32_t thread = tally->of->slice->runs[run].thread + 1;

	if (culprit->cycle.count)
		cause->cycle = culprit->cycle;
	cause->run = culprit->run;
	if (culprit->depth == 0) {
		cause->threads += cause->last_thread != thread;
		cause->last_thread = thread;
		cause->own_ms += ms;
		return;
	}
	cause->waiters += cause->last_waiter != thread;
	cause->last_waiter = thread;
	cause->waited_ms += ms;
	cause->waiter_run = run;
}

/* Holders are followed so often; after that each thread is its own cause. Many
 * steps count for more. */
static struct fgt_culprit find_culprit(struct cause_tally *tally, uint32_t run,
				       uint32_t tick)
{
	struct fgt_culprit culprit = { .run = run, .end = UINT32_MAX };

	if (tally->looks >= FGT_EXPLAIN_LOOKS_MAX)
		return culprit;
	culprit = fgt_culprit_find(tally->of->doings, tally->of->slice, run,
				   tick, false);
	tally->looks += culprit.is_cut || culprit.cycle.count >
						  FGT_CULPRIT_DEPTH_MAX
				? FGT_CULPRIT_CYCLE_MAX / FGT_CULPRIT_DEPTH_MAX
				: 1;
	return culprit;
}

/* Ticks of a run from the given one on that have one culprit, and are of one
 * window; returns the tick behind them. */
static int add_ticks(struct cause_tally *tally, uint32_t run, uint32_t end,
		     uint32_t *tick)
{
	const struct fgt_windows *windows = tally->of->windows;
	struct fgt_window_part part = fgt_windows_part(windows, *tick, end);
	struct fgt_culprit culprit = { .run = run };
	uint32_t at = 0;
	int r = 0;

	if (part.window != FGT_WINDOW_NONE) {
		culprit = find_culprit(tally, run, *tick);
		if (culprit.end < part.end)
			part = fgt_windows_part(windows, *tick, culprit.end);
		r = find_cause(tally, culprit.run, &at);
	}
	*tick = part.end;
	if (r < 0 || part.window == FGT_WINDOW_NONE)
		return r;
	present_of(tally, run)[part.window] += part.ms;
	tally->ms[(size_t)at * windows->count + part.window] += part.ms;
	if (part.window == 0)
		count_in_range(tally, at, run, &culprit, part.ms);
	return 0;
}

static int add_runs(struct cause_tally *tally)
{
	const struct fgt_ring_slice *slice = tally->of->slice;
	int r = 0;

	for (uint32_t run = 0; run < slice->run_count; run++) {
		uint32_t tick = slice->runs[run].first_tick;
		uint32_t end = tick + slice->runs[run].tick_count;

		while (tick < end && r == 0)
			r = add_ticks(tally, run, end, &tick);
	}
	return r;
}

/* Only of what was in the range. */
static struct fgt_explained_cause judge(struct cause_tally *tally, uint32_t at,
					double *values)
{
	const struct cause *cause = &tally->causes[at];
	uint32_t windows = tally->of->windows->count, count = 0;
	const double *ms = tally->ms + (size_t)at * windows;
	struct fgt_explained_cause judged = {
		.group = cause->group,
		.doing = cause->doing,
		.run = cause->run,
		.threads = cause->threads,
		.own_ms = cause->own_ms,
		.waited_ms = cause->waited_ms,
		.waiters = cause->waiters,
		.waiter_run = cause->waiter_run,
		.cycle = cause->cycle,
	};

	values[count++] = ms[0];
	for (uint32_t i = 1; i < windows; i++)
		if (is_comparable(tally, cause, i))
			values[count++] = ms[i];
	judged.rank = fgt_rank_of(values, count);
	judged.excess_ms = values[0] - judged.rank.usual_ms;
	return judged;
}

static bool is_passive(const struct fgt_explanation *explanation,
		       uint32_t doing)
{
	return fgt_doing_is_passive(explanation->slice,
				    &explanation->doings->doings[doing]);
}

static double weight_of(const struct fgt_explanation *explanation,
			const struct fgt_explained_cause *cause)
{
	return cause->excess_ms * (is_passive(explanation, cause->doing)
					   ? FGT_EXPLAIN_PASSIVE_PART
					   : 1);
}

/* Keeps causes[] ordered by weight; the least one falls off the end. */
static void insert(struct fgt_explanation *explanation,
		   const struct fgt_explained_cause *cause)
{
	double weight = weight_of(explanation, cause);
	uint32_t at = explanation->cause_count;

	if (at < FGT_EXPLAIN_CAUSES_MAX)
		explanation->cause_count++;
	else if (weight <= weight_of(explanation, &explanation->causes[--at]))
		return;
	for (; at > 0 &&
	       weight_of(explanation, &explanation->causes[at - 1]) < weight;
	     at--)
		explanation->causes[at] = explanation->causes[at - 1];
	explanation->causes[at] = *cause;
}

/* Threads that the other windows do not have are not unlike them. */
static void note_fresh(struct fgt_explanation *explanation,
		       const struct fgt_explained_cause *cause)
{
	struct fgt_explained_cause *fresh = &explanation->fresh;

	if (explanation->windows->count > FGT_EXPLAIN_WINDOWS_MIN &&
	    cause->rank.others < FGT_EXPLAIN_WINDOWS_MIN &&
	    cause->own_ms > fresh->own_ms &&
	    !is_passive(explanation, cause->doing) &&
	    fgt_explain_is_worth(explanation, cause->own_ms, false))
		*fresh = *cause;
}

int fgt_explain_causes(struct fgt_explanation *explanation)
{
	struct cause_tally tally = { .of = explanation };
	double *values = NULL;
	size_t windows = explanation->windows->count;
	int r = 0;

	if (!FGT_ARRAY_NEW(values, windows) ||
	    !FGT_ARRAY_NEW(tally.present_ms,
			   explanation->doings->group_count * windows))
		r = -ENOMEM;
	if (r == 0)
		r = add_runs(&tally);
	explanation->has_all_holders = tally.looks < FGT_EXPLAIN_LOOKS_MAX;
	for (uint32_t i = 0; r == 0 && i < tally.map.count; i++) {
		double ms = tally.causes[i].own_ms + tally.causes[i].waited_ms;
		struct fgt_explained_cause cause;

		if (ms <= 0)
			continue;
		cause = judge(&tally, i, values);
		note_fresh(explanation, &cause);
		if (fgt_explain_is_unusual(explanation, ms,
					   is_passive(explanation, cause.doing),
					   &cause.rank))
			insert(explanation, &cause);
	}
	free(values);
	tally_done(&tally);
	return r;
}
