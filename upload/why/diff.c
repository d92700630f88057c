/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums what threads did, by names, since numbers of one slice mean nothing in
 * another. Pure.
 */
#include "upload/why/diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/hash.h"
#include "ringbuf/slice/pace.h"
#include "upload/format/parts/reasons.h"
#include "upload/why/place.h"
#include "upload/why/words.h"

/* While it is made. */
struct comparison {
	struct fgt_diff *diff;
	struct fgt_id_map rows; /* (threads, function, call, state) → row */
	struct fgt_id_map pids; /* (row, process) */
	/* Of the slice that is summed: */
	struct fgt_place *places;
	/* (thread, stack and state) → row + 1 */
	struct fgt_id_map known;
	uint32_t *known_rows;
	size_t known_capacity;
	/* [run_count] of each side: does the filter take it? */
	bool *marks[FGT_DIFF_SIDES];
	uint32_t marked; /* on both sides */
	bool has_processes; /* a side has several */
};

static int intern(struct fgt_diff *diff, const char *text, uint32_t *ret_id)
{
	return fgt_strings_intern(&diff->strings, text, strlen(text), ret_id);
}

static int intern_callers(struct fgt_diff *diff,
			  const struct fgt_ring_slice *slice,
			  const struct fgt_place *place, uint32_t *ret_id)
{
	struct fgt_words words = { .len = 0 };

	fgt_words_add_callers(&words, slice, place, "");
	return intern(diff, words.text, ret_id);
}

static int read_row(const struct comparison *comparison,
		    const struct fgt_ring_slice *slice,
		    const struct fgt_run *run, struct fgt_diff_row *ret_row)
{
	struct fgt_diff *diff = comparison->diff;
	struct fgt_place place = fgt_place_of(comparison->places, run->stack);
	char pattern[FGT_GROUP_NAME_MAX];
	int r;

	*ret_row = (struct fgt_diff_row){ .threads = 0 };
	fgt_group_of_thread(slice, run->thread, comparison->has_processes,
			    pattern);
	r = intern(diff, pattern, &ret_row->threads);
	if (r == 0)
		r = intern(diff, fgt_slice_string(slice, place.function),
			   &ret_row->function);
	if (r == 0)
		r = intern(diff, fgt_slice_string(slice, place.call),
			   &ret_row->call);
	if (r == 0)
		r = intern(diff, fgt_slice_state_name(slice, run->state),
			   &ret_row->state);
	if (r == 0 && fgt_state_is_blocked(run->state))
		r = intern_callers(diff, slice, &place, &ret_row->callers);
	return r;
}

static uint64_t key_of(const struct fgt_diff_row *row)
{
	const uint32_t names[] = { row->threads, row->function, row->call,
				   row->state, row->callers };

	return fgt_hash_bytes((const char *)names, sizeof(names));
}

static int find_row(struct comparison *comparison,
		    const struct fgt_ring_slice *slice,
		    const struct fgt_run *run, uint32_t *ret_row)
{
	struct fgt_diff *diff = comparison->diff;
	struct fgt_diff_row row;
	int r = read_row(comparison, slice, run, &row);

	if (r == 0)
		r = fgt_id_map_add(&comparison->rows, key_of(&row), ret_row);
	if (r < 0 || *ret_row < diff->count)
		return r;
	r = FGT_ARRAY_RESERVE(diff->rows, diff->count + 1, diff->capacity);
	if (r == 0)
		diff->rows[diff->count++] = row;
	return r;
}

/* Equal runs of a thread are looked up once. */
static int row_of(struct comparison *comparison,
		  const struct fgt_ring_slice *slice, const struct fgt_run *run,
		  uint32_t *ret_row)
{
	const uint32_t what[] = { run->thread, run->stack, run->state };
	uint32_t known = comparison->known.count, id;
	int r = fgt_id_map_add(&comparison->known,
			       fgt_hash_bytes((const char *)what, sizeof(what)),
			       &id);

	if (r == 0 && comparison->known.count > known) {
		r = FGT_ARRAY_RESERVE(comparison->known_rows, id + 1,
				      comparison->known_capacity);
		if (r == 0)
			r = find_row(comparison, slice, run,
				     &comparison->known_rows[id]);
		if (r == 0 && comparison->has_processes)
			r = fgt_group_add_pid(
				slice, run->thread, comparison->known_rows[id],
				&comparison->pids,
				&comparison->diff
					 ->rows[comparison->known_rows[id]]
					 .pids);
	}
	if (r == 0)
		*ret_row = comparison->known_rows[id];
	return r;
}

static int sum(struct comparison *comparison,
	       const struct fgt_ring_slice *slice, enum fgt_diff_side side)
{
	struct fgt_diff *diff = comparison->diff;
	uint64_t samples = 0;
	uint32_t row;
	int r;

	fgt_id_map_done(&comparison->known);
	free(FGT_TAKE(comparison->places));
	r = fgt_places_new(slice, &comparison->places);
	diff->ticks[side] = fgt_pace_weight(slice, 0, slice->tick_count);
	diff->from_ns[side] = slice->tick_ns[0];
	diff->to_ns[side] = slice->tick_ns[slice->tick_count - 1];
	diff->seconds[side] =
		(double)(diff->to_ns[side] - diff->from_ns[side]) / 1e9;
	for (uint32_t i = 0; i < slice->run_count && r == 0; i++) {
		const struct fgt_run *run = &slice->runs[i];
		uint64_t weight = fgt_pace_weight(slice, run->first_tick,
						  run->tick_count);

		if (!comparison->marks[side][i])
			continue;
		r = row_of(comparison, slice, run, &row);
		if (r == 0)
			diff->rows[row].samples[side] += weight;
		samples += weight;
	}
	diff->threads[side] =
		diff->ticks[side] ? (double)samples / (double)diff->ticks[side]
				  : 0;
	return r;
}

/* By states that have no reasons yet. */
static int mark(struct comparison *comparison, const struct fgt_filter *filter,
		const struct fgt_ring_slice *slice, enum fgt_diff_side side)
{
	int r = fgt_filter_mark(filter, slice, &comparison->marks[side]);

	for (uint32_t i = 0; r == 0 && i < slice->run_count; i++)
		comparison->marked += comparison->marks[side][i];
	return r;
}

static int sum_both(struct comparison *comparison,
		    const struct fgt_filter *filter,
		    struct fgt_ring_slice *before, struct fgt_ring_slice *after)
{
	int r = mark(comparison, filter, before, FGT_DIFF_BEFORE);

	if (r == 0)
		r = mark(comparison, filter, after, FGT_DIFF_AFTER);
	if (r == 0 && !comparison->marked)
		r = -ENODATA;
	if (r == 0)
		r = fgt_reasons_apply(before);
	if (r == 0)
		r = fgt_reasons_apply(after);
	if (r == 0)
		r = sum(comparison, before, FGT_DIFF_BEFORE);
	return r < 0 ? r : sum(comparison, after, FGT_DIFF_AFTER);
}

/* Marks rows that only their callers distinguish. */
static int find_alike_rows(struct fgt_diff *diff)
{
	FGT_AUTO(free) void *memory = NULL;
	uint64_t *keys;
	int r;

	if (!FGT_ARRAY_NEW(keys, diff->count))
		return -ENOMEM;
	memory = keys;
	for (uint32_t i = 0; i < diff->count; i++) {
		struct fgt_diff_row alike = diff->rows[i];

		alike.callers = 0;
		keys[i] = key_of(&alike);
	}
	r = fgt_id_map_tally(keys, diff->count);
	for (uint32_t i = 0; i < diff->count && r == 0; i++)
		diff->rows[i].shows_callers = keys[i] > 1;
	return r;
}

/* The largest change first. */
static int by_change(const void *left, const void *right)
{
	const struct fgt_diff_row *a = left, *b = right;
	double more = fabs(fgt_diff_change(b)) - fabs(fgt_diff_change(a));

	if (more != 0)
		return more > 0 ? 1 : -1;
	return (a->function > b->function) - (a->function < b->function);
}

/* period_ms: of the samples. */
static void average(struct fgt_diff *diff, double period_ms)
{
	for (int side = 0; side < FGT_DIFF_SIDES; side++) {
		double per = diff->instances[side]
				     ? diff->instances[side] / period_ms
				     : (double)diff->ticks[side];

		for (uint32_t i = 0; i < diff->count && per > 0; i++)
			diff->rows[i].average[side] =
				(double)diff->rows[i].samples[side] / per;
	}
	FGT_ARRAY_SORT(diff->rows, diff->count, by_change);
}

int fgt_diff_new(struct fgt_ring_slice *before, struct fgt_ring_slice *after,
		 const uint32_t instances[FGT_DIFF_SIDES],
		 const struct fgt_filter *filter, struct fgt_diff **ret_diff)
{
	FGT_AUTO(fgt_diff_free)
	struct fgt_diff *diff = calloc(1, sizeof(*diff));
	struct comparison comparison = {
		.diff = diff,
		.has_processes = before->process_count > 1 ||
				 after->process_count > 1,
	};
	int r = diff ? fgt_strings_init(&diff->strings) : -ENOMEM;

	if (r == 0)
		r = sum_both(&comparison, filter, before, after);
	if (r == 0)
		r = find_alike_rows(diff);
	free(comparison.marks[FGT_DIFF_BEFORE]);
	free(comparison.marks[FGT_DIFF_AFTER]);
	fgt_id_map_done(&comparison.rows);
	fgt_id_map_done(&comparison.pids);
	fgt_id_map_done(&comparison.known);
	free(comparison.known_rows);
	free(comparison.places);
	if (r < 0)
		return r;
	if (instances)
		memcpy(diff->instances, instances, sizeof(diff->instances));
	average(diff, (double)after->period_ns / 1e6);
	*ret_diff = FGT_TAKE(diff);
	return 0;
}

void fgt_diff_free(struct fgt_diff *diff)
{
	if (!diff)
		return;
	fgt_strings_done(&diff->strings);
	free(diff->rows);
	free(diff);
}
