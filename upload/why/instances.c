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

/* ---- A part of the slice ------------------------------------------------- */

/* Consecutive ticks. */
struct stretch {
	uint32_t first, end;
};

struct instance_cut {
	const struct fgt_ring_slice *slice;
	struct fgt_instance *items; /* by thread, then begin */
	uint32_t count;
	struct stretch *stretches; /* [count]: of the present thread number */
	uint32_t stretch_count;
	uint32_t at; /* stretch of the last run */
	/* The thread has been, in that stretch. Until then its last known stack
	 * is what it did before. */
	bool is_sampled;
	struct fgt_ring_slice *view;
	uint32_t capacity; /* of its runs */
};

static int by_thread(const void *left, const void *right)
{
	const struct fgt_instance *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

/* The ticks that fall into instances of a thread, each once. */
static void find_stretches(struct instance_cut *cutting, int32_t tid)
{
	const struct fgt_ring_slice *slice = cutting->slice;
	struct stretch *last = cutting->stretches;
	size_t i = FGT_ARRAY_BISECT(at, cutting->count,
				    cutting->items[at].tid < tid);

	cutting->stretch_count = 0;
	for (; i < cutting->count && cutting->items[i].tid == tid; i++) {
		const struct fgt_instance *item = &cutting->items[i];
		struct stretch next = {
			.first = (uint32_t)FGT_ARRAY_BISECT(
				at, slice->tick_count,
				slice->tick_ns[at] < item->begin_ns),
			.end = (uint32_t)FGT_ARRAY_BISECT(at, slice->tick_count,
							  slice->tick_ns[at] <=
								  item->end_ns),
		};

		if (next.first == next.end)
			continue;
		if (!cutting->stretch_count || next.first > last->end) {
			last = &cutting->stretches[cutting->stretch_count++];
			*last = next;
		} else if (next.end > last->end) {
			last->end = next.end;
		}
	}
}

static void move_to(struct instance_cut *cutting, uint32_t tick)
{
	uint32_t at = (uint32_t)FGT_ARRAY_BISECT(
		i, cutting->stretch_count, cutting->stretches[i].end <= tick);

	if (at != cutting->at)
		cutting->is_sampled = false;
	cutting->at = at;
}

/* The pieces of a run in the stretches. */
static int add_pieces(struct instance_cut *cutting, struct fgt_run run)
{
	uint32_t tick = run.first_tick, end = tick + run.tick_count;
	struct fgt_ring_slice *view = cutting->view;
	const uint32_t stack = run.stack;
	bool is_last_known = fgt_slice_leaf_marker(view, stack) ==
			     FGT_MARKER_NOT_SAMPLED;
	int r = 0;

	while (tick < end && r == 0) {
		struct stretch piece;

		move_to(cutting, tick);
		if (cutting->at == cutting->stretch_count)
			break;
		piece = cutting->stretches[cutting->at];
		run.first_tick = piece.first > tick ? piece.first : tick;
		tick = piece.end < end ? piece.end : end;
		if (run.first_tick >= tick)
			break;
		run.tick_count = tick - run.first_tick;
		cutting->is_sampled |= !is_last_known;
		run.stack = cutting->is_sampled ? stack : FGT_NODE_NONE;
		r = FGT_ARRAY_GROW(view->runs, view->run_count,
				   cutting->capacity);
		if (r == 0)
			view->runs[view->run_count++] = run;
	}
	return r;
}

static int choose_runs(struct instance_cut *cutting)
{
	const struct fgt_ring_slice *slice = cutting->slice;
	const struct fgt_slice_thread *thread, *last = NULL;
	int r = 0;

	for (uint32_t i = 0; i < slice->run_count && r == 0; i++) {
		thread = &slice->threads[slice->runs[i].thread];
		if (thread != last) {
			if (!last || last->tid != thread->tid)
				find_stretches(cutting, thread->tid);
			cutting->is_sampled = false;
		}
		last = thread;
		r = add_pieces(cutting, slice->runs[i]);
	}
	return r;
}

int fgt_instances_cut(const struct fgt_ring_slice *slice,
		      const struct fgt_instances *instances, uint32_t first,
		      uint32_t end, struct fgt_ring_slice **ret_part)
{
	struct fgt_ring_slice view = *slice;
	struct instance_cut cutting = { .slice = slice,
					.count = end - first,
					.view = &view };
	int r = 0;

	view.runs = NULL;
	view.run_count = 0;
	if (!FGT_ARRAY_NEW(cutting.items, cutting.count) ||
	    !FGT_ARRAY_NEW(cutting.stretches, cutting.count)) {
		r = -ENOMEM;
	} else {
		memcpy(cutting.items, &instances->items[first],
		       cutting.count * sizeof(*cutting.items));
		FGT_ARRAY_SORT(cutting.items, cutting.count, by_thread);
		r = choose_runs(&cutting);
	}
	/* They may belong to a run that was left out. */
	view.edge_count = view.wake_count = 0;
	if (r == 0)
		r = fgt_slice_narrow_runs(&view, ret_part);
	free(view.runs);
	free(cutting.items);
	free(cutting.stretches);
	return r;
}
