/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs of a merged slice reported. Runs in any thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/merge.h"
#include "ringbuf/slice/spans.h"

/* Tracks of two processes never share a number. */
static int add_tasks(struct fgt_merge *merge,
		     const struct fgt_merge_source *source)
{
	struct fgt_ring_slice *result = merge->result;
	int r = 0;

	for (uint32_t i = 0; i < source->slice->task_count && r == 0; i++) {
		struct fgt_slice_task task = source->slice->tasks[i];

		task.track += source->first_track;
		if (task.parent)
			task.parent += source->first_task;
		r = fgt_merge_string(merge, source, &task.name);
		result->tasks[result->task_count++] = task;
	}
	for (uint32_t i = 0; i < source->slice->span_count && r == 0; i++) {
		struct fgt_slice_span span = source->slice->spans[i];

		span.task += source->first_task;
		r = fgt_merge_string(merge, source, &span.name);
		result->spans[result->span_count++] = span;
	}
	for (uint32_t i = 0; i < source->slice->label_count && r == 0; i++) {
		struct fgt_slice_label label = source->slice->labels[i];

		label.span += source->first_span;
		r = fgt_merge_string(merge, source, &label.key);
		if (r == 0)
			r = fgt_merge_string(merge, source, &label.value);
		result->labels[result->label_count++] = label;
	}
	return r;
}

/* Counters of two programs are two counters. */
static int name_counter(struct fgt_merge *merge,
			const struct fgt_merge_source *source, uint32_t *id)
{
	char name[FGT_STRING_MAX];

	if (merge->count == 1)
		return fgt_merge_string(merge, source, id);
	snprintf(name, sizeof(name), "%.4000s (%d)",
		 fgt_slice_string(source->slice, *id),
		 source->slice->process.pid);
	return fgt_strings_intern(&merge->result->strings, name, strlen(name),
				  id);
}

static int add_points(struct fgt_merge *merge,
		      const struct fgt_merge_source *source)
{
	struct fgt_ring_slice *result = merge->result;
	int r = 0;

	for (uint32_t i = 0; i < source->slice->mark_count && r == 0; i++) {
		struct fgt_slice_mark mark = source->slice->marks[i];

		r = fgt_merge_string(merge, source, &mark.name);
		result->marks[result->mark_count++] = mark;
	}
	for (uint32_t i = 0; i < source->slice->counter_count && r == 0; i++) {
		struct fgt_slice_counter counter = source->slice->counters[i];

		r = name_counter(merge, source, &counter.name);
		result->counters[result->counter_count++] = counter;
	}
	return r;
}

static int compare_marks(const void *left, const void *right)
{
	const struct fgt_slice_mark *a = left, *b = right;

	return (a->at_ns > b->at_ns) - (a->at_ns < b->at_ns);
}

static int compare_labels(const void *left, const void *right)
{
	const struct fgt_slice_label *a = left, *b = right;

	if (a->span != b->span)
		return a->span < b->span ? -1 : 1;
	return (a->key > b->key) - (a->key < b->key);
}

/* Where each source's tasks, tracks and spans begin. */
static int make_room(struct fgt_merge *merge)
{
	struct fgt_ring_slice *result = merge->result;
	uint32_t tasks = 0, tracks = 0, spans = 0, marks = 0, counters = 0;
	uint32_t labels = 0;

	for (uint32_t i = 0; i < merge->count; i++) {
		struct fgt_merge_source *source = &merge->sources[i];
		const struct fgt_ring_slice *slice = source->slice;

		source->first_task = tasks;
		source->first_track = tracks;
		source->first_span = spans;
		tasks += slice->task_count;
		if (slice->task_count)
			tracks += slice->tasks[slice->task_count - 1].track + 1;
		spans += slice->span_count;
		marks += slice->mark_count;
		counters += slice->counter_count;
		labels += slice->label_count;
	}
	if (!FGT_ARRAY_NEW(result->tasks, tasks) ||
	    !FGT_ARRAY_NEW(result->spans, spans) ||
	    !FGT_ARRAY_NEW(result->marks, marks) ||
	    !FGT_ARRAY_NEW(result->counters, counters) ||
	    !FGT_ARRAY_NEW(result->labels, labels))
		return -ENOMEM;
	return 0;
}

int fgt_merge_spans(struct fgt_merge *merge)
{
	struct fgt_ring_slice *result = merge->result;
	int r = make_room(merge);

	for (uint32_t i = 0; i < merge->count && r == 0; i++) {
		r = add_tasks(merge, &merge->sources[i]);
		if (r == 0)
			r = add_points(merge, &merge->sources[i]);
	}
	if (r < 0)
		return r;
	FGT_ARRAY_SORT(result->marks, result->mark_count, compare_marks);
	FGT_ARRAY_SORT(result->labels, result->label_count, compare_labels);
	fgt_spans_settle_counters(result);
	return 0;
}
