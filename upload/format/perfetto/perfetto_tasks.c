/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks, spans, marks and counters as track events. A track shows tasks that do
 * not overlap. Runs in any thread; must not hold more than two numbers for each
 * task.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/spans.h"
#include "ringbuf/spans/span_log.h"
#include "upload/format/perfetto/perfetto.h"

struct task_tracks {
	struct fgt_perfetto *trace;
	const struct fgt_ring_slice *slice;
	/* By task, as index + 1: its last child that is shown, and that child's
	 * elder sibling; 0: none. */
	uint32_t *children, *siblings;
	uint32_t next_span; /* of the slice, not written yet */
};

static const char *text(const struct task_tracks *tasks, uint32_t id,
			const char *otherwise)
{
	const char *found = fgt_slice_string(tasks->slice, id);

	return *found ? found : otherwise;
}

/* ---- Tasks and spans ---------------------------------------------------- */

/* Log lines have the same number, see fgt_span_ids(). */
static void put_id(struct task_tracks *tasks, uint64_t number)
{
	char digits[FGT_NUMBER_TEXT_SIZE];

	fgt_number_text(number, digits);
	fgt_perfetto_put_argument(tasks->trace, "id", digits);
}

/* From its parent. */
static bool has_arrow(const struct task_tracks *tasks, uint32_t child)
{
	const struct fgt_slice_task *task = &tasks->slice->tasks[child];
	uint64_t begin_ns, end_ns, ignored[2];

	return task->parent &&
	       fgt_spans_clip_task(tasks->slice, child, &ignored[0],
				   &ignored[1]) &&
	       fgt_spans_clip_task(tasks->slice, task->parent - 1, &begin_ns,
				   &end_ns) &&
	       task->begin_ns > begin_ns && task->begin_ns < end_ns &&
	       tasks->slice->tasks[task->parent - 1].track != task->track;
}

/* Arrows lead from a slice of the flow to the next one in time. */
static void put_flows(struct task_tracks *tasks, uint32_t index)
{
	struct fgt_protobuf *out = &tasks->trace->out;

	for (uint32_t child = tasks->children[index]; child;
	     child = tasks->siblings[child - 1])
		fgt_protobuf_put_fixed64(out, FGT_EVENT_FLOW_IDS, child);
	if (has_arrow(tasks, index))
		fgt_protobuf_put_fixed64(out, FGT_EVENT_TERMINATING_FLOW_IDS,
					 (uint64_t)index + 1);
}

static void begin_task(struct task_tracks *tasks, uint32_t index,
		       uint64_t track, uint64_t mono_ns)
{
	const struct fgt_slice_task *task = &tasks->slice->tasks[index];

	fgt_perfetto_begin_event(tasks->trace, mono_ns, FGT_EVENT_BEGIN, track,
				 text(tasks, task->name, "task"));
	put_id(tasks, task->number);
	put_flows(tasks, index);
	fgt_perfetto_end_event(tasks->trace);
}

static void put_labels(struct task_tracks *tasks, uint32_t span)
{
	const struct fgt_slice_label *labels;
	uint32_t count;

	labels = fgt_spans_labels(tasks->slice, span, &count);
	if (!count)
		return;
	fgt_perfetto_begin_entries(tasks->trace, "labels");
	for (uint32_t i = 0; i < count; i++)
		fgt_perfetto_put_entry(tasks->trace,
				       text(tasks, labels[i].key, "label"),
				       text(tasks, labels[i].value, ""));
	fgt_perfetto_end_entries(tasks->trace);
}

static void begin_span(struct task_tracks *tasks, uint32_t index,
		       uint64_t track, uint64_t mono_ns)
{
	const struct fgt_slice_span *span = &tasks->slice->spans[index];

	fgt_perfetto_begin_event(tasks->trace, mono_ns, FGT_EVENT_BEGIN, track,
				 text(tasks, span->name, "span"));
	put_id(tasks, span->number);
	put_labels(tasks, index);
	fgt_perfetto_end_event(tasks->trace);
}

static void put_end(struct task_tracks *tasks, uint64_t track, uint64_t mono_ns)
{
	fgt_perfetto_begin_event(tasks->trace, mono_ns, FGT_EVENT_END, track,
				 NULL);
	fgt_perfetto_end_event(tasks->trace);
}

/* Spans that have not ended, by depth; 0: the span is not shown. */
struct open_spans {
	uint32_t depth;
	uint64_t end_ns[FGT_SPAN_DEPTH_MAX];
};

static void close_to(struct task_tracks *tasks, struct open_spans *open,
		     uint64_t track, uint32_t depth)
{
	while (open->depth > depth) {
		open->depth--;
		if (open->end_ns[open->depth])
			put_end(tasks, track, open->end_ns[open->depth]);
	}
}

static void put_spans_of(struct task_tracks *tasks, uint32_t task,
			 uint64_t track)
{
	const struct fgt_ring_slice *slice = tasks->slice;
	struct open_spans open = { .depth = 0 };

	for (; tasks->next_span < slice->span_count; tasks->next_span++) {
		const struct fgt_slice_span *span =
			&slice->spans[tasks->next_span];
		uint64_t begin_ns = 0, end_ns = 0;

		if (span->task != task)
			break;
		close_to(tasks, &open, track, span->depth);
		if (fgt_spans_clip_part(tasks->slice, span->begin_ns,
					span->end_ns, &begin_ns, &end_ns))
			begin_span(tasks, tasks->next_span, track, begin_ns);
		else
			end_ns = 0;
		open.end_ns[open.depth++] = end_ns;
	}
	close_to(tasks, &open, track, 0);
}

static void put_task(struct task_tracks *tasks, uint32_t index, uint64_t *track)
{
	const struct fgt_slice_task *task = &tasks->slice->tasks[index];
	uint64_t begin_ns, end_ns;

	if (!fgt_spans_clip_task(tasks->slice, index, &begin_ns, &end_ns)) {
		while (tasks->next_span < tasks->slice->span_count &&
		       tasks->slice->spans[tasks->next_span].task == index)
			tasks->next_span++;
		return;
	}
	if (!*track) {
		*track = tasks->trace->next_uuid++;
		fgt_perfetto_begin_track(tasks->trace, *track,
					 text(tasks, task->name, "task"),
					 FGT_PERFETTO_PROCESS_UUID);
		fgt_perfetto_end_track(tasks->trace);
	}
	begin_task(tasks, index, *track, begin_ns);
	put_spans_of(tasks, index, *track);
	put_end(tasks, *track, end_ns);
}

static int find_children(struct task_tracks *tasks)
{
	const struct fgt_ring_slice *slice = tasks->slice;

	if (!FGT_ARRAY_NEW(tasks->children, slice->task_count) ||
	    !FGT_ARRAY_NEW(tasks->siblings, slice->task_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->task_count; i++)
		if (has_arrow(tasks, i)) {
			uint32_t *last =
				&tasks->children[slice->tasks[i].parent - 1];

			tasks->siblings[i] = *last;
			*last = i + 1;
		}
	return 0;
}

/* ---- Marks and counters ------------------------------------------------- */

static void put_marks(struct task_tracks *tasks)
{
	const struct fgt_ring_slice *slice = tasks->slice;
	uint64_t brief = 0; /* track of a thread that lived less than a tick */
	int32_t brief_tid = 0;

	for (uint32_t i = 0; i < slice->mark_count; i++) {
		const struct fgt_slice_mark *mark = &slice->marks[i];
		size_t thread = fgt_slice_find_thread(slice, mark->tid);
		uint64_t ns, ignored;
		char name[32];

		if (!fgt_spans_clip(slice, mark->at_ns, mark->at_ns, &ns,
				    &ignored))
			continue;
		if (thread == slice->thread_count &&
		    (!brief || mark->tid != brief_tid)) {
			brief = tasks->trace->next_uuid++;
			brief_tid = mark->tid;
			snprintf(name, sizeof(name), "thread %d", mark->tid);
			fgt_perfetto_put_thread(tasks->trace, brief, 0,
						mark->tid, name);
		}
		fgt_perfetto_put_wakes(tasks->trace, ns);
		fgt_perfetto_begin_event(
			tasks->trace, ns, FGT_EVENT_INSTANT,
			thread == slice->thread_count
				? brief
				: fgt_perfetto_thread_uuid((uint32_t)thread),
			text(tasks, mark->name, "mark"));
		fgt_perfetto_end_event(tasks->trace);
	}
}

/* Ordered by name. */
static void put_counters(struct task_tracks *tasks)
{
	const struct fgt_ring_slice *slice = tasks->slice;
	struct fgt_perfetto *trace = tasks->trace;
	uint64_t track = 0, ns, ignored;
	uint32_t name = 0;

	for (uint32_t i = 0; i < slice->counter_count; i++) {
		const struct fgt_slice_counter *counter = &slice->counters[i];

		if (!fgt_spans_clip(slice, counter->at_ns, counter->at_ns, &ns,
				    &ignored))
			continue;
		if (!track || counter->name != name) {
			track = trace->next_uuid++;
			name = counter->name;
			fgt_perfetto_begin_track(trace, track,
						 text(tasks, name, "counter"),
						 FGT_PERFETTO_PROCESS_UUID);
			fgt_protobuf_begin(&trace->out, FGT_TRACK_COUNTER);
			fgt_protobuf_end(&trace->out);
			fgt_perfetto_end_track(trace);
		}
		fgt_perfetto_begin_event(trace, ns, FGT_EVENT_COUNTER, track,
					 NULL);
		fgt_protobuf_put_double(&trace->out,
					FGT_EVENT_DOUBLE_COUNTER_VALUE,
					counter->value);
		fgt_perfetto_end_event(trace);
	}
}

static void put_tracks(struct task_tracks *tasks)
{
	const struct fgt_ring_slice *slice = tasks->slice;
	uint64_t track = 0;

	for (uint32_t i = 0; i < slice->task_count; i++) {
		if (i && slice->tasks[i].track != slice->tasks[i - 1].track)
			track = 0;
		put_task(tasks, i, &track);
	}
}

int fgt_perfetto_put_tasks(struct fgt_perfetto *trace)
{
	struct task_tracks tasks = { .trace = trace, .slice = trace->slice };
	int r = find_children(&tasks);

	if (r == 0) {
		put_tracks(&tasks);
		put_marks(&tasks);
		put_counters(&tasks);
	}
	free(tasks.children);
	free(tasks.siblings);
	return r;
}
