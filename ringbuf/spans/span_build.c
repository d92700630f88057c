/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts what was gathered from a span log into the tables of a slice, if it
 * overlaps the slice's ticks. Any thread.
 */
#include "ringbuf/spans/span_cut.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/spans.h"

static int intern(const struct fgt_span_gathering *all,
		  struct fgt_span_text text, uint32_t *ret_id)
{
	return fgt_strings_intern(&all->slice->strings,
				  text.len ? all->text + text.at : "", text.len,
				  ret_id);
}

static int put_tasks(struct fgt_span_gathering *all)
{
	struct fgt_ring_slice *slice = all->slice;
	struct fgt_span_item **order = all->order;

	if (!FGT_ARRAY_NEW(slice->tasks, all->task_count))
		return -ENOMEM;
	for (size_t i = 0; i < all->task_count; i++) {
		struct fgt_slice_task *task = &slice->tasks[slice->task_count];
		struct fgt_span_item *item = order[i];
		int r;

		if (!fgt_spans_belong(slice, item->begin_ns, item->end_ns))
			continue;
		*task = (struct fgt_slice_task){
			.number = item->number,
			.begin_ns = item->begin_ns,
			.end_ns = item->end_ns == UINT64_MAX ? 0 : item->end_ns,
			.track = item->track,
			.tid = item->tid,
		};
		r = intern(all, item->name, &task->name);
		if (r < 0)
			return r;
		item->index = ++slice->task_count;
	}
	for (size_t i = 0; i < all->task_count; i++) {
		struct fgt_span_item *item = order[i], *parent;

		parent =
			fgt_span_find(all->tasks, all->task_count, item->owner);
		if (item->index && parent && parent->index &&
		    parent->begin_ns < item->begin_ns)
			slice->tasks[item->index - 1].parent = parent->index;
	}
	return 0;
}

/* The order is that of the tasks in the slice; within a task nothing moves. */
static int compare_places(const void *left, const void *right)
{
	const struct fgt_span_item *const *a = left, *const *b = right;

	if ((*a)->index != (*b)->index)
		return (*a)->index < (*b)->index ? -1 : 1;
	return *a < *b ? -1 : *a > *b;
}

/* Keeps spans that belong to the slice, with the index of their task; returns
 * how many. */
static size_t choose_spans(struct fgt_span_gathering *all,
			   struct fgt_span_item **ret_order)
{
	size_t count = 0;

	for (size_t i = 0; i < all->span_count; i++) {
		struct fgt_span_item *span = &all->spans[i];

		if (!fgt_spans_belong(all->slice, span->begin_ns, span->end_ns))
			continue;
		span->index =
			fgt_span_find(all->tasks, all->task_count, span->owner)
				->index;
		if (span->index)
			ret_order[count++] = span;
	}
	FGT_ARRAY_SORT(ret_order, count, compare_places);
	return count;
}

static int put_spans(struct fgt_span_gathering *all,
		     struct fgt_span_item **order)
{
	struct fgt_ring_slice *slice = all->slice;
	size_t count = choose_spans(all, order);

	if (!FGT_ARRAY_NEW(slice->spans, count))
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct fgt_span_item *item = order[i];
		struct fgt_slice_span *span = &slice->spans[i];
		int r;

		*span = (struct fgt_slice_span){
			.number = item->number,
			.begin_ns = item->begin_ns,
			.end_ns = item->end_ns == UINT64_MAX ? 0 : item->end_ns,
			.task = item->index - 1,
			.depth = item->depth,
			.tid = item->tid,
		};
		r = intern(all, item->name, &span->name);
		if (r < 0)
			return r;
		slice->span_count++;
	}
	return 0;
}

static int put_mark(struct fgt_span_gathering *all,
		    const struct fgt_span_remark *remark)
{
	struct fgt_ring_slice *slice = all->slice;
	struct fgt_slice_mark mark = { .at_ns = remark->at_ns,
				       .tid = remark->tid };
	int r = intern(all, remark->text, &mark.name);

	if (r == 0)
		slice->marks[slice->mark_count++] = mark;
	return r;
}

static int put_counter(struct fgt_span_gathering *all,
		       const struct fgt_span_remark *remark)
{
	struct fgt_ring_slice *slice = all->slice;
	struct fgt_slice_counter counter = { .at_ns = remark->at_ns,
					     .value = remark->value };
	int r;

	if (!isfinite(remark->value))
		return 0;
	r = intern(all, remark->text, &counter.name);
	if (r == 0)
		slice->counters[slice->counter_count++] = counter;
	return r;
}

/* ---- Labels ------------------------------------------------------------- */

/* Spans of the slice by number. */
struct span_place {
	uint64_t number;
	uint32_t span;
};

/* A label and its place in time, among all. */
struct timed_label {
	struct fgt_slice_label label;
	uint32_t order;
};

static int compare_numbers(const void *left, const void *right)
{
	const struct span_place *a = left, *b = right;

	return a->number < b->number ? -1 : a->number > b->number;
}

static int compare_timed(const void *left, const void *right)
{
	const struct timed_label *a = left, *b = right;

	if (a->label.span != b->label.span)
		return a->label.span < b->label.span ? -1 : 1;
	if (a->label.key != b->label.key)
		return a->label.key < b->label.key ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static struct span_place *new_places(const struct fgt_ring_slice *slice)
{
	struct span_place *places;

	if (!FGT_ARRAY_NEW(places, slice->span_count))
		return NULL;
	for (uint32_t i = 0; i < slice->span_count; i++)
		places[i] = (struct span_place){ slice->spans[i].number, i };
	FGT_ARRAY_SORT(places, slice->span_count, compare_numbers);
	return places;
}

/* One label more, unless its span is not in the slice. */
static int add_label(struct fgt_span_gathering *all,
		     const struct span_place *places,
		     const struct fgt_span_remark *remark,
		     struct timed_label *labels, uint32_t *count)
{
	const struct span_place wanted = { .number = remark->number };
	const struct span_place *place;
	struct timed_label *next = &labels[*count];
	int r;

	place = bsearch(&wanted, places, all->slice->span_count, sizeof(wanted),
			compare_numbers);
	if (!place)
		return 0;
	next->label.span = place->span;
	next->order = *count;
	r = intern(all, remark->key, &next->label.key);
	if (r == 0)
		r = intern(all, remark->text, &next->label.value);
	if (r == 0)
		++*count;
	return r;
}

/* The later of two labels with one key is kept. */
static void take_last(struct fgt_ring_slice *slice, struct timed_label *labels,
		      uint32_t count)
{
	FGT_ARRAY_SORT(labels, count, compare_timed);
	for (uint32_t i = 0; i < count; i++)
		if (i + 1 == count ||
		    labels[i].label.span != labels[i + 1].label.span ||
		    labels[i].label.key != labels[i + 1].label.key)
			slice->labels[slice->label_count++] = labels[i].label;
}

static int put_labels(struct fgt_span_gathering *all)
{
	FGT_AUTO(free) void *places = new_places(all->slice);
	FGT_AUTO(free) void *labels = NULL;
	uint32_t count = 0;
	int r = 0;

	labels = calloc(all->remark_count + 1, sizeof(struct timed_label));
	if (!places || !labels ||
	    !FGT_ARRAY_NEW(all->slice->labels, all->remark_count))
		return -ENOMEM;
	for (size_t i = 0; i < all->remark_count && r == 0; i++)
		if (all->remarks[i].kind == FGT_SPAN_LABEL)
			r = add_label(all, places, &all->remarks[i], labels,
				      &count);
	if (r == 0)
		take_last(all->slice, labels, count);
	return r;
}

/* ---- Marks and counters -------------------------------------------------- */

static int put_remarks(struct fgt_span_gathering *all)
{
	struct fgt_ring_slice *slice = all->slice;
	int r = 0;

	if (!FGT_ARRAY_NEW(slice->marks, all->remark_count) ||
	    !FGT_ARRAY_NEW(slice->counters, all->remark_count))
		return -ENOMEM;
	for (size_t i = 0; i < all->remark_count && r == 0; i++) {
		const struct fgt_span_remark *remark = &all->remarks[i];

		if (remark->kind == FGT_SPAN_MARK &&
		    fgt_spans_belong(slice, remark->at_ns, remark->at_ns))
			r = put_mark(all, remark);
		else if (remark->kind == FGT_SPAN_COUNTER &&
			 fgt_spans_belong(slice, remark->at_ns, 0))
			r = put_counter(all, remark);
	}
	fgt_spans_settle_counters(slice);
	return r;
}

int fgt_span_build(struct fgt_span_gathering *all)
{
	FGT_AUTO(free) void *order = NULL;
	int r;

	order = calloc(all->span_count + 1, sizeof(struct fgt_span_item *));
	if (!order)
		return -ENOMEM;
	r = put_tasks(all);
	if (r == 0)
		r = put_spans(all, order);
	if (r == 0)
		r = put_remarks(all);
	if (r == 0)
		r = put_labels(all);
	return r;
}
