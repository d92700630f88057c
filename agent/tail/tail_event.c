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
		     const struct fgt_tail_thread *thread)
{
	struct fgt_json json;

	if (is_chrome(event))
		return put_ends(event, &thread->stack, 0, thread->tid);
	begin(&json, event);
	fgt_json_put_int(&json, "tid", thread->tid);
	fgt_json_put_bool(&json, "ended", true);
	return end(&json, event);
}

int fgt_tail_put_left(struct fgt_tail_event *event,
		      const struct fgt_ring_slice *slice,
		      const struct fgt_tail_thread *thread)
{
	struct fgt_json json;

	if (is_chrome(event))
		return put_ends(event, &thread->stack, 0, thread->tid);
	begin_json(&json, event, slice, event->at_ns, thread->tid);
	fgt_json_put_bool(&json, "left", true);
	return end(&json, event);
}

/* phase: "b" begins, "e" ends, "n" is an instant. */
static int put_span(struct fgt_tail_event *event,
		    const struct fgt_ring_slice *slice, const char *name,
		    const char *phase, uint64_t number, uint64_t at_ns,
		    int32_t tid)
{
	struct fgt_json json;

	if (is_chrome(event)) {
		begin_chrome(&json, event, name, phase, at_ns, tid);
		fgt_json_put_string(&json, "cat", "span");
		fgt_json_put_hex_string(&json, "id", number);
		return end(&json, event);
	}
	begin_json(&json, event, slice, at_ns, tid);
	fgt_json_put_string(&json, phase[0] == 'n' ? "mark" : "span", name);
	if (phase[0] != 'n') {
		fgt_json_put_uint(&json, "number", number);
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

int fgt_tail_put_spans(struct fgt_tail_event *event,
		       const struct fgt_ring_slice *slice,
		       const struct fgt_filter *filter, uint64_t after_ns)
{
	uint64_t to_ns = event->at_ns;
	int r = 0;

	for (uint32_t i = 0; i < slice->span_count && r == 0; i++) {
		const struct fgt_slice_span *span = &slice->spans[i];
		const char *name = fgt_slice_string(slice, span->name);

		if (!is_of(slice, filter, span->tid))
			continue;
		if (span->begin_ns > after_ns && span->begin_ns <= to_ns)
			r = put_span(event, slice, name, "b", span->number,
				     span->begin_ns, span->tid);
		if (r == 0 && span->end_ns > after_ns && span->end_ns <= to_ns)
			r = put_span(event, slice, name, "e", span->number,
				     span->end_ns, span->tid);
	}
	for (uint32_t i = 0; i < slice->mark_count && r == 0; i++) {
		const struct fgt_slice_mark *mark = &slice->marks[i];

		if (mark->at_ns > after_ns && mark->at_ns <= to_ns &&
		    is_of(slice, filter, mark->tid))
			r = put_span(event, slice,
				     fgt_slice_string(slice, mark->name), "n",
				     i, mark->at_ns, mark->tid);
	}
	return r;
}
