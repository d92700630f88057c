/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances of a span. Pure.
 */
#include "upload/why/instances.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/array.h"
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
		const struct fgt_ring_slice *slice, uint64_t begin_ns,
		uint64_t end_ns, int32_t tid)
{
	uint64_t last_ns = slice->tick_ns[slice->tick_count - 1];

	if (!end_ns)
		end_ns = last_ns;
	if (end_ns > begin_ns)
		instances->items[instances->count++] =
			(struct fgt_instance){ begin_ns, end_ns, tid };
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

int fgt_instances_find(const struct fgt_ring_slice *slice, const char *name,
		       struct fgt_instances *ret_instances, struct fgt_why *why)
{
	struct fgt_instances instances = { .count = 0 };

	if (!FGT_ARRAY_NEW(instances.items,
			   (size_t)slice->span_count + slice->task_count))
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	for (uint32_t i = 0; i < slice->span_count; i++) {
		const struct fgt_slice_span *span = &slice->spans[i];

		if (!strcmp(fgt_slice_string(slice, span->name), name))
			add(&instances, slice, span->begin_ns, span->end_ns,
			    span->tid);
	}
	for (uint32_t i = 0; i < slice->task_count; i++) {
		const struct fgt_slice_task *task = &slice->tasks[i];

		if (!strcmp(fgt_slice_string(slice, task->name), name))
			add(&instances, slice, task->begin_ns, task->end_ns,
			    task->tid);
	}
	if (!instances.count) {
		free(instances.items);
		return explain(slice, name, why);
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
		size_t tick = FGT_ARRAY_BISECT(at, slice->tick_count,
					       slice->tick_ns[at] <
						       instance->begin_ns);

		if (instance->tid != tid)
			continue;
		for (; tick < slice->tick_count &&
		       slice->tick_ns[tick] <= instance->end_ns;
		     tick++, count++)
			ret_marks[tick] = true;
	}
	return count;
}

/* The pieces of a run in marked ticks. */
static int add_pieces(struct fgt_ring_slice *view, uint32_t *capacity,
		      struct fgt_run run, const bool *marks)
{
	uint32_t tick = run.first_tick, end = tick + run.tick_count;

	while (tick < end) {
		int r;

		while (tick < end && !marks[tick])
			tick++;
		run.first_tick = tick;
		while (tick < end && marks[tick])
			tick++;
		run.tick_count = tick - run.first_tick;
		if (!run.tick_count)
			break;
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
	bool *marks;
	int r = 0;

	view->runs = NULL;
	view->run_count = 0;
	if (!FGT_ARRAY_NEW(marks, slice->tick_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->run_count && r == 0; i++) {
		const struct fgt_run *run = &slice->runs[i];

		if (run->thread != thread)
			marked = mark_ticks(slice, instances, first, end,
					    slice->threads[run->thread].tid,
					    marks);
		thread = run->thread;
		if (marked)
			r = add_pieces(view, &capacity, *run, marks);
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
	if (r == 0 && view.run_count == 0)
		r = -ENODATA;
	if (r == 0)
		r = fgt_slice_narrow(&view, view.tick_ns[0],
				     view.tick_ns[view.tick_count - 1], 0,
				     ret_part);
	free(view.runs);
	if (r == 0) {
		(*ret_part)->requested_from_ns = slice->requested_from_ns;
		(*ret_part)->requested_to_ns = slice->requested_to_ns;
	}
	return r;
}
