/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums blocked samples by what threads waited for, and prints the sums: names
 * in them come from outside, and must not move the cursor.
 */
#include "agent/cli/summary/summary_waits.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "agent/cli/summary/summary.h"
#include "ringbuf/base/array.h"
#include "ringbuf/slice/pace.h"

#define THREADS_COLUMNS 22 /* at least */
#define WORDS_COLUMNS	200
#define CLEAR_PERCENT	90

/* While it is made. */
struct wait_tally {
	struct fgt_summary_waits *waits;
	struct fgt_id_map rows; /* (group, doing) → row */
	struct fgt_id_map reasons; /* (row, wait) → index into samples */
	struct fgt_id_map pids; /* (row, process) */
	uint64_t *samples; /* of each reason */
	size_t row_capacity, reason_capacity;
	uint32_t *last_threads; /* of each row, index + 1 */
	size_t thread_capacity;
};

static int find_row(struct wait_tally *tally, uint32_t thread, uint32_t doing,
		    uint32_t *ret_row)
{
	struct fgt_summary_waits *waits = tally->waits;
	uint32_t group = waits->doings->thread_groups[thread];
	uint32_t known = tally->rows.count;
	int r = fgt_id_map_add(&tally->rows, (uint64_t)group << 32 | doing,
			       ret_row);

	if (r < 0 || tally->rows.count == known)
		return r;
	r = FGT_ARRAY_RESERVE(waits->rows, known + 1, tally->row_capacity);
	if (r == 0)
		r = FGT_ARRAY_RESERVE(tally->last_threads, known + 1,
				      tally->thread_capacity);
	if (r < 0)
		return r;
	waits->rows[known] = (struct fgt_wait_row){
		.group = group,
		.doing = doing,
		.thread = thread,
		.name = fgt_slice_string(waits->slice,
					 waits->slice->threads[thread].name),
		.function = fgt_slice_string(
			waits->slice,
			waits->doings->doings[doing].place.function),
	};
	tally->last_threads[known] = 0;
	waits->row_count = known + 1;
	return 0;
}

/* Which reason is the most frequent one. */
static int count_reason(struct wait_tally *tally, uint32_t row_number,
			uint32_t wait, uint64_t samples)
{
	struct fgt_wait_row *row = &tally->waits->rows[row_number];
	const struct fgt_slice_wait *all = tally->waits->slice->waits;
	uint32_t known = tally->reasons.count, id;
	int r = fgt_id_map_add(&tally->reasons,
			       (uint64_t)row_number << 32 | wait, &id);

	if (r == 0 && tally->reasons.count > known) {
		r = FGT_ARRAY_RESERVE(tally->samples, id + 1,
				      tally->reason_capacity);
		if (r == 0)
			tally->samples[id] = 0;
	}
	if (r < 0)
		return r;
	if (row->wait && row->wait != wait &&
	    all[row->wait - 1].owner_tid != all[wait - 1].owner_tid)
		row->is_mixed = true;
	tally->samples[id] += samples;
	if (tally->samples[id] > row->wait_samples) {
		row->wait = wait;
		row->wait_samples = tally->samples[id];
	}
	return 0;
}

static int count_run(struct wait_tally *tally, uint32_t thread, uint32_t number)
{
	struct fgt_summary_waits *waits = tally->waits;
	const struct fgt_run *run = &waits->slice->runs[number];
	uint64_t samples;
	uint32_t row;
	int r;

	if (!fgt_state_is_blocked(run->state))
		return 0;
	r = find_row(tally, thread, waits->doings->run_doings[number], &row);
	if (r < 0)
		return r;
	samples =
		fgt_pace_weight(waits->slice, run->first_tick, run->tick_count);
	waits->samples += samples;
	waits->rows[row].samples += samples;
	if (tally->last_threads[row] != thread + 1)
		waits->rows[row].threads++;
	tally->last_threads[row] = thread + 1;
	if (waits->slice->process_count > 1)
		r = fgt_group_add_pid(waits->slice, thread, row, &tally->pids,
				      &waits->rows[row].pids);
	if (r < 0)
		return r;
	return run->wait ? count_reason(tally, row, run->wait, samples) : 0;
}

static int by_samples(const void *left, const void *right)
{
	const struct fgt_wait_row *a = left, *b = right;
	int order;

	if (a->samples != b->samples)
		return a->samples < b->samples ? 1 : -1;
	order = strcmp(a->name, b->name);
	if (!order)
		order = strcmp(a->function, b->function);
	return order ? order : (a->doing > b->doing) - (a->doing < b->doing);
}

static int count_all(struct wait_tally *tally)
{
	struct fgt_summary_waits *waits = tally->waits;
	const uint32_t *first = waits->doings->thread_runs;
	int r = 0;

	for (uint32_t thread = 0; thread < waits->slice->thread_count; thread++)
		for (uint32_t i = first[thread]; i < first[thread + 1] && !r;
		     i++)
			r = count_run(tally, thread, i);
	FGT_ARRAY_SORT(waits->rows, waits->row_count, by_samples);
	return r;
}

int fgt_summary_waits_new(const struct fgt_ring_slice *slice,
			  struct fgt_summary_waits **ret_waits)
{
	FGT_AUTO(fgt_summary_waits_free)
	struct fgt_summary_waits *waits = calloc(1, sizeof(*waits));
	struct wait_tally tally = { .waits = waits };
	int r;

	if (!waits)
		return -ENOMEM;
	waits->slice = slice;
	r = fgt_doings_new(slice, &waits->doings);
	if (r == 0)
		r = count_all(&tally);
	fgt_id_map_done(&tally.rows);
	fgt_id_map_done(&tally.reasons);
	fgt_id_map_done(&tally.pids);
	free(tally.samples);
	free(tally.last_threads);
	if (r == 0)
		*ret_waits = FGT_TAKE(waits);
	return r;
}

void fgt_summary_waits_free(struct fgt_summary_waits *waits)
{
	if (!waits)
		return;
	fgt_doings_free(waits->doings);
	free(waits->rows);
	free(waits);
}

/* ---- Words ----------------------------------------------------------------- */

void fgt_summary_waits_threads(const struct fgt_summary_waits *waits,
			       const struct fgt_wait_row *row,
			       struct fgt_words *ret_words)
{
	const struct fgt_ring_slice *slice = waits->slice;
	char pattern[FGT_GROUP_NAME_MAX];

	*ret_words = (struct fgt_words){ .len = 0 };
	if (row->threads == 1)
		fgt_words_add(ret_words, "%s",
			      fgt_slice_string(
				      slice, slice->threads[row->thread].name));
	else
		fgt_words_add(ret_words, "%s",
			      fgt_group_of_thread(slice, row->thread,
						  slice->process_count > 1,
						  pattern));
	if (row->threads > 1)
		fgt_words_add(ret_words, " (%u%s", row->threads,
			      row->pids.count ? ": " : ")");
	else if (row->pids.count)
		fgt_words_add(ret_words, " (");
	fgt_group_add_words(&row->pids, ret_words);
	if (row->pids.count)
		fgt_words_add(ret_words, ")");
}

/* Six threads that each read from another socket read from no certain one. A
 * lock is the same for all of a row; a notification that has no name is like
 * any other. */
static bool is_clear(const struct fgt_summary_waits *waits,
		     const struct fgt_wait_row *row, uint32_t kind)
{
	const struct fgt_slice_wait *wait =
		row->wait ? &waits->slice->waits[row->wait - 1] : NULL;

	if (kind == FGT_WAIT_NOTIFICATION && wait && !wait->object)
		return true;
	return kind == FGT_WAIT_MUTEX || kind == FGT_WAIT_RWLOCK ||
	       kind == FGT_WAIT_PI_LOCK ||
	       fgt_percent(row->wait_samples, row->samples) >= CLEAR_PERCENT;
}

void fgt_summary_waits_words(const struct fgt_summary_waits *waits,
			     const struct fgt_wait_row *row,
			     struct fgt_words *ret_words)
{
	struct fgt_doing doing = waits->doings->doings[row->doing];

	doing.wait = is_clear(waits, row, doing.kind) ? row->wait : 0;
	/* Counted for the row, which has waits of some threads. */
	doing.has_other_owners = doing.has_other_times = false;
	*ret_words = (struct fgt_words){ .len = 0 };
	fgt_words_add_doing(ret_words, waits->slice, &doing);
	if (row->is_mixed && doing.wait)
		fgt_words_add(ret_words, ", and others");
}

void fgt_summary_waits_print_line(const struct fgt_summary_waits *waits,
				  FILE *file)
{
	const struct fgt_wait_row *row = waits->rows;
	struct fgt_words threads, words;

	if (!waits->row_count)
		return;
	fgt_summary_waits_threads(waits, row, &threads);
	fgt_summary_waits_words(waits, row, &words);
	fprintf(file, "longest wait (%.0f %% of all): ",
		fgt_percent(row->samples, waits->samples));
	fgt_print_text(file, threads.text, WORDS_COLUMNS);
	fputs(": ", file);
	fgt_print_text(file, words.text, WORDS_COLUMNS);
	fputc('\n', file);
}

static size_t fit_threads(const struct fgt_summary_waits *waits, uint32_t top,
			  FILE *file)
{
	size_t columns = THREADS_COLUMNS;
	struct fgt_words threads;

	for (uint32_t i = 0; i < waits->row_count && i < top; i++) {
		fgt_summary_waits_threads(waits, &waits->rows[i], &threads);
		fgt_column_fit(file, threads.text, &columns);
	}
	return columns;
}

void fgt_summary_waits_print(const struct fgt_summary_waits *waits,
			     uint32_t top, FILE *file)
{
	size_t columns = fit_threads(waits, top, file);
	struct fgt_words threads, words;

	if (!waits->row_count)
		return;
	fprintf(file,
		"\nlongest waits: share of the %" PRIu64 " blocked samples\n"
		"          ",
		waits->samples);
	fgt_print_padded(file, "threads", columns);
	fputs(" in\n", file);
	for (uint32_t i = 0; i < waits->row_count && i < top; i++) {
		const struct fgt_wait_row *row = &waits->rows[i];

		fgt_summary_waits_threads(waits, row, &threads);
		fgt_summary_waits_words(waits, row, &words);
		fprintf(file, "%6.1f %%  ",
			fgt_percent(row->samples, waits->samples));
		fgt_print_padded(file, threads.text, columns);
		fputc(' ', file);
		fgt_print_text(file, words.text, WORDS_COLUMNS);
		fputc('\n', file);
	}
	fgt_print_more(waits->row_count > top ? waits->row_count - top : 0,
		       "--top", file);
}

static void put_function(const struct fgt_ring_slice *slice, uint32_t name,
			 struct fgt_json *json)
{
	if (name)
		fgt_json_put_handle(json, "function_id", 'f',
				    fgt_summary_function_id(slice, name));
	fgt_json_put_string(json, "function", fgt_slice_string(slice, name));
}

void fgt_summary_waits_put(const struct fgt_summary_waits *waits, uint32_t top,
			   struct fgt_json *json)
{
	const struct fgt_ring_slice *slice = waits->slice;
	struct fgt_words threads, words;

	fgt_json_put_uint(json, "wait_count", waits->row_count);
	fgt_json_begin_array(json, "waits");
	for (uint32_t i = 0; i < waits->row_count && i < top; i++) {
		const struct fgt_wait_row *row = &waits->rows[i];
		const struct fgt_doing *doing =
			&waits->doings->doings[row->doing];

		fgt_summary_waits_threads(waits, row, &threads);
		fgt_summary_waits_words(waits, row, &words);
		fgt_json_begin_object(json, NULL);
		fgt_json_put_string(json, "threads", threads.text);
		fgt_json_put_uint(json, "thread_count", row->threads);
		fgt_json_put_handle(json, "thread_id", 't', row->thread);
		fgt_group_put(&row->pids, json);
		fgt_json_put_uint(json, "samples", row->samples);
		put_function(slice, doing->place.function, json);
		fgt_json_put_string(json, "call",
				    fgt_slice_string(slice, doing->place.call));
		fgt_json_put_string(json, "state",
				    fgt_slice_state_name(slice, doing->state));
		fgt_json_put_string(json, "kind", fgt_words_kind(doing->kind));
		fgt_json_put_string(json, "text", words.text);
		fgt_json_end_object(json);
	}
	fgt_json_end_array(json);
}
