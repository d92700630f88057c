/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of one thread went. Pure.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "upload/why/explain.h"

/* Of a step's time: what the thread behind it also did. */
#define PART_WORTH 0.2

/* ms of one thread by what it did, in each window. */
struct table {
	const struct fgt_explanation *of;
	double *ms; /* [doing_count × window_count] */
	uint32_t *used; /* doings with any time */
	uint32_t used_count;
	bool *is_used; /* [doing_count] */
	uint32_t *runs; /* [doing_count]: the longest in the range, or any */
	double *run_ms; /* [doing_count]: of that run, in the range */
	double *values; /* [window_count] */
	double *present_ms; /* [window_count]: of all doings */
};

static int table_init(struct table *table,
		      const struct fgt_explanation *explanation)
{
	size_t doings = explanation->doings->count;
	size_t windows = explanation->windows->count;

	memset(table, 0, sizeof(*table));
	table->of = explanation;
	if (!FGT_ARRAY_NEW(table->ms, doings * windows) ||
	    !FGT_ARRAY_NEW(table->used, doings) ||
	    !FGT_ARRAY_NEW(table->is_used, doings) ||
	    !FGT_ARRAY_NEW(table->runs, doings) ||
	    !FGT_ARRAY_NEW(table->run_ms, doings) ||
	    !FGT_ARRAY_NEW(table->values, windows) ||
	    !FGT_ARRAY_NEW(table->present_ms, windows))
		return -ENOMEM;
	return 0;
}

static void table_done(struct table *table)
{
	free(table->ms);
	free(table->used);
	free(table->is_used);
	free(table->runs);
	free(table->run_ms);
	free(table->values);
	free(table->present_ms);
}

static double *row(struct table *table, uint32_t doing)
{
	return table->ms + (size_t)doing * table->of->windows->count;
}

static void clear(struct table *table)
{
	for (uint32_t i = 0; i < table->used_count; i++) {
		memset(row(table, table->used[i]), 0,
		       table->of->windows->count * sizeof(*table->ms));
		table->is_used[table->used[i]] = false;
		table->run_ms[table->used[i]] = 0;
	}
	table->used_count = 0;
	memset(table->present_ms, 0,
	       table->of->windows->count * sizeof(*table->present_ms));
}

/* counts: else it shows only that the thread was there. */
static void add_run(struct table *table, uint32_t run, bool counts)
{
	const struct fgt_windows *windows = table->of->windows;
	const struct fgt_run *at = &table->of->slice->runs[run];
	uint32_t doing = table->of->doings->run_doings[run];
	uint32_t end = at->first_tick + at->tick_count;
	double *ms = row(table, doing);

	if (counts && !table->is_used[doing])
		table->used[table->used_count++] = doing;
	table->is_used[doing] |= counts;
	for (uint32_t tick = at->first_tick; tick < end;) {
		const struct fgt_window_part part =
			fgt_windows_part(windows, tick, end);

		tick = part.end;
		if (part.window == FGT_WINDOW_NONE)
			continue;
		table->present_ms[part.window] += part.ms;
		if (!counts)
			continue;
		/* The row shows the longest wait: descriptors of a
		 * brief one are not read. */
		if (part.window == 0 && part.ms >= table->run_ms[doing]) {
			table->runs[doing] = run;
			table->run_ms[doing] = part.ms;
		}
		ms[part.window] += part.ms;
	}
}

/* marks: of runs; NULL: all. */
static void fill(struct table *table, uint32_t thread, const bool *marks)
{
	const struct fgt_doings *doings = table->of->doings;

	clear(table);
	for (uint32_t run = doings->thread_runs[thread];
	     run < doings->thread_runs[thread + 1]; run++)
		add_run(table, run, !marks || marks[run]);
}

/* A window in which the thread did not exist is no baseline of it. */
static bool is_comparable(const struct table *table, uint32_t window)
{
	return table->present_ms[window] >= table->of->windows->length_ms / 2;
}

static uint32_t count_windows(const struct table *table)
{
	uint32_t count = 0;

	for (uint32_t i = 1; i < table->of->windows->count; i++)
		count += is_comparable(table, i);
	return count;
}

static struct fgt_rank rank_row(struct table *table, uint32_t doing)
{
	const double *ms = row(table, doing);
	uint32_t count = 0;

	table->values[count++] = ms[0];
	for (uint32_t i = 1; i < table->of->windows->count; i++)
		if (is_comparable(table, i))
			table->values[count++] = ms[i];
	return fgt_rank_of(table->values, count);
}

/* How much of the range is beyond what the thread does in most windows; without
 * a baseline, what it did in all of it. A wait for work counts for less. */
static double distance(struct table *table)
{
	const struct fgt_explanation *of = table->of;
	uint32_t windows = count_windows(table);
	double sum = 0;

	for (uint32_t i = 0; i < table->used_count; i++) {
		const struct fgt_doing *doing =
			&of->doings->doings[table->used[i]];
		struct fgt_rank rank = rank_row(table, table->used[i]);
		double ms = row(table, table->used[i])[0];

		if (windows >= FGT_EXPLAIN_WINDOWS_MIN)
			ms = ms > rank.high_ms ? ms - rank.high_ms : 0;
		sum += fgt_doing_is_passive(of->slice, doing)
			       ? FGT_EXPLAIN_PASSIVE_PART * ms
			       : ms;
	}
	return sum;
}

static bool has_time(struct table *table)
{
	for (uint32_t i = 0; i < table->used_count; i++)
		if (row(table, table->used[i])[0] > 0)
			return true;
	return false;
}

static void choose(struct fgt_explanation *explanation, struct table *table)
{
	double most = -1;

	for (uint32_t i = 0; i < explanation->slice->thread_count; i++) {
		double own;

		fill(table, i, explanation->marks);
		/* It has ended, or has no sample that is asked for. */
		if (!has_time(table))
			continue;
		own = distance(table);
		if (own > most) {
			most = own;
			explanation->thread = i;
		}
	}
}

static int by_time(const void *left, const void *right)
{
	const struct fgt_explained_row *a = left, *b = right;

	if (a->ms != b->ms)
		return a->ms < b->ms ? 1 : -1;
	return a->doing < b->doing ? -1 : a->doing > b->doing;
}

/* The largest rows, and one for the rest, so that they add up. */
static int list_rows(struct fgt_explanation *explanation, struct table *table)
{
	struct fgt_explained_row *rows, *last;
	double left_ms = explanation->windows->length_ms;
	uint32_t count = 0, kept;

	if (!FGT_ARRAY_NEW(rows, table->used_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < table->used_count; i++) {
		uint32_t doing = table->used[i];
		double ms = row(table, doing)[0];

		if (ms > 0)
			rows[count++] = (struct fgt_explained_row){
				.doing = doing,
				.run = table->runs[doing],
				.ms = ms,
				.rank = rank_row(table, doing),
			};
	}
	FGT_ARRAY_SORT(rows, count, by_time);
	kept = count < FGT_EXPLAIN_ROWS_MAX ? count : FGT_EXPLAIN_ROWS_MAX - 1;
	for (uint32_t i = 0; i < kept; i++)
		left_ms -= rows[i].ms;
	for (uint32_t i = kept; i < count; i++)
		if (explanation->doings->doings[rows[i].doing].state ==
		    FGT_STATE_RUNNING)
			explanation->others_running_ms += rows[i].ms;
	memcpy(explanation->rows, rows, kept * sizeof(*rows));
	free(rows);
	explanation->row_count = kept;
	if (left_ms < explanation->windows->length_ms / 1000)
		return 0;
	last = &explanation->rows[explanation->row_count++];
	*last = (struct fgt_explained_row){ .doing = FGT_ID_NONE,
					    .run = FGT_ID_NONE,
					    .ms = left_ms };
	return 0;
}

/* Is that tick a part of the step before it? What another thread does meanwhile
 * may change: it is the one that is waited for. */
static bool goes_on(const struct fgt_explanation *explanation,
		    const struct fgt_explained_step *step, uint32_t run,
		    const struct fgt_culprit *culprit)
{
	const uint32_t *doings = explanation->doings->run_doings;
	const struct fgt_run *runs = explanation->slice->runs;

	return doings[step->run] == doings[run] &&
	       runs[step->culprit.run].thread == runs[culprit->run].thread;
}

static int by_length(const void *left, const void *right)
{
	const struct fgt_explained_step *a = left, *b = right;

	if (a->ms != b->ms)
		return a->ms < b->ms ? 1 : -1;
	return a->first < b->first ? -1 : a->first > b->first;
}

static int by_begin(const void *left, const void *right)
{
	const struct fgt_explained_step *a = left, *b = right;

	return a->first < b->first ? -1 : a->first > b->first;
}

static void keep_longest(struct fgt_explanation *explanation,
			 struct fgt_explained_step *steps, uint32_t count)
{
	uint32_t kept = count < FGT_EXPLAIN_STEPS_MAX ? count
						      : FGT_EXPLAIN_STEPS_MAX;

	FGT_ARRAY_SORT(steps, count, by_length);
	for (uint32_t i = kept; i < count; i++)
		explanation->steps_left_out_ms += steps[i].ms;
	FGT_ARRAY_SORT(steps, kept, by_begin);
	memcpy(explanation->steps, steps, kept * sizeof(*steps));
	explanation->step_count = kept;
}

/* What the thread behind a step did at a tick. */
static uint32_t run_behind(const struct fgt_explanation *explanation,
			   uint32_t tick)
{
	uint32_t run = fgt_doings_run_at(explanation->doings,
					 explanation->slice,
					 explanation->thread, tick);

	return fgt_culprit_find(explanation->doings, explanation->slice, run,
				tick, true)
		.run;
}

/* What it did longest, and then longest but that, if it is worth a word.
 * ms: [doing_count], 0 before and after. */
static void find_parts(const struct fgt_explanation *explanation,
		       struct fgt_explained_step *step, double *ms)
{
	const uint32_t *doings = explanation->doings->run_doings;

	for (uint32_t tick = step->first; tick < step->end; tick++)
		ms[doings[run_behind(explanation, tick)]] +=
			explanation->windows->tick_ms[tick];
	for (uint32_t i = 0; i < FGT_EXPLAIN_PARTS_MAX; i++) {
		double least_ms = i ? step->ms * PART_WORTH : 0;
		struct fgt_explained_part *part = &step->parts[i];

		for (uint32_t tick = step->first; tick < step->end; tick++) {
			uint32_t run = run_behind(explanation, tick);

			if (ms[doings[run]] > part->ms &&
			    ms[doings[run]] >= least_ms)
				*part = (struct fgt_explained_part){
					.run = run, .ms = ms[doings[run]]
				};
		}
		if (part->ms == 0)
			break;
		ms[doings[part->run]] = 0;
		step->part_count++;
	}
	for (uint32_t tick = step->first; tick < step->end; tick++)
		ms[doings[run_behind(explanation, tick)]] = 0;
}

static int list_steps(struct fgt_explanation *explanation)
{
	const struct fgt_window *range = &explanation->windows->windows[0];
	struct fgt_explained_step *steps;
	const double *tick_ms = explanation->windows->tick_ms;
	double at_ms = 0, *ms;
	uint32_t count = 0;

	if (!FGT_ARRAY_NEW(steps, range->end - range->first))
		return -ENOMEM;
	if (!FGT_ARRAY_NEW(ms, explanation->doings->count)) {
		free(steps);
		return -ENOMEM;
	}
	for (uint32_t tick = range->first; tick < range->end; tick++) {
		uint32_t run = fgt_doings_run_at(explanation->doings,
						 explanation->slice,
						 explanation->thread, tick);
		struct fgt_culprit culprit;

		at_ms += tick_ms[tick];
		if (run == FGT_ID_NONE)
			continue;
		culprit = fgt_culprit_find(explanation->doings,
					   explanation->slice, run, tick, true);
		if (!count || steps[count - 1].end != tick ||
		    !goes_on(explanation, &steps[count - 1], run, &culprit))
			steps[count++] = (struct fgt_explained_step){
				.first = tick,
				.begin_ms = at_ms - tick_ms[tick],
				.run = run,
				.culprit = culprit,
			};
		steps[count - 1].end = tick + 1;
		steps[count - 1].ms += tick_ms[tick];
	}
	keep_longest(explanation, steps, count);
	free(steps);
	for (uint32_t i = 0; i < explanation->step_count; i++)
		find_parts(explanation, &explanation->steps[i], ms);
	free(ms);
	return 0;
}

int fgt_explain_thread(struct fgt_explanation *explanation)
{
	struct table table;
	int r = table_init(&table, explanation);

	if (r == 0 && !explanation->is_thread_chosen)
		choose(explanation, &table);
	if (r == 0 && explanation->thread == FGT_ID_NONE)
		r = -ESRCH;
	if (r == 0) {
		fill(&table, explanation->thread, NULL);
		explanation->thread_windows = count_windows(&table);
		r = list_rows(explanation, &table);
	}
	table_done(&table);
	return r < 0 ? r : list_steps(explanation);
}
