/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts slices together. Trusts that they are valid. Runs in any thread; must
 * not change its sources.
 */
#include "ringbuf/slice/merge.h"

#include <errno.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/edge.h"

/* A thread of the result: threads of all processes by tid. */
struct place {
	struct fgt_merge_source *source;
	uint32_t thread; /* index in its slice */
};

int fgt_merge_string(const struct fgt_merge *merge,
		     const struct fgt_merge_source *source, uint32_t *id)
{
	return fgt_narrow_string(source->slice, merge->result, id);
}

/* ---- Threads ------------------------------------------------------------ */

static int compare_places(const void *left, const void *right)
{
	const struct place *a = left, *b = right;
	const struct fgt_slice_thread *one =
		&a->source->slice->threads[a->thread];
	const struct fgt_slice_thread *two =
		&b->source->slice->threads[b->thread];

	if (one->tid != two->tid)
		return one->tid < two->tid ? -1 : 1;
	return (one->start_time > two->start_time) -
	       (one->start_time < two->start_time);
}

/* First threads of several processes have the same name as a rule, but
 * different titles. */
static int name_thread(struct fgt_merge *merge,
		       const struct fgt_merge_source *source,
		       struct fgt_slice_thread *thread)
{
	const struct fgt_slice_process *process =
		&merge->result->processes[thread->process];

	if (merge->count == 1 || thread->tid != process->pid || !process->title)
		return fgt_merge_string(merge, source, &thread->name);
	thread->name = process->title;
	return 0;
}

static int list_threads(struct fgt_merge *merge, struct place **ret_places)
{
	struct fgt_ring_slice *result = merge->result;
	struct place *places;
	uint32_t count = 0;
	int r = 0;

	for (uint32_t i = 0; i < merge->count; i++)
		count += merge->sources[i].slice->thread_count;
	if (!FGT_ARRAY_NEW(result->threads, count) ||
	    !FGT_ARRAY_NEW(places, count))
		return -ENOMEM;
	count = 0;
	for (uint32_t i = 0; i < merge->count; i++)
		for (uint32_t k = 0; k < merge->sources[i].slice->thread_count;
		     k++)
			places[count++] =
				(struct place){ &merge->sources[i], k };
	FGT_ARRAY_SORT(places, count, compare_places);
	for (uint32_t i = 0; i < count && r == 0; i++) {
		struct fgt_slice_thread *thread = &result->threads[i];

		*thread = places[i].source->slice->threads[places[i].thread];
		thread->process = (uint32_t)(places[i].source - merge->sources);
		r = name_thread(merge, places[i].source, thread);
	}
	result->thread_count = count;
	*ret_places = places;
	return r;
}

/* ---- What threads did --------------------------------------------------- */

/* When the thread came to do what its process saw at a tick, as far as edges, or
 * else a wake-up, since the tick before show it; 0: not known. */
static uint64_t moved_ns(const struct fgt_ring_slice *slice, uint32_t thread,
			 uint32_t tick)
{
	uint64_t tick_ns = slice->tick_ns[tick], before_ns;
	size_t edge =
		FGT_ARRAY_BISECT(i, slice->edge_count,
				 slice->edges[i].thread < thread ||
					 (slice->edges[i].thread == thread &&
					  slice->edges[i].tick <= tick));
	size_t wake = FGT_ARRAY_BISECT(
		i, slice->wake_count,
		slice->wakes[i].thread < thread ||
			(slice->wakes[i].thread == thread &&
			 slice->wakes[i].at_ns < slice->tick_ns[tick - 1]));

	if (edge && slice->edges[edge - 1].thread == thread &&
	    slice->edges[edge - 1].tick == tick) {
		before_ns = 1000 *
			    (uint64_t)fgt_edge_near_us(&slice->edges[edge - 1]);
		return before_ns < tick_ns ? tick_ns - before_ns : 0;
	}
	return wake < slice->wake_count &&
			       slice->wakes[wake].thread == thread &&
			       slice->wakes[wake].at_ns <= tick_ns
		       ? slice->wakes[wake].at_ns
		       : 0;
}

/*
 * The tick of the result from which on a thread does what its process saw at a
 * tick. Where others have ticks since the process's tick before, it is the first
 * one of them that follows the change by 1 µs: edges and wake-ups belong to the
 * tick after them.
 */
static uint32_t begin_of(const struct fgt_merge *merge,
			 const struct place *place, uint32_t tick)
{
	const struct fgt_merge_source *source = place->source;
	uint32_t at = source->ticks[tick], first;
	uint64_t ns;

	if (!tick || source->ends[tick - 1] != at)
		return at;
	first = source->ticks[tick - 1] + 1;
	ns = first < at ? moved_ns(source->slice, place->thread, tick) : 0;
	return ns ? first + (uint32_t)FGT_ARRAY_BISECT(
				    i, at - first,
				    merge->result->tick_ns[first + i] <
					    ns + 1000)
		  : at;
}

/* A piece for each of its parts between ticks that its process missed; the last
 * one up to before until. */
static int add_run(struct fgt_merge *merge, const struct place *place,
		   struct fgt_run run, uint32_t until)
{
	const struct fgt_merge_source *source = place->source;
	struct fgt_ring_slice *result = merge->result;
	uint32_t tick = run.first_tick, end = tick + run.tick_count;
	int r = 0;

	while (tick < end && r == 0) {
		run.first_tick = begin_of(merge, place, tick);
		while (tick + 1 < end &&
		       source->ends[tick] == source->ticks[tick + 1])
			tick++;
		run.tick_count = source->ends[tick++];
		if (tick == end)
			run.tick_count = until;
		run.tick_count -= run.first_tick;
		r = FGT_ARRAY_GROW(result->runs, result->run_count,
				   merge->run_capacity);
		if (r == 0)
			result->runs[result->run_count++] = run;
	}
	return r;
}

static int add_runs(struct fgt_merge *merge, const struct place *place,
		    uint32_t thread)
{
	const struct fgt_merge_source *source = place->source;
	const struct fgt_ring_slice *slice = source->slice;
	size_t at = FGT_ARRAY_BISECT(i, slice->run_count,
				     slice->runs[i].thread < place->thread);
	int r = 0;

	for (; at < slice->run_count &&
	       slice->runs[at].thread == place->thread && r == 0;
	     at++) {
		struct fgt_run run = slice->runs[at];
		uint32_t end = run.first_tick + run.tick_count;
		uint32_t until = source->ends[end - 1];

		if (at + 1 < slice->run_count &&
		    slice->runs[at + 1].thread == place->thread &&
		    slice->runs[at + 1].first_tick == end &&
		    source->ticks[end] == until)
			until = begin_of(merge, place, end);
		run.thread = thread;
		if (run.stack != FGT_NODE_NONE)
			run.stack = source->nodes[run.stack];
		if (run.wait)
			run.wait += source->first_wait;
		r = add_run(merge, place, run, until);
	}
	return r;
}

static void add_edges(struct fgt_merge *merge, const struct place *place,
		      uint32_t thread)
{
	const struct fgt_ring_slice *slice = place->source->slice;
	struct fgt_ring_slice *result = merge->result;
	size_t at = FGT_ARRAY_BISECT(i, slice->edge_count,
				     slice->edges[i].thread < place->thread);

	for (;
	     at < slice->edge_count && slice->edges[at].thread == place->thread;
	     at++) {
		struct fgt_edge edge = slice->edges[at];
		uint32_t earlier_us;

		edge.thread = thread;
		edge.tick = begin_of(merge, place, edge.tick);
		earlier_us = (uint32_t)((slice->tick_ns[slice->edges[at].tick] -
					 result->tick_ns[edge.tick]) /
					1000);
		edge.on_us -= edge.on_us ? earlier_us : 0;
		edge.off_us -= edge.off_us ? earlier_us : 0;
		result->edges[result->edge_count++] = edge;
	}
}

static void add_wakes(struct fgt_ring_slice *result, const struct place *place,
		      uint32_t thread)
{
	const struct fgt_ring_slice *slice = place->source->slice;
	size_t at = FGT_ARRAY_BISECT(i, slice->wake_count,
				     slice->wakes[i].thread < place->thread);

	for (;
	     at < slice->wake_count && slice->wakes[at].thread == place->thread;
	     at++) {
		struct fgt_slice_wake wake = slice->wakes[at];

		wake.thread = thread;
		wake.waker += place->source->first_waker;
		result->wakes[result->wake_count++] = wake;
	}
}

static int add_reasons(struct fgt_merge *merge, struct fgt_merge_source *source)
{
	struct fgt_ring_slice *result = merge->result;
	int r = 0;

	source->first_wait = result->wait_count;
	source->first_waker = result->waker_count;
	for (uint32_t i = 0; i < source->slice->wait_count && r == 0; i++) {
		struct fgt_slice_wait wait = source->slice->waits[i];

		r = fgt_merge_string(merge, source, &wait.text);
		if (r == 0)
			r = fgt_merge_string(merge, source, &wait.object);
		result->waits[result->wait_count++] = wait;
	}
	for (uint32_t i = 0; i < source->slice->waker_count && r == 0; i++) {
		struct fgt_slice_waker waker = source->slice->wakers[i];

		r = fgt_merge_string(merge, source, &waker.name);
		if (waker.stack != FGT_NODE_NONE)
			waker.stack = source->nodes[waker.stack];
		result->wakers[result->waker_count++] = waker;
	}
	return r;
}

static int make_room(struct fgt_merge *merge)
{
	struct fgt_ring_slice *result = merge->result;
	size_t edges = 0, wakes = 0, waits = 0, wakers = 0;

	for (uint32_t i = 0; i < merge->count; i++) {
		const struct fgt_ring_slice *slice = merge->sources[i].slice;

		edges += slice->edge_count;
		wakes += slice->wake_count;
		waits += slice->wait_count;
		wakers += slice->waker_count;
	}
	if (edges > UINT32_MAX || wakes > UINT32_MAX || waits > UINT32_MAX ||
	    wakers > UINT32_MAX || !FGT_ARRAY_NEW(result->edges, edges) ||
	    !FGT_ARRAY_NEW(result->wakes, wakes) ||
	    !FGT_ARRAY_NEW(result->waits, waits) ||
	    !FGT_ARRAY_NEW(result->wakers, wakers))
		return -ENOMEM;
	return 0;
}

static int merge_threads(struct fgt_merge *merge)
{
	struct fgt_ring_slice *result = merge->result;
	struct place *places = NULL;
	int r = make_room(merge);

	for (uint32_t i = 0; i < merge->count && r == 0; i++)
		r = add_reasons(merge, &merge->sources[i]);
	if (r == 0)
		r = list_threads(merge, &places);
	for (uint32_t i = 0; i < result->thread_count && r == 0; i++) {
		r = add_runs(merge, &places[i], i);
		add_edges(merge, &places[i], i);
		add_wakes(result, &places[i], i);
	}
	free(places);
	return r;
}

/* ---- Processes ---------------------------------------------------------- */

static int add_text(struct fgt_merge *merge, const char *text, uint32_t *ret_id)
{
	return fgt_strings_intern(&merge->result->strings, text, strlen(text),
				  ret_id);
}

static int add_process(struct fgt_merge *merge,
		       const struct fgt_merge_source *source)
{
	struct fgt_ring_slice *result = merge->result;
	const struct fgt_process_info *info = &source->slice->process;
	struct fgt_slice_process *process =
		&result->processes[result->process_count++];
	int r;

	process->pid = info->pid;
	process->start_time = info->start_time;
	process->from_ns = source->slice->tick_ns[0];
	r = add_text(merge, info->name, &process->name);
	if (r == 0)
		r = add_text(merge, info->exe, &process->exe);
	if (r == 0 && *info->title)
		r = add_text(merge, info->title, &process->title);
	return r;
}

/* Workers of one service differ in their instance; of different services
 * nothing is left. */
static void keep_common(struct fgt_service *service,
			const struct fgt_service *other)
{
	bool is_one = !strcmp(service->name, other->name);

	for (size_t i = 0; i < FGT_SERVICE_TEXTS; i++)
		if (!is_one || strcmp(fgt_service_text_of(service, i),
				      fgt_service_text_of(other, i)) != 0)
			fgt_service_set(service, i, "", 0);
}

static int merge_processes(struct fgt_merge *merge)
{
	struct fgt_ring_slice *result = merge->result;
	int r = 0;

	result->process = merge->sources[0].slice->process;
	memcpy(result->ended_by, merge->sources[0].slice->ended_by,
	       sizeof(result->ended_by));
	if (!FGT_ARRAY_NEW(result->processes, merge->count))
		return -ENOMEM;
	for (uint32_t i = 0; i < merge->count && r == 0; i++) {
		const struct fgt_ring_slice *slice = merge->sources[i].slice;

		keep_common(&result->process.service, &slice->process.service);
		r = add_process(merge, &merge->sources[i]);
	}
	return r;
}

static int add_notes(struct fgt_merge *merge)
{
	const struct fgt_ring_slice *first = merge->sources[0].slice;
	int r = 0;

	for (uint32_t i = 0; i < first->note_count && r == 0; i++)
		r = fgt_slice_add_note(
			merge->result,
			fgt_slice_string(first, first->notes[i].key),
			fgt_slice_string(first, first->notes[i].value));
	return r;
}

/* ---- All ---------------------------------------------------------------- */

static int merge_all(struct fgt_merge *merge)
{
	int r = merge_processes(merge);

	if (r == 0)
		r = fgt_merge_times(merge);
	if (r == 0)
		r = fgt_merge_stacks(merge);
	if (r == 0)
		r = merge_threads(merge);
	if (r == 0)
		r = fgt_merge_spans(merge);
	return r ? r : add_notes(merge);
}

static void sources_done(struct fgt_merge_source *sources, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		free(sources[i].ticks);
		free(sources[i].ends);
		free(sources[i].images);
		free(sources[i].frames);
		free(sources[i].nodes);
	}
	free(sources);
}

int fgt_slice_merge(const struct fgt_ring_slice *const *slices, uint32_t count,
		    struct fgt_ring_slice **ret_slice)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *result = NULL;
	struct fgt_merge merge = { .count = count };
	int r;

	if (!count || count > FGT_MERGE_MAX)
		return -EINVAL;
	for (uint32_t i = 1; i < count; i++)
		if (slices[i]->period_ns != slices[0]->period_ns)
			return -EINVAL;
	r = fgt_slice_new(&result);
	if (r == 0 && !FGT_ARRAY_NEW(merge.sources, count))
		r = -ENOMEM;
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < count; i++)
		merge.sources[i].slice = slices[i];
	merge.result = result;
	r = merge_all(&merge);
	sources_done(merge.sources, count);
	if (r < 0)
		return r;
	*ret_slice = FGT_TAKE(result);
	return 0;
}
