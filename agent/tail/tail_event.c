/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes events. Runs in any thread; names come from the target and are escaped
 * by the JSON writer.
 */
#include "agent/tail/tail_event.h"

#include <string.h>

#include "ringbuf/base/json.h"

static bool is_chrome(const struct fgt_tail_event *event)
{
	return event->form == FGT_TAIL_CHROME;
}

static void begin(struct fgt_json *json, const struct fgt_tail_event *event)
{
	fgt_json_init(json, event->sink);
	fgt_json_begin_object(json, NULL);
}

static int end(struct fgt_json *json, const struct fgt_tail_event *event)
{
	int r;

	fgt_json_end_object(json);
	r = fgt_json_finish(json);
	if (r < 0)
		return r;
	return is_chrome(event) ? fgt_sink_write(event->sink, ",\n", 2)
				: fgt_sink_write(event->sink, "\n", 1);
}

/* ---- Chrome's form ------------------------------------------------------- */

static void begin_chrome(struct fgt_json *json,
			 const struct fgt_tail_event *event, const char *name,
			 const char *phase, uint64_t at_ns, int32_t tid)
{
	begin(json, event);
	fgt_json_put_string(json, "name", name);
	fgt_json_put_string(json, "ph", phase);
	fgt_json_put_decimal(
		json, "ts", at_ns > event->base_ns ? at_ns - event->base_ns : 0,
		3);
	fgt_json_put_int(json, "pid", event->pid);
	fgt_json_put_int(json, "tid", tid);
}

static int put_chrome(struct fgt_tail_event *event, const char *name,
		      const char *phase, int32_t tid)
{
	struct fgt_json json;

	begin_chrome(&json, event, name, phase, event->at_ns, tid);
	return end(&json, event);
}

static int put_name(struct fgt_tail_event *event, const char *what, int32_t tid,
		    const char *name)
{
	struct fgt_json json;

	begin_chrome(&json, event, what, "M", event->base_ns, tid);
	fgt_json_begin_object(&json, "args");
	fgt_json_put_string(&json, "name", name);
	fgt_json_end_object(&json);
	return end(&json, event);
}

/* Bytes of whole names that both stacks have, from the root on. */
static size_t common_len(const struct fgt_tail_stack *a,
			 const struct fgt_tail_stack *b)
{
	size_t at = 0;

	while (at < a->len && at < b->len) {
		size_t len = strlen(a->names + at) + 1;

		if (strcmp(a->names + at, b->names + at) != 0)
			break;
		at += len;
	}
	return at;
}

/* The leaf first: E events close in the order in which B events opened. */
static int put_ends(struct fgt_tail_event *event,
		    const struct fgt_tail_stack *stack, size_t from,
		    int32_t tid)
{
	size_t end_at = stack->len;
	int r = 0;

	while (end_at > from && r == 0) {
		size_t at = end_at - 1;

		while (at > from && stack->names[at - 1] != '\0')
			at--;
		r = put_chrome(event, stack->names + at, "E", tid);
		end_at = at;
	}
	return r;
}

static int put_begins(struct fgt_tail_event *event,
		      const struct fgt_tail_stack *stack, size_t from,
		      int32_t tid)
{
	int r = 0;

	for (size_t at = from; at < stack->len && r == 0;
	     at += strlen(stack->names + at) + 1)
		r = put_chrome(event, stack->names + at, "B", tid);
	return r;
}

static int put_chrome_change(struct fgt_tail_event *event,
			     const struct fgt_tail_thread *thread,
			     const struct fgt_tail_stack *stack)
{
	size_t common = common_len(&thread->stack, stack);
	int r = put_ends(event, &thread->stack, common, thread->tid);

	return r < 0 ? r : put_begins(event, stack, common, thread->tid);
}

/* ---- The compact form ---------------------------------------------------- */

static void begin_json(struct fgt_json *json,
		       const struct fgt_tail_event *event,
		       const struct fgt_ring_slice *slice, uint64_t at_ns,
		       int32_t tid)
{
	begin(json, event);
	fgt_json_put_decimal(json, "ts", fgt_slice_wall_ns(slice, at_ns), 9);
	fgt_json_put_int(json, "tid", tid);
}

static int put_json_change(struct fgt_tail_event *event,
			   const struct fgt_ring_slice *slice,
			   const struct fgt_tail_thread *thread,
			   const char *name, const struct fgt_tail_stack *stack)
{
	struct fgt_json json;

	begin_json(&json, event, slice, event->at_ns, thread->tid);
	fgt_json_put_string(&json, "thread", name);
	fgt_json_put_string(&json, "state", thread->state);
	fgt_json_begin_array(&json, "stack");
	for (size_t at = 0; at < stack->len;
	     at += strlen(stack->names + at) + 1)
		fgt_json_put_string(&json, NULL, stack->names + at);
	fgt_json_end_array(&json);
	return end(&json, event);
}

/* ---- Both ---------------------------------------------------------------- */

int fgt_tail_put_begin(struct fgt_tail_event *event,
		       const struct fgt_ring_slice *slice)
{
	int r;

	if (!is_chrome(event))
		return 0;
	r = fgt_sink_write(event->sink, "[\n", 2);
	return r < 0 ? r
		     : put_name(event, "process_name", slice->process.pid,
				slice->process.name);
}

int fgt_tail_put_change(struct fgt_tail_event *event,
			const struct fgt_ring_slice *slice,
			const struct fgt_slice_thread *named,
			struct fgt_tail_thread *thread,
			const struct fgt_tail_stack *stack)
{
	char buffer[FGT_LEVEL_NAME_MAX];
	const char *name = fgt_level_thread_name(slice, named, buffer);
	int r = 0;

	if (!is_chrome(event))
		return put_json_change(event, slice, thread, name, stack);
	if (!thread->is_named)
		r = put_name(event, "thread_name", thread->tid, name);
	thread->is_named = true;
	return r < 0 ? r : put_chrome_change(event, thread, stack);
}

int fgt_tail_put_end(struct fgt_tail_event *event,
		     const struct fgt_ring_slice *slice,
		     const struct fgt_tail_thread *thread, const char *why)
{
	struct fgt_json json;

	if (is_chrome(event))
		return put_ends(event, &thread->stack, 0, thread->tid);
	begin_json(&json, event, slice, event->at_ns, thread->tid);
	fgt_json_put_bool(&json, why, true);
	return end(&json, event);
}

/* A task or span; of a mark begin_ns only. */
struct piece {
	const char *kind; /* "task", "span", "mark" */
	const char *name;
	uint64_t number, begin_ns, end_ns;
	int32_t tid;
};

/* phase: "b" begins, "e" ends, "n" is an instant. */
static int put_phase(const struct fgt_tail_event *event,
		     const struct fgt_ring_slice *slice,
		     const struct piece *piece, const char *phase)
{
	uint64_t at_ns = phase[0] == 'e' ? piece->end_ns : piece->begin_ns;
	struct fgt_json json;

	if (is_chrome(event)) {
		begin_chrome(&json, event, piece->name, phase, at_ns,
			     piece->tid);
		fgt_json_put_string(&json, "cat", piece->kind);
		fgt_json_put_hex_string(&json, "id", piece->number);
		return end(&json, event);
	}
	begin_json(&json, event, slice, at_ns, piece->tid);
	fgt_json_put_string(&json, piece->kind, piece->name);
	if (phase[0] != 'n') {
		fgt_json_put_uint(&json, "number", piece->number);
		fgt_json_put_string(&json, "phase",
				    phase[0] == 'b' ? "begin" : "end");
	}
	return end(&json, event);
}

static bool is_of(const struct fgt_ring_slice *slice,
		  const struct fgt_filter *filter, int32_t tid)
{
	uint32_t thread;

	if (!filter->thread)
		return true;
	thread = fgt_slice_find_thread(slice, tid);
	return thread < slice->thread_count &&
	       fgt_filter_takes_thread(filter, slice, thread);
}

/* What of a task or span lies after after_ns up to the event's time. */
static int put_new(const struct fgt_tail_event *event,
		   const struct fgt_ring_slice *slice,
		   const struct piece *piece, uint64_t after_ns)
{
	int r = 0;

	if (piece->begin_ns > after_ns && piece->begin_ns <= event->at_ns)
		r = put_phase(event, slice, piece, "b");
	if (r == 0 && piece->end_ns > after_ns && piece->end_ns <= event->at_ns)
		r = put_phase(event, slice, piece, "e");
	return r;
}

static int put_tasks(const struct fgt_tail_event *event,
		     const struct fgt_ring_slice *slice,
		     const struct fgt_filter *filter, uint64_t after_ns)
{
	int r = 0;

	for (uint32_t i = 0; i < slice->task_count && r == 0; i++) {
		const struct fgt_slice_task *task = &slice->tasks[i];
		const struct piece piece = {
			.kind = "task",
			.name = fgt_slice_string(slice, task->name),
			.number = task->number,
			.begin_ns = task->begin_ns,
			.end_ns = task->end_ns,
			.tid = task->tid,
		};

		if (is_of(slice, filter, task->tid))
			r = put_new(event, slice, &piece, after_ns);
	}
	return r;
}

int fgt_tail_put_spans(struct fgt_tail_event *event,
		       const struct fgt_ring_slice *slice,
		       const struct fgt_filter *filter, uint64_t after_ns)
{
	int r = put_tasks(event, slice, filter, after_ns);

	for (uint32_t i = 0; i < slice->span_count && r == 0; i++) {
		const struct fgt_slice_span *span = &slice->spans[i];
		const struct piece piece = {
			.kind = "span",
			.name = fgt_slice_string(slice, span->name),
			.number = span->number,
			.begin_ns = span->begin_ns,
			.end_ns = span->end_ns,
			.tid = span->tid,
		};

		if (is_of(slice, filter, span->tid))
			r = put_new(event, slice, &piece, after_ns);
	}
	for (uint32_t i = 0; i < slice->mark_count && r == 0; i++) {
		const struct fgt_slice_mark *mark = &slice->marks[i];
		const struct piece piece = {
			.kind = "mark",
			.name = fgt_slice_string(slice, mark->name),
			.number = i,
			.begin_ns = mark->at_ns,
			.tid = mark->tid,
		};

		if (mark->at_ns > after_ns && mark->at_ns <= event->at_ns &&
		    is_of(slice, filter, mark->tid))
			r = put_phase(event, slice, &piece, "n");
	}
	return r;
}
