/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances of a span. Pure.
 */
#include "upload/why/instances.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/spans.h"
#include "upload/why/words.h"

#define NAMED_MAX 8u /* spans in an error */
#define ROUNDING  1e-6 /* of a quantile's place: 0.1 % of 1000 is 1 */

static uint64_t length_of(const struct fgt_instance *instance)
{
	return instance->end_ns - instance->begin_ns;
}

static int by_length(const void *left, const void *right)
{
	const struct fgt_instance *a = left, *b = right;

	if (length_of(a) != length_of(b))
		return length_of(a) > length_of(b) ? -1 : 1;
	return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

static void add(struct fgt_instances *instances,
		const struct fgt_ring_slice *slice,
		struct fgt_instance instance)
{
	if (!instance.end_ns)
		instance.end_ns = slice->tick_ns[slice->tick_count - 1];
	if (instance.end_ns > instance.begin_ns)
		instances->items[instances->count++] = instance;
}

/* The label of a span alone; 0: it has none. */
static uint32_t trace_of(const struct fgt_ring_slice *slice, uint32_t span)
{
	uint32_t count;
	const struct fgt_slice_label *labels =
		fgt_spans_labels(slice, span, &count);

	for (uint32_t i = 0; i < count; i++)
		if (!strcmp(fgt_slice_string(slice, labels[i].key), "trace_id"))
			return labels[i].value;
	return 0;
}

static bool is_text(const struct fgt_ring_slice *slice, uint32_t id,
		    const char *wanted)
{
	return !wanted || !strcmp(fgt_slice_string(slice, id), wanted);
}

static void add_spans(struct fgt_instances *instances,
		      const struct fgt_ring_slice *slice, const char *name,
		      const char *trace)
{
	uint32_t around[FGT_SPAN_DEPTH_MAX] = { 0 }; /* traces, by depth */

	for (uint32_t i = 0; i < slice->span_count; i++) {
		const struct fgt_slice_span *span = &slice->spans[i];
		uint32_t id = slice->label_count ? trace_of(slice, i) : 0;

		if (!id && span->depth)
			id = around[span->depth - 1];
		around[span->depth] = id;
		if (is_text(slice, span->name, name) &&
		    is_text(slice, id, trace))
			add(instances, slice,
			    (struct fgt_instance){ span->begin_ns, span->end_ns,
						   span->tid, id });
	}
}

static void add_tasks(struct fgt_instances *instances,
		      const struct fgt_ring_slice *slice, const char *name)
{
	for (uint32_t i = 0; i < slice->task_count; i++) {
		const struct fgt_slice_task *task = &slice->tasks[i];

		if (is_text(slice, task->name, name))
			add(instances, slice,
			    (struct fgt_instance){ task->begin_ns, task->end_ns,
						   task->tid, 0 });
	}
}

/* Of its first spans and tasks, each name once. */
static int explain(const struct fgt_ring_slice *slice, const char *name,
		   struct fgt_why *why)
{
	struct fgt_words words = { .len = 0 };
	uint32_t named[NAMED_MAX], count = 0;

	for (uint32_t i = 0; i < slice->span_count + slice->task_count; i++) {
		uint32_t id =
			i < slice->span_count
				? slice->spans[i].name
				: slice->tasks[i - slice->span_count].name;
		uint32_t at = 0;

		while (at < count && named[at] != id)
			at++;
		if (at < count || count == NAMED_MAX)
			continue;
		named[count++] = id;
		fgt_words_add(&words, "%s%s", at ? ", " : "",
			      fgt_slice_string(slice, id));
	}
	return fgt_why_set(why, -ENODATA,
			   "no span or task \"%.100s\" in that time; %s%.300s",
			   name, count ? "there are: " : "there is none at all",
			   words.text);
}

static int explain_trace(const char *name, const char *trace,
			 struct fgt_why *why)
{
	return fgt_why_set(why, -ENODATA,
			   "no span%s%.100s%s in that time has the label "
			   "trace_id=%.64s: take a longer time, or name the "
			   "trace as the program does",
			   name ? " \"" : "", name ? name : "",
			   name ? "\"" : "", trace);
}

int fgt_instances_find(const struct fgt_ring_slice *slice, const char *name,
		       const char *trace, struct fgt_instances *ret_instances,
		       struct fgt_why *why)
{
	struct fgt_instances instances = { .count = 0 };

	if (!FGT_ARRAY_NEW(instances.items,
			   (size_t)slice->span_count + slice->task_count))
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	add_spans(&instances, slice, name, trace);
	if (!trace) /* tasks have no labels */
		add_tasks(&instances, slice, name);
	if (!instances.count) {
		free(instances.items);
		return trace ? explain_trace(name, trace, why)
			     : explain(slice, name, why);
	}
	FGT_ARRAY_SORT(instances.items, instances.count, by_length);
	*ret_instances = instances;
	return 0;
}

void fgt_instances_done(struct fgt_instances *instances)
{
	free(instances->items);
}

uint64_t fgt_instances_quantile(const struct fgt_instances *instances,
				double percent)
{
	double longer = (100 - percent) / 100 * instances->count + ROUNDING;
	uint32_t at = longer <= 0 ? 0 : (uint32_t)longer;

	if (at >= instances->count)
		at = instances->count - 1;
	return length_of(&instances->items[at]);
}

uint32_t fgt_instances_count_over(const struct fgt_instances *instances,
				  uint64_t ns)
{
	return (uint32_t)FGT_ARRAY_BISECT(
		at, instances->count, length_of(&instances->items[at]) > ns);
}

/* Which ticks of a thread fall into its instances? Their number. */
static uint32_t mark_ticks(const struct fgt_ring_slice *slice,
			   const struct fgt_instances *instances,
			   uint32_t first, uint32_t end, int32_t tid,
			   bool *ret_marks)
{
	uint32_t count = 0;

	memset(ret_marks, 0, slice->tick_count * sizeof(*ret_marks));
	for (uint32_t i = first; i < end; i++) {
		const struct fgt_instance *instance = &instances->items[i];
		size_t tick;

		if (instance->tid != tid)
			continue;
		tick = FGT_ARRAY_BISECT(at, slice->tick_count,
					slice->tick_ns[at] <
						instance->begin_ns);
		for (; tick < slice->tick_count &&
		       slice->tick_ns[tick] <= instance->end_ns;
		     tick++, count++)
			ret_marks[tick] = true;
	}
	return count;
}

/*
 * The pieces of a run in marked ticks. *is_sampled: the thread has been, in the
 * marked ticks up to there without a gap. Until then its last known stack is
 * what it did before.
 */
static int add_pieces(struct fgt_ring_slice *view, uint32_t *capacity,
		      struct fgt_run run, const bool *marks, bool *is_sampled)
{
	uint32_t tick = run.first_tick, end = tick + run.tick_count;
	const uint32_t stack = run.stack;
	bool is_last_known = fgt_slice_leaf_marker(view, stack) ==
			     FGT_MARKER_NOT_SAMPLED;

	while (tick < end) {
		int r;

		while (tick < end && !marks[tick]) {
			*is_sampled = false;
			tick++;
		}
		run.first_tick = tick;
		while (tick < end && marks[tick])
			tick++;
		run.tick_count = tick - run.first_tick;
		if (!run.tick_count)
			break;
		*is_sampled |= !is_last_known;
		run.stack = *is_sampled ? stack : FGT_NODE_NONE;
		r = FGT_ARRAY_GROW(view->runs, view->run_count, *capacity);
		if (r < 0)
			return r;
		view->runs[view->run_count++] = run;
	}
	return 0;
}

static int choose_runs(const struct fgt_ring_slice *slice,
		       const struct fgt_instances *instances, uint32_t first,
		       uint32_t end, struct fgt_ring_slice *view)
{
	uint32_t capacity = 0, thread = UINT32_MAX, marked = 0;
	bool *marks, is_sampled = false;
	int r = 0;

	view->runs = NULL;
	view->run_count = 0;
	if (!FGT_ARRAY_NEW(marks, slice->tick_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->run_count && r == 0; i++) {
		const struct fgt_run *run = &slice->runs[i];

		if (run->thread != thread) {
			marked = mark_ticks(slice, instances, first, end,
					    slice->threads[run->thread].tid,
					    marks);
			is_sampled = false;
		}
		thread = run->thread;
		if (marked)
			r = add_pieces(view, &capacity, *run, marks,
				       &is_sampled);
	}
	free(marks);
	return r;
}

int fgt_instances_cut(const struct fgt_ring_slice *slice,
		      const struct fgt_instances *instances, uint32_t first,
		      uint32_t end, struct fgt_ring_slice **ret_part)
{
	struct fgt_ring_slice view = *slice;
	int r = choose_runs(slice, instances, first, end, &view);

	/* They may belong to a run that was left out. */
	view.edge_count = view.wake_count = 0;
	if (r == 0)
		r = fgt_slice_narrow_runs(&view, ret_part);
	free(view.runs);
	return r;
}
