/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON of an explanation: times in ms, threads by tid, functions by name, and
 * both by handles.
 */
#include "agent/cli/output/explanation_json.h"

#include <math.h>

#include "agent/cli/complaint.h"
#include "ringbuf/base/json.h"
#include "ringbuf/slice/processes.h"
#include "upload/why/words.h"

#define STACK_MAX 64u

struct explained_json {
	const struct fgt_explanation *of;
	const struct fgt_ring_slice *slice;
	struct fgt_json *json;
};

static void put_name(const struct explained_json *answer, const char *key,
		     uint32_t id)
{
	fgt_json_put_string(answer->json, key,
			    id ? fgt_slice_string(answer->slice, id) : NULL);
}

/* 1/1000 of a ms is all that is known. */
static void put_ms(const struct explained_json *answer, const char *key,
		   double ms)
{
	fgt_json_put_decimal(answer->json, key,
			     (uint64_t)((ms < 0 ? 0 : ms) * 1000 + 0.5), 3);
}

static void put_thread(const struct explained_json *answer, const char *key,
		       uint32_t run)
{
	uint32_t number = answer->slice->runs[run].thread;
	const struct fgt_slice_thread *thread = &answer->slice->threads[number];

	fgt_json_begin_object(answer->json, key);
	fgt_json_put_handle(answer->json, "id", 't', number);
	fgt_json_put_int(answer->json, "tid", thread->tid);
	fgt_json_put_int(answer->json, "pid",
			 fgt_slice_process(answer->slice, thread->process).pid);
	put_name(answer, "name", thread->name);
	fgt_json_end_object(answer->json);
}

/* What holds of all waits of the doing. */
static void put_wait(const struct explained_json *answer,
		     const struct fgt_doing *doing)
{
	const struct fgt_slice_wait *wait;

	if (!doing->wait)
		return;
	wait = &answer->slice->waits[doing->wait - 1];
	fgt_json_begin_object(answer->json, "wait");
	fgt_json_put_string(answer->json, "kind", fgt_words_kind(wait->kind));
	if (wait->address)
		fgt_json_put_hex_string(answer->json, "address", wait->address);
	if (wait->object)
		put_name(answer, "object", wait->object);
	if (wait->owner_tid && !doing->has_other_owners)
		fgt_json_put_int(answer->json, "owner_tid", wait->owner_tid);
	if (wait->number >= 0)
		fgt_json_put_int(answer->json, "number", wait->number);
	if (wait->text)
		put_name(answer, "text", wait->text);
	if (wait->timeout_ns && !doing->has_other_times)
		put_ms(answer, "timeout_ms", (double)wait->timeout_ns / 1e6);
	fgt_json_end_object(answer->json);
}

/* Functions from the leaf to the root, calls that were inlined left out. */
static void put_stack(const struct explained_json *answer, uint32_t node)
{
	const struct fgt_ring_slice *slice = answer->slice;

	fgt_json_begin_array(answer->json, "stack");
	for (uint32_t i = 0; node != FGT_NODE_NONE && i < STACK_MAX;
	     node = slice->nodes[node].parent, i++) {
		const struct fgt_slice_frame *frame =
			&slice->frames[slice->nodes[node].frame];

		if (frame->frame.flags & FGT_FRAME_MARKER)
			fgt_json_put_string(
				answer->json, NULL,
				fgt_marker_name(frame->frame.address));
		else if (frame->symbol_count)
			put_name(answer, NULL,
				 slice->symbols[frame->symbol_first +
						frame->symbol_count - 1]
					 .function);
	}
	fgt_json_end_array(answer->json);
}

/* In an open object. */
static void put_doing(const struct explained_json *answer, uint32_t run)
{
	const struct fgt_doing of =
		fgt_doings_of_run(answer->of->doings, answer->slice, run);
	struct fgt_words words = { .len = 0 };

	fgt_words_add_doing(&words, answer->slice, &of);
	fgt_json_put_string(answer->json, "text", words.text);
	if (of.place.function)
		fgt_json_put_handle(answer->json, "function_id", 'f',
				    of.place.function);
	put_name(answer, "function", of.place.function);
	put_name(answer, "call", of.place.call);
	fgt_json_put_string(answer->json, "state",
			    fgt_slice_state_name(answer->slice, of.state));
	put_wait(answer, &of);
	put_stack(answer, answer->slice->runs[run].stack);
}

static void put_rank(const struct explained_json *answer,
		     const struct fgt_rank *rank)
{
	if (answer->of->windows->count < 2)
		return;
	put_ms(answer, "usual_ms", rank->usual_ms);
	put_ms(answer, "most_ms", rank->most_ms);
	fgt_json_put_uint(answer->json, "rank", rank->place);
}

static void put_rows(const struct explained_json *answer)
{
	const struct fgt_explanation *of = answer->of;

	fgt_json_begin_array(answer->json, "time");
	for (uint32_t i = 0; i < of->row_count; i++) {
		const struct fgt_explained_row *row = &of->rows[i];

		fgt_json_begin_object(answer->json, NULL);
		put_ms(answer, "ms", row->ms);
		if (row->doing != FGT_ID_NONE) {
			if (of->thread_windows)
				put_rank(answer, &row->rank);
			put_doing(answer, row->run);
		} else {
			put_ms(answer, "running_ms", of->others_running_ms);
		}
		fgt_json_end_object(answer->json);
	}
	fgt_json_end_array(answer->json);
}

/* What the thread behind a step did longest: more than one thing at times. */
static void put_parts(const struct explained_json *answer,
		      const struct fgt_explained_step *step)
{
	fgt_json_begin_array(answer->json, "did");
	for (uint32_t i = 0; i < step->part_count; i++) {
		fgt_json_begin_object(answer->json, NULL);
		put_ms(answer, "ms", step->parts[i].ms);
		put_doing(answer, step->parts[i].run);
		fgt_json_end_object(answer->json);
	}
	fgt_json_end_array(answer->json);
}

static void put_steps(const struct explained_json *answer)
{
	const struct fgt_explanation *of = answer->of;
	const struct fgt_ring_slice *slice = of->slice;

	fgt_json_begin_array(answer->json, "critical_path");
	for (uint32_t i = 0; i < of->step_count; i++) {
		const struct fgt_explained_step *step = &of->steps[i];

		fgt_json_begin_object(answer->json, NULL);
		fgt_json_put_uint(answer->json, "from_ns",
				  slice->tick_ns[step->first]);
		put_ms(answer, "ms", step->ms);
		put_thread(answer, "thread", step->culprit.run);
		fgt_json_put_uint(answer->json, "depth", step->culprit.depth);
		fgt_json_put_bool(answer->json, "deadlock",
				  step->culprit.cycle.count > 0);
		fgt_json_put_bool(answer->json, "cut", step->culprit.is_cut);
		put_doing(answer, step->parts[0].run);
		put_parts(answer, step);
		fgt_json_end_object(answer->json);
	}
	fgt_json_end_array(answer->json);
}

static void put_cause(const struct explained_json *answer, const char *key,
		      const struct fgt_explained_cause *cause)
{
	fgt_json_begin_object(answer->json, key);
	put_thread(answer, "thread", cause->run);
	fgt_json_put_uint(answer->json, "threads", cause->threads);
	put_ms(answer, "own_ms", cause->own_ms);
	put_ms(answer, "waited_ms", cause->waited_ms);
	fgt_json_put_uint(answer->json, "waiters", cause->waiters);
	put_ms(answer, "excess_ms", cause->excess_ms);
	if (cause != &answer->of->fresh)
		put_rank(answer, &cause->rank);
	fgt_json_put_bool(answer->json, "deadlock", cause->cycle.count > 0);
	put_doing(answer, cause->run);
	if (cause->waiter_run != FGT_ID_NONE) {
		fgt_json_begin_object(answer->json, "waiter");
		put_thread(answer, "thread", cause->waiter_run);
		put_doing(answer, cause->waiter_run);
		fgt_json_end_object(answer->json);
	}
	fgt_json_end_object(answer->json);
}

static void put_pressures(const struct explained_json *answer)
{
	static const char *const keys[FGT_PRESSURE_KINDS] = {
		[FGT_PRESSURE_CPU] = "cpu",
		[FGT_PRESSURE_IO] = "io",
		[FGT_PRESSURE_MEMORY] = "memory",
		[FGT_PRESSURE_STOLEN] = "stolen",
	};

	fgt_json_begin_object(answer->json, "machine");
	for (int kind = 0; kind < FGT_PRESSURE_KINDS; kind++) {
		const struct fgt_explained_pressure *pressure =
			&answer->of->pressures[kind];

		if (isnan(pressure->ms))
			continue;
		fgt_json_begin_object(answer->json, keys[kind]);
		put_ms(answer, "ms", pressure->ms);
		put_rank(answer, &pressure->rank);
		fgt_json_put_bool(answer->json, "unusual",
				  pressure->is_unusual);
		fgt_json_end_object(answer->json);
	}
	fgt_json_end_object(answer->json);
}

static void put_range(const struct explained_json *answer, const char *from,
		      const char *to)
{
	const struct fgt_window *range = &answer->of->windows->windows[0];
	const struct fgt_ring_slice *slice = answer->slice;

	fgt_json_begin_object(answer->json, "range");
	fgt_json_put_string(answer->json, "from", from);
	fgt_json_put_string(answer->json, "to", to);
	fgt_json_put_uint(answer->json, "from_ns",
			  slice->tick_ns[range->first]);
	fgt_json_put_uint(answer->json, "to_ns",
			  slice->tick_ns[range->end - 1]);
	put_ms(answer, "ms", answer->of->windows->length_ms);
	fgt_json_put_uint(answer->json, "ticks", range->end - range->first);
	fgt_json_end_object(answer->json);
}

static void put_pace(const struct explained_json *answer)
{
	struct fgt_words words = { .len = 0 };

	fgt_words_add_pace(&words, answer->slice);
	if (words.len)
		fgt_json_put_string(answer->json, "rate", words.text);
}

int fgt_explanation_print_json(const struct fgt_explanation *explanation,
			       const char *from, const char *to, FILE *file)
{
	const struct fgt_sink sink = { fgt_file_write, file };
	struct fgt_json json;
	const struct explained_json answer = { explanation, explanation->slice,
					       &json };
	const struct fgt_slice_thread *thread =
		&explanation->slice->threads[explanation->thread];

	fgt_json_init(&json, &sink);
	fgt_json_begin_object(&json, NULL);
	fgt_json_put_int(&json, "pid", explanation->slice->process.pid);
	fgt_json_put_string(&json, "name", explanation->slice->process.name);
	if (*explanation->slice->ended_by)
		fgt_json_put_string(&json, "ended_by",
				    explanation->slice->ended_by);
	put_range(&answer, from, to);
	fgt_json_put_uint(&json, "windows", explanation->windows->count - 1);
	put_pace(&answer);
	fgt_json_begin_object(&json, "thread");
	fgt_json_put_handle(&json, "id", 't', explanation->thread);
	fgt_json_put_int(&json, "tid", thread->tid);
	put_name(&answer, "name", thread->name);
	fgt_json_put_bool(&json, "is_chosen", explanation->is_thread_chosen);
	fgt_json_put_uint(&json, "windows", explanation->thread_windows);
	put_rows(&answer);
	fgt_json_end_object(&json);
	put_steps(&answer);
	fgt_json_begin_array(&json, "causes");
	for (uint32_t i = 0; i < explanation->cause_count; i++)
		put_cause(&answer, NULL, &explanation->causes[i]);
	fgt_json_end_array(&json);
	if (explanation->fresh.threads)
		put_cause(&answer, "new", &explanation->fresh);
	put_pressures(&answer);
	fgt_json_begin_object(&json, "known");
	fgt_json_put_bool(&json, "wakes", explanation->has_wakes);
	fgt_json_put_uint(&json, "lost_wakes", explanation->slice->lost_wakes);
	if (explanation->outside_pid)
		fgt_json_put_int(&json, "outside_pid",
				 explanation->outside_pid);
	fgt_json_put_bool(&json, "waits", explanation->has_waits);
	fgt_json_put_bool(&json, "all_holders", explanation->has_all_holders);
	put_ms(&answer, "unknown_ms", explanation->unknown_ms);
	fgt_json_end_object(&json);
	fgt_json_end_object(&json);
	fgt_json_newline(&json);
	return fgt_json_finish(&json);
}
