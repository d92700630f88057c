/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks, spans, marks, counters and labels of a slice: checks, look-ups,
 * narrowing. Runs in any thread; must not trust the order of what it checks.
 */
#include "ringbuf/slice/spans.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/pace.h"

static uint64_t end_of(uint64_t end_ns)
{
	return end_ns ? end_ns : UINT64_MAX;
}

/* Ticks may be late or missing: what lies this near to them is kept. */
#define EDGE_NS UINT64_C(1000000000)

/* ---- Validity ----------------------------------------------------------- */

static bool are_tasks_valid(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->task_count; i++) {
		const struct fgt_slice_task *task = &slice->tasks[i];
		const struct fgt_slice_task *last = task - 1;

		if (task->name >= slice->strings.count ||
		    task->parent > slice->task_count ||
		    task->begin_ns > end_of(task->end_ns))
			return false;
		/* Strictly before: so there are no circles. */
		if (task->parent &&
		    slice->tasks[task->parent - 1].begin_ns >= task->begin_ns)
			return false;
		if (!i || task->track > last->track)
			continue;
		if (task->track < last->track ||
		    task->begin_ns < end_of(last->end_ns))
			return false;
	}
	return true;
}

/* Against the spans around it and, at depth 0, its task. */
static bool is_span_within(const struct fgt_ring_slice *slice,
			   const struct fgt_slice_span *span,
			   const struct fgt_slice_span *around)
{
	const struct fgt_slice_task *task = &slice->tasks[span->task];
	uint64_t begin_ns = around ? around->begin_ns : task->begin_ns;
	uint64_t end_ns = around ? around->end_ns : task->end_ns;

	return span->begin_ns >= begin_ns &&
	       end_of(span->end_ns) <= end_of(end_ns);
}

/* Spans in their order; open: the last one of each depth, 0: none. */
static bool is_span_valid(const struct fgt_ring_slice *slice, uint32_t index,
			  const struct fgt_slice_span **open)
{
	const struct fgt_slice_span *span = &slice->spans[index];
	const struct fgt_slice_span *last = index ? span - 1 : NULL;
	bool is_first = !last || last->task != span->task;

	if (span->task >= slice->task_count ||
	    span->name >= slice->strings.count ||
	    span->depth >= FGT_SPAN_DEPTH_MAX ||
	    span->begin_ns > end_of(span->end_ns))
		return false;
	if (last && span->task < last->task)
		return false;
	if (span->depth > (is_first ? 0 : last->depth + 1))
		return false;
	/* After the one before it that is as deep. */
	if (!is_first && span->depth <= last->depth &&
	    span->begin_ns < end_of(open[span->depth]->end_ns))
		return false;
	if (!is_span_within(slice, span,
			    span->depth ? open[span->depth - 1] : NULL))
		return false;
	open[span->depth] = span;
	return true;
}

static bool are_spans_nested(const struct fgt_ring_slice *slice)
{
	const struct fgt_slice_span *open[FGT_SPAN_DEPTH_MAX] = { NULL };

	for (uint32_t i = 0; i < slice->span_count; i++)
		if (!is_span_valid(slice, i, open))
			return false;
	return true;
}

static bool are_marks_valid(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->mark_count; i++)
		if (slice->marks[i].name >= slice->strings.count ||
		    (i && slice->marks[i].at_ns < slice->marks[i - 1].at_ns))
			return false;
	return true;
}

static bool are_counters_valid(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->counter_count; i++) {
		const struct fgt_slice_counter *counter = &slice->counters[i];
		const struct fgt_slice_counter *last = counter - 1;

		if (counter->name >= slice->strings.count ||
		    !isfinite(counter->value))
			return false;
		if (i && (counter->name < last->name ||
			  (counter->name == last->name &&
			   counter->at_ns < last->at_ns)))
			return false;
	}
	return true;
}

static bool are_labels_valid(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->label_count; i++) {
		const struct fgt_slice_label *label = &slice->labels[i];
		const struct fgt_slice_label *last = label - 1;

		if (label->span >= slice->span_count ||
		    label->key >= slice->strings.count ||
		    label->value >= slice->strings.count)
			return false;
		if (i &&
		    (label->span < last->span ||
		     (label->span == last->span && label->key <= last->key)))
			return false;
	}
	return true;
}

bool fgt_spans_are_valid(const struct fgt_ring_slice *slice)
{
	return are_tasks_valid(slice) && are_spans_nested(slice) &&
	       are_marks_valid(slice) && are_counters_valid(slice) &&
	       are_labels_valid(slice);
}

/* ---- Looking ------------------------------------------------------------ */

bool fgt_spans_clip(const struct fgt_ring_slice *slice, uint64_t begin_ns,
		    uint64_t end_ns, uint64_t *ret_begin_ns,
		    uint64_t *ret_end_ns)
{
	uint32_t last = slice->tick_count - 1;
	uint64_t from_ns = slice->tick_ns[0];
	uint64_t to_ns = slice->tick_ns[last] + fgt_pace_ns(slice, last);

	if (to_ns < slice->tick_ns[last])
		to_ns = UINT64_MAX;
	end_ns = end_of(end_ns);
	if (begin_ns > to_ns || end_ns < from_ns)
		return false;
	*ret_begin_ns = begin_ns > from_ns ? begin_ns : from_ns;
	*ret_end_ns = end_ns < to_ns ? end_ns : to_ns;
	return true;
}

bool fgt_spans_clip_part(const struct fgt_ring_slice *slice, uint64_t begin_ns,
			 uint64_t end_ns, uint64_t *ret_begin_ns,
			 uint64_t *ret_end_ns)
{
	return fgt_spans_clip(slice, begin_ns, end_ns, ret_begin_ns,
			      ret_end_ns) &&
	       *ret_begin_ns < *ret_end_ns;
}

bool fgt_spans_clip_task(const struct fgt_ring_slice *slice, uint32_t index,
			 uint64_t *ret_begin_ns, uint64_t *ret_end_ns)
{
	const struct fgt_slice_task *task = &slice->tasks[index];

	return fgt_spans_clip_part(slice, task->begin_ns, task->end_ns,
				   ret_begin_ns, ret_end_ns);
}

bool fgt_spans_belong(const struct fgt_ring_slice *slice, uint64_t begin_ns,
		      uint64_t end_ns)
{
	uint64_t first_ns = slice->tick_ns[0];
	uint64_t last_ns = slice->tick_ns[slice->tick_count - 1];
	uint64_t ignored[2];

	if (fgt_spans_clip(slice, begin_ns, end_ns, &ignored[0], &ignored[1]))
		return true;
	end_ns = end_of(end_ns);
	/* Between the end of the requested range and the nearest tick. */
	return end_ns < first_ns ? end_ns >= slice->requested_from_ns &&
					   first_ns - end_ns <= EDGE_NS
				 : begin_ns <= slice->requested_to_ns &&
					   begin_ns - last_ns <= EDGE_NS;
}

const struct fgt_slice_label *
fgt_spans_labels(const struct fgt_ring_slice *slice, uint32_t span,
		 uint32_t *ret_count)
{
	size_t first = FGT_ARRAY_BISECT(at, slice->label_count,
					slice->labels[at].span < span);
	size_t end = first;

	while (end < slice->label_count && slice->labels[end].span == span)
		end++;
	*ret_count = (uint32_t)(end - first);
	return end > first ? slice->labels + first : NULL;
}

/* ---- Narrowing ---------------------------------------------------------- */

struct span_narrowing {
	const struct fgt_ring_slice *source;
	struct fgt_ring_slice *result;
	int32_t tid;
	uint32_t *tasks, *spans; /* new numbers + 1, 0: left out */
};

static int move_string(struct span_narrowing *narrowing, uint32_t *id)
{
	return fgt_narrow_string(narrowing->source, narrowing->result, id);
}

static bool is_wanted(const struct span_narrowing *narrowing, uint64_t begin_ns,
		      uint64_t end_ns, int32_t tid)
{
	return (!narrowing->tid || narrowing->tid == tid) &&
	       fgt_spans_belong(narrowing->result, begin_ns, end_ns);
}

static void mark_wanted(struct span_narrowing *narrowing)
{
	bool is_inner_wanted[FGT_SPAN_DEPTH_MAX] = { false };
	const struct fgt_ring_slice *source = narrowing->source;

	for (uint32_t i = 0; i < source->task_count; i++) {
		const struct fgt_slice_task *task = &source->tasks[i];

		narrowing->tasks[i] = is_wanted(narrowing, task->begin_ns,
						task->end_ns, task->tid);
	}
	/* Surrounding spans come before a span: from the end to the start, a
	 * wanted span makes the next less deep one wanted. */
	for (uint32_t i = source->span_count; i-- > 0;) {
		const struct fgt_slice_span *span = &source->spans[i];

		if (!is_inner_wanted[span->depth] &&
		    !is_wanted(narrowing, span->begin_ns, span->end_ns,
			       span->tid))
			continue;
		narrowing->spans[i] = 1;
		narrowing->tasks[span->task] = 1;
		is_inner_wanted[span->depth] = false;
		if (span->depth)
			is_inner_wanted[span->depth - 1] = true;
	}
}

static int copy_tasks(struct span_narrowing *narrowing)
{
	struct fgt_ring_slice *result = narrowing->result;
	int r = FGT_NARROW_TABLE(narrowing->source, result, tasks, task_count,
				 narrowing->tasks);

	for (uint32_t i = 0; i < result->task_count && !r; i++) {
		struct fgt_slice_task *task = &result->tasks[i];

		if (task->parent)
			task->parent = narrowing->tasks[task->parent - 1];
		r = move_string(narrowing, &task->name);
	}
	return r;
}

static int copy_spans(struct span_narrowing *narrowing)
{
	struct fgt_ring_slice *result = narrowing->result;
	int r = FGT_NARROW_TABLE(narrowing->source, result, spans, span_count,
				 narrowing->spans);

	for (uint32_t i = 0; i < result->span_count && !r; i++) {
		struct fgt_slice_span *span = &result->spans[i];

		span->task = narrowing->tasks[span->task] - 1;
		r = move_string(narrowing, &span->name);
	}
	return r;
}

static int copy_marks(struct span_narrowing *narrowing)
{
	const struct fgt_ring_slice *source = narrowing->source;
	struct fgt_ring_slice *result = narrowing->result;
	int r = 0;

	if (!FGT_ARRAY_NEW(result->marks, source->mark_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < source->mark_count && !r; i++) {
		struct fgt_slice_mark mark = source->marks[i];

		if (!is_wanted(narrowing, mark.at_ns, mark.at_ns, mark.tid))
			continue;
		r = move_string(narrowing, &mark.name);
		result->marks[result->mark_count++] = mark;
	}
	return r;
}

static int compare_counters(const void *left, const void *right)
{
	const struct fgt_slice_counter *a = left, *b = right;

	if (a->name != b->name)
		return a->name < b->name ? -1 : 1;
	return a->at_ns < b->at_ns ? -1 : a->at_ns > b->at_ns;
}

void fgt_spans_settle_counters(struct fgt_ring_slice *slice)
{
	struct fgt_slice_counter *counters = slice->counters;
	uint64_t begin_ns = slice->tick_ns[0];
	uint32_t count = slice->counter_count, used = 0;

	FGT_ARRAY_SORT(counters, count, compare_counters);
	for (uint32_t i = 0; i < count; i++) {
		bool is_last = i + 1 == count ||
			       counters[i + 1].name != counters[i].name;

		if (!is_last && counters[i + 1].at_ns <= begin_ns)
			continue;
		counters[used] = counters[i];
		if (counters[used].at_ns < begin_ns)
			counters[used].at_ns = begin_ns;
		used++;
	}
	slice->counter_count = used;
}

/* They belong to the process: a slice of one thread keeps all. */
static int copy_counters(struct span_narrowing *narrowing)
{
	const struct fgt_ring_slice *source = narrowing->source;
	struct fgt_ring_slice *result = narrowing->result;
	int r = 0;

	if (!FGT_ARRAY_NEW(result->counters, source->counter_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < source->counter_count && !r; i++) {
		struct fgt_slice_counter counter = source->counters[i];

		if (!is_wanted(narrowing, counter.at_ns, 0, narrowing->tid))
			continue;
		r = move_string(narrowing, &counter.name);
		result->counters[result->counter_count++] = counter;
	}
	fgt_spans_settle_counters(result);
	return r;
}

static int compare_labels(const void *left, const void *right)
{
	const struct fgt_slice_label *a = left, *b = right;

	if (a->span != b->span)
		return a->span < b->span ? -1 : 1;
	return a->key < b->key ? -1 : a->key > b->key;
}

static int copy_labels(struct span_narrowing *narrowing)
{
	const struct fgt_ring_slice *source = narrowing->source;
	struct fgt_ring_slice *result = narrowing->result;
	int r = 0;

	if (!FGT_ARRAY_NEW(result->labels, source->label_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < source->label_count && !r; i++) {
		struct fgt_slice_label label = source->labels[i];

		if (!narrowing->spans[label.span])
			continue;
		label.span = narrowing->spans[label.span] - 1;
		r = move_string(narrowing, &label.key);
		if (!r)
			r = move_string(narrowing, &label.value);
		result->labels[result->label_count++] = label;
	}
	FGT_ARRAY_SORT(result->labels, result->label_count, compare_labels);
	return r;
}

static int copy_all(struct span_narrowing *narrowing)
{
	int (*const steps[])(struct span_narrowing *) = {
		copy_tasks, copy_spans, copy_marks, copy_counters, copy_labels,
	};
	int r = 0;

	mark_wanted(narrowing);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !r; i++)
		r = steps[i](narrowing);
	return r;
}

int fgt_spans_narrow(const struct fgt_ring_slice *source, int32_t tid,
		     struct fgt_ring_slice *result)
{
	struct span_narrowing narrowing = { .source = source,
					    .result = result,
					    .tid = tid };
	int r = -ENOMEM;

	/* Without arrays: its spans may be cut later, into new ones. */
	if (source->task_count + source->span_count + source->mark_count +
		    source->counter_count + source->label_count ==
	    0)
		return 0;
	if (FGT_ARRAY_NEW(narrowing.tasks, source->task_count) &&
	    FGT_ARRAY_NEW(narrowing.spans, source->span_count))
		r = copy_all(&narrowing);
	free(narrowing.tasks);
	free(narrowing.spans);
	return r;
}
