/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of threads, as text or JSON. Names come from outside and are printed
 * without control characters.
 */
#include "agent/cli/output/moment_print.h"

#include <stdlib.h>
#include <string.h>

#include "agent/cli/complaint.h"
#include "agent/cli/summary/summary.h"
#include "ringbuf/base/json.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/slice/processes.h"
#include "upload/why/words.h"

#define LINE_COLUMNS 400
#define NAMES_SHOWN  8u /* of the other threads of a group */
#define WAITS_SHOWN  4u /* of those, if each has its own */

static void print_line(FILE *file, const struct fgt_words *words)
{
	fgt_print_text(file, words->text, LINE_COLUMNS);
	fputc('\n', file);
}

static const struct fgt_slice_thread *thread_of(const struct fgt_moment *moment,
						uint32_t run)
{
	return &moment->slice->threads[moment->slice->runs[run].thread];
}

static double since_ms(const struct fgt_moment *moment,
		       const struct fgt_moment_group *group)
{
	return (double)(moment->slice->tick_ns[moment->tick] -
			moment->slice->tick_ns[group->first_tick]) /
	       1e6;
}

static void add_reason(struct fgt_words *words,
		       const struct fgt_ring_slice *slice,
		       const struct fgt_run *run)
{
	if (!run->wait)
		return;
	fgt_words_add(words, ": ");
	fgt_words_add_wait(words, slice, run->wait, run->state);
}

static void add_since(struct fgt_words *words, const struct fgt_moment *moment,
		      const struct fgt_moment_group *group)
{
	if (group->is_repeated) {
		fgt_words_add(words, ", again and again");
		return;
	}
	fgt_words_add(words, ", for ");
	/* It was so before the first tick that is known. */
	if (!group->is_begin_known)
		fgt_words_add(words, "at least ");
	fgt_words_add_ms(words, since_ms(moment, group));
}

static void print_others(const struct fgt_moment *moment,
			 const struct fgt_moment_group *group, FILE *file)
{
	const struct fgt_ring_slice *slice = moment->slice;
	uint32_t shown = group->is_same_wait ? NAMES_SHOWN : WAITS_SHOWN;
	struct fgt_words words = { .len = 0 };

	if (group->count == 1)
		return;
	fgt_words_add(&words, "  × %u, also ", group->count);
	for (uint32_t i = 1; i < group->count && i <= shown; i++) {
		uint32_t thread = moment->threads[group->first + i];

		fgt_words_add(&words, i > 1 ? ", " : "");
		fgt_words_add_thread(&words, slice, slice->threads[thread].tid);
		if (!group->is_same_wait)
			add_reason(&words, slice,
				   &slice->runs[moment->runs[thread]]);
	}
	if (group->count > shown + 1)
		fgt_words_add(&words, " and %u more", group->count - shown - 1);
	print_line(file, &words);
}

static void print_frame(const struct fgt_ring_slice *slice,
			const struct fgt_slice_frame *frame, FILE *file)
{
	if (frame->frame.flags & FGT_FRAME_MARKER) {
		fprintf(file, "    %s\n",
			fgt_marker_name(frame->frame.address));
		return;
	}
	for (uint32_t i = 0; i < frame->symbol_count; i++) {
		const struct fgt_symbol *symbol =
			&slice->symbols[frame->symbol_first + i];
		const char *path = fgt_slice_string(slice, symbol->file);
		const char *slash = strrchr(path, '/');
		struct fgt_words words = { .len = 0 };

		fgt_words_add(&words, "    %s",
			      fgt_slice_string(slice, symbol->function));
		if (symbol->file && symbol->line)
			fgt_words_add(&words, "  (%s:%u)",
				      slash ? slash + 1 : path, symbol->line);
		print_line(file, &words);
	}
}

static void print_group(const struct fgt_moment *moment,
			const struct fgt_moment_group *group, FILE *file)
{
	const struct fgt_ring_slice *slice = moment->slice;
	const struct fgt_run *run = &slice->runs[group->run];
	struct fgt_words words = { .len = 0 };

	fgt_words_add_thread(&words, slice, thread_of(moment, group->run)->tid);
	fgt_words_add(&words, " %s", fgt_slice_state_name(slice, run->state));
	add_reason(&words, slice, run);
	add_since(&words, moment, group);
	fputc('\n', file);
	print_line(file, &words);
	print_others(moment, group, file);
	if (run->stack == FGT_NODE_NONE)
		fputs("    [stack unknown]\n", file);
	for (uint32_t node = run->stack; node != FGT_NODE_NONE;
	     node = slice->nodes[node].parent)
		print_frame(slice, &slice->frames[slice->nodes[node].frame],
			    file);
}

static void print_cycles(const struct fgt_moment *moment, FILE *file)
{
	const struct fgt_ring_slice *slice = moment->slice;
	uint32_t first = 0;

	for (uint32_t i = 0; i < moment->cycle_count; i++) {
		fputs("\nDeadlock:\n", file);
		for (; first < moment->cycle_ends[i]; first++) {
			const struct fgt_run *run =
				&slice->runs[moment->cycle_runs[first]];
			struct fgt_words words = { .len = 0 };

			fgt_words_add(&words, "  ");
			fgt_words_add_thread(&words, slice,
					     slice->threads[run->thread].tid);
			fgt_words_add(&words, " waits for ");
			fgt_words_add_wait(&words, slice, run->wait,
					   run->state);
			print_line(file, &words);
		}
	}
}

static bool is_outside(const struct fgt_ring_slice *slice, uint32_t wait)
{
	const struct fgt_slice_wait *of = wait ? &slice->waits[wait - 1] : NULL;

	return of && of->owner_tid && fgt_slice_string(slice, of->text)[0] &&
	       fgt_slice_find_thread(slice, of->owner_tid) ==
		       slice->thread_count;
}

/* A cycle through it cannot be seen. */
static void print_outside(const struct fgt_moment *moment, FILE *file)
{
	const struct fgt_ring_slice *slice = moment->slice;

	for (uint32_t i = 0; i < moment->group_count; i++) {
		uint32_t wait = slice->runs[moment->groups[i].run].wait;

		if (!is_outside(slice, wait))
			continue;
		fprintf(file,
			"\nNot shown: the process of tid %d, which holds a "
			"lock; a deadlock with it is listed with both "
			"(--children, -n, --all)\n",
			slice->waits[wait - 1].owner_tid);
		return;
	}
}

/* Of several processes those that have a thread at the moment: a file has others
 * that began later, or had ended. */
static void add_processes(struct fgt_words *words,
			  const struct fgt_moment *moment)
{
	const struct fgt_ring_slice *slice = moment->slice;
	FGT_AUTO(free) void *memory = calloc(slice->process_count + 1, 1);
	uint32_t count = 0, first = UINT32_MAX;
	bool *has_thread = memory;

	for (uint32_t i = 0; has_thread && i < moment->thread_count; i++) {
		uint32_t number = slice->threads[moment->threads[i]].process;

		count += !has_thread[number];
		has_thread[number] = true;
		first = number < first ? number : first;
	}
	if (slice->process_count < 2 || count == 0) {
		fgt_words_add_process(words, slice);
		return;
	}
	fgt_words_add(words, "%s (pid %d)",
		      fgt_slice_process(slice, first).name,
		      fgt_slice_process(slice, first).pid);
	if (count > 1)
		fgt_words_add(words, " and %u more process%s", count - 1,
			      count == 2 ? "" : "es");
}

void fgt_moment_print(const struct fgt_moment *moment, const char *at,
		      FILE *file)
{
	struct fgt_words words = { .len = 0 };

	add_processes(&words, moment);
	fgt_words_add(&words, ", %u thread%s, %s", moment->thread_count,
		      moment->thread_count == 1 ? "" : "s", at);
	print_line(file, &words);
	for (uint32_t i = 0; i < moment->group_count; i++)
		print_group(moment, &moment->groups[i], file);
	print_cycles(moment, file);
	print_outside(moment, file);
}

/* ---- JSON --------------------------------------------------------------- */

static void put_stack(struct fgt_json *json, const struct fgt_ring_slice *slice,
		      uint32_t node)
{
	fgt_json_begin_array(json, "stack");
	for (; node != FGT_NODE_NONE; node = slice->nodes[node].parent) {
		const struct fgt_slice_frame *frame =
			&slice->frames[slice->nodes[node].frame];

		if (frame->frame.flags & FGT_FRAME_MARKER)
			fgt_json_put_string(
				json, NULL,
				fgt_marker_name(frame->frame.address));
		for (uint32_t i = 0; i < frame->symbol_count; i++)
			fgt_json_put_string(
				json, NULL,
				fgt_slice_string(
					slice,
					slice->symbols[frame->symbol_first + i]
						.function));
	}
	fgt_json_end_array(json);
}

/* A number may have been used by several threads: the first one that is there. */
static void put_owner(struct fgt_json *json, const struct fgt_moment *moment,
		      int32_t tid)
{
	const struct fgt_ring_slice *slice = moment->slice;
	uint32_t at = fgt_slice_find_thread(slice, tid);

	fgt_json_put_int(json, "owner_tid", tid);
	for (; at < slice->thread_count && slice->threads[at].tid == tid; at++)
		if (moment->runs[at] != FGT_ID_NONE) {
			fgt_json_put_handle(json, "owner_id", 't', at);
			return;
		}
}

static void put_reason(struct fgt_json *json, const struct fgt_moment *moment,
		       const struct fgt_run *run)
{
	const struct fgt_ring_slice *slice = moment->slice;
	const struct fgt_slice_wait *wait;
	struct fgt_words words = { .len = 0 };

	if (!run->wait)
		return;
	wait = &slice->waits[run->wait - 1];
	fgt_words_add_wait(&words, slice, run->wait, run->state);
	fgt_json_begin_object(json, "wait");
	fgt_json_put_string(json, "kind", fgt_words_kind(wait->kind));
	fgt_json_put_string(json, "text", words.text);
	if (wait->owner_tid)
		put_owner(json, moment, wait->owner_tid);
	fgt_json_end_object(json);
}

static void put_group(struct fgt_json *json, const struct fgt_moment *moment,
		      const struct fgt_moment_group *group)
{
	const struct fgt_ring_slice *slice = moment->slice;
	const struct fgt_run *run = &slice->runs[group->run];

	fgt_json_begin_object(json, NULL);
	fgt_json_begin_array(json, "threads");
	for (uint32_t i = 0; i < group->count; i++) {
		uint32_t number = moment->threads[group->first + i];
		const struct fgt_slice_thread *thread = &slice->threads[number];

		fgt_json_begin_object(json, NULL);
		fgt_json_put_handle(json, "id", 't', number);
		fgt_json_put_int(json, "tid", thread->tid);
		fgt_json_put_int(json, "pid",
				 fgt_slice_process(slice, thread->process).pid);
		fgt_json_put_string(json, "name",
				    fgt_slice_string(slice, thread->name));
		if (!group->is_same_wait)
			put_reason(json, moment,
				   &slice->runs[moment->runs[number]]);
		fgt_json_end_object(json);
	}
	fgt_json_end_array(json);
	fgt_json_put_string(json, "state",
			    fgt_slice_state_name(slice, run->state));
	fgt_json_put_uint(json, "since_ms", (uint64_t)since_ms(moment, group));
	fgt_json_put_bool(json, "since_is_known", group->is_begin_known);
	put_reason(json, moment, run); /* of its first thread */
	put_stack(json, slice, run->stack);
	fgt_json_end_object(json);
}

int fgt_moment_print_json(const struct fgt_moment *moment, const char *at,
			  FILE *file)
{
	const struct fgt_sink sink = { fgt_file_write, file };
	struct fgt_json json;
	uint32_t first = 0;

	fgt_json_init(&json, &sink);
	fgt_json_begin_object(&json, NULL);
	fgt_json_put_int(&json, "pid", moment->slice->process.pid);
	fgt_json_put_string(&json, "name", moment->slice->process.name);
	if (*moment->slice->ended_by)
		fgt_json_put_string(&json, "ended_by", moment->slice->ended_by);
	fgt_json_put_string(&json, "at", at);
	fgt_json_put_uint(&json, "at_ns", moment->slice->tick_ns[moment->tick]);
	fgt_json_begin_array(&json, "groups");
	for (uint32_t i = 0; i < moment->group_count; i++)
		put_group(&json, moment, &moment->groups[i]);
	fgt_json_end_array(&json);
	fgt_json_begin_array(&json, "deadlocks");
	for (uint32_t i = 0; i < moment->cycle_count; i++) {
		fgt_json_begin_array(&json, NULL);
		for (; first < moment->cycle_ends[i]; first++)
			fgt_json_put_int(
				&json, NULL,
				thread_of(moment, moment->cycle_runs[first])
					->tid);
		fgt_json_end_array(&json);
	}
	fgt_json_end_array(&json);
	fgt_json_end_object(&json);
	fgt_json_newline(&json);
	return fgt_json_finish(&json);
}
