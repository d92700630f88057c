/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns records of a span log into the tables of a slice: gathers all, joins
 * begin and end of one thing, nests spans and keeps what overlaps the slice's
 * ticks. Any thread; must check every record: its process may have written
 * anything.
 */
#include "ringbuf/spans/span_cut.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/spans.h"

static void gathering_done(struct fgt_span_gathering *all)
{
	free(all->tasks);
	free(all->order);
	free(all->spans);
	free(all->remarks);
	free(all->text);
}

/* ---- Gathering ---------------------------------------------------------- */

static int keep_text(struct fgt_span_gathering *all, const char *text,
		     uint8_t len, struct fgt_span_text *ret_text)
{
	int r = FGT_ARRAY_RESERVE(all->text, all->text_len + len,
				  all->text_capacity);

	if (r < 0)
		return r;
	if (len)
		memcpy(all->text + all->text_len, text, len);
	*ret_text = (struct fgt_span_text){ .at = all->text_len, .len = len };
	all->text_len += len;
	return 0;
}

static int keep_item(struct fgt_span_gathering *all,
		     const struct fgt_span_record *record, bool is_task,
		     bool has_ended)
{
	struct fgt_span_item item = {
		.number = record->number,
		.owner = record->owner,
		.begin_ns = record->begin_ns,
		.end_ns = has_ended ? record->end_ns : UINT64_MAX,
		.track = record->track,
		.tid = record->tid,
		.has_ended = has_ended,
	};
	int r;

	/* 0 stands for open in slices: no clock shows it. */
	if (!item.begin_ns || item.end_ns < item.begin_ns)
		return 0;
	r = keep_text(all, record->text, record->text_len, &item.name);
	if (r == 0 && is_task)
		r = FGT_ARRAY_GROW(all->tasks, all->task_count,
				   all->task_capacity);
	else if (r == 0)
		r = FGT_ARRAY_GROW(all->spans, all->span_count,
				   all->span_capacity);
	if (r < 0)
		return r;
	if (is_task)
		all->tasks[all->task_count++] = item;
	else
		all->spans[all->span_count++] = item;
	return 0;
}

static int keep_remark(struct fgt_span_gathering *all,
		       const struct fgt_span_record *record)
{
	struct fgt_span_remark remark = {
		.kind = record->kind,
		.tid = record->tid,
		.at_ns = record->begin_ns,
		.number = record->number,
		.value = record->value,
	};
	int r = keep_text(all, record->key, record->key_len, &remark.key);

	if (r == 0)
		r = keep_text(all, record->text, record->text_len,
			      &remark.text);
	if (r == 0)
		r = FGT_ARRAY_GROW(all->remarks, all->remark_count,
				   all->remark_capacity);
	if (r == 0)
		all->remarks[all->remark_count++] = remark;
	return r;
}

static int gather(void *context, const struct fgt_span_record *record)
{
	struct fgt_span_gathering *all = context;

	switch (record->kind) {
	case FGT_SPAN_TASK_BEGIN:
	case FGT_SPAN_TASK_END:
		return keep_item(all, record, true,
				 record->kind == FGT_SPAN_TASK_END);
	case FGT_SPAN_BEGIN:
	case FGT_SPAN_END:
		return keep_item(all, record, false,
				 record->kind == FGT_SPAN_END);
	default:
		return keep_remark(all, record);
	}
}

/* ---- One of each -------------------------------------------------------- */

/* The order is by number; what has ended comes first. */
static int compare_numbers(const void *left, const void *right)
{
	const struct fgt_span_item *a = left, *b = right;

	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return b->has_ended - a->has_ended;
}

/* Sorted by number; returns how many are left. */
static size_t unite(struct fgt_span_item *items, size_t count)
{
	size_t used = 0;

	FGT_ARRAY_SORT(items, count, compare_numbers);
	for (size_t i = 0; i < count; i++)
		if (!used || items[used - 1].number != items[i].number)
			items[used++] = items[i];
	return used;
}

struct fgt_span_item *fgt_span_find(struct fgt_span_item *items, size_t count,
				    uint64_t number)
{
	size_t found = FGT_ARRAY_BISECT(at, count, items[at].number < number);

	return found < count && items[found].number == number ? &items[found]
							      : NULL;
}

/* The order is by task, then by begin; an outer span before an inner one. */
static int compare_spans(const void *left, const void *right)
{
	const struct fgt_span_item *a = left, *b = right;

	if (a->owner != b->owner)
		return a->owner < b->owner ? -1 : 1;
	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	return a->number < b->number ? -1 : a->number > b->number;
}

/* Makes tasks of which only spans are left. Spans are in order. */
static int add_lost_tasks(struct fgt_span_gathering *all)
{
	size_t known = all->task_count;

	for (size_t i = 0; i < all->span_count; i++) {
		const struct fgt_span_item *span = &all->spans[i];
		struct fgt_span_item task = { .number = span->owner,
					      .begin_ns = span->begin_ns,
					      .end_ns = UINT64_MAX,
					      .track = span->track,
					      .tid = span->tid };
		int r;

		if ((i && span[-1].owner == span->owner) ||
		    fgt_span_find(all->tasks, known, span->owner))
			continue;
		r = FGT_ARRAY_GROW(all->tasks, all->task_count,
				   all->task_capacity);
		if (r < 0)
			return r;
		all->tasks[all->task_count++] = task;
	}
	FGT_ARRAY_SORT(all->tasks, all->task_count, compare_numbers);
	return 0;
}

static int compare_tracks(const void *left, const void *right)
{
	const struct fgt_span_item *const *a = left, *const *b = right;

	if ((*a)->track != (*b)->track)
		return (*a)->track < (*b)->track ? -1 : 1;
	if ((*a)->begin_ns != (*b)->begin_ns)
		return (*a)->begin_ns < (*b)->begin_ns ? -1 : 1;
	return (*a)->number < (*b)->number ? -1 : 1;
}

/* A track's next task begins: the one before has ended, even without a record
 * of it. */
static int end_by_track(struct fgt_span_gathering *all)
{
	struct fgt_span_item **order;

	if (!FGT_ARRAY_NEW(order, all->task_count))
		return -ENOMEM;
	all->order = order;
	for (size_t i = 0; i < all->task_count; i++)
		order[i] = &all->tasks[i];
	FGT_ARRAY_SORT(order, all->task_count, compare_tracks);
	for (size_t i = 1; i < all->task_count; i++)
		if (order[i]->track == order[i - 1]->track &&
		    order[i - 1]->end_ns > order[i]->begin_ns)
			order[i - 1]->end_ns = order[i]->begin_ns;
	return 0;
}

/* ---- Nesting of spans ---------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Spans of one task. A span ends those that are open at its depth or deeper:
 * their ends may have been lost.
 */
static void nest(const struct fgt_span_item *task, struct fgt_span_item *spans,
		 size_t count)
{
	struct fgt_span_item *open[FGT_SPAN_DEPTH_MAX];
	uint32_t depth = 0;

	for (size_t i = 0; i < count; i++) {
		struct fgt_span_item *span = &spans[i];
		uint32_t wanted = fgt_number_depth(span->number);
		uint64_t latest_ns;

		if (span->begin_ns < task->begin_ns)
			span->begin_ns = task->begin_ns;
		while (depth && (depth > wanted ||
				 open[depth - 1]->end_ns <= span->begin_ns)) {
			struct fgt_span_item *over = open[--depth];

			over->end_ns = least(over->end_ns, span->begin_ns);
		}
		/* Ends only move forward to later begins: spans inside an open
		 * span were cut to it when they began. */
		latest_ns = depth ? open[depth - 1]->end_ns : task->end_ns;
		span->begin_ns = least(span->begin_ns, latest_ns);
		span->end_ns = least(span->end_ns, latest_ns);
		if (span->end_ns < span->begin_ns)
			span->end_ns = span->begin_ns;
		span->depth = depth;
		open[depth++] = span;
	}
}

static void nest_all(struct fgt_span_gathering *all)
{
	size_t first = 0;

	for (size_t i = 1; i <= all->span_count; i++) {
		if (i < all->span_count &&
		    all->spans[i].owner == all->spans[first].owner)
			continue;
		nest(fgt_span_find(all->tasks, all->task_count,
				   all->spans[first].owner),
		     &all->spans[first], i - first);
		first = i;
	}
}

/* ---- All of it ---------------------------------------------------------- */

static int compare_times(const void *left, const void *right)
{
	const struct fgt_span_remark *a = left, *b = right;

	return a->at_ns < b->at_ns ? -1 : a->at_ns > b->at_ns;
}

static int put_in_order(struct fgt_span_gathering *all)
{
	int r;

	all->task_count = unite(all->tasks, all->task_count);
	all->span_count = unite(all->spans, all->span_count);
	FGT_ARRAY_SORT(all->spans, all->span_count, compare_spans);
	r = add_lost_tasks(all);
	if (r == 0)
		r = end_by_track(all);
	if (r < 0)
		return r;
	nest_all(all);
	FGT_ARRAY_SORT(all->remarks, all->remark_count, compare_times);
	return 0;
}

/* Either may be NULL. */
static int cut_logs(const struct fgt_span_log *log,
		    const struct fgt_span_log *other,
		    struct fgt_ring_slice *slice)
{
	struct fgt_span_gathering all = { .slice = slice };
	int r = log ? fgt_span_log_read(log, NULL, gather, &all) : 0;

	if (r == 0 && other)
		r = fgt_span_log_read(other, NULL, gather, &all);
	if (r == 0)
		r = put_in_order(&all);
	if (r == 0)
		r = fgt_span_build(&all);
	gathering_done(&all);
	return r;
}

int fgt_span_log_cut(const struct fgt_span_log *log,
		     struct fgt_ring_slice *slice)
{
	return cut_logs(log, NULL, slice);
}

int fgt_span_memfd_cut(int memfd, const struct fgt_span_log *other,
		       struct fgt_ring_slice *slice)
{
	FGT_AUTO(fgt_span_log_free) struct fgt_span_log *log = NULL;
	int error = memfd < 0 ? 0 : fgt_span_log_open(memfd, &log);
	int r = log || other ? cut_logs(log, other, slice) : 0;

	return r < 0 ? r : error;
}
