/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Narrows a slice to a part of its time or to one thread: marks what is still
 * used, renumbers it, copies it. Trusts that the slice is valid. Any thread; must
 * not change its source.
 */
#include "ringbuf/slice/slice.h"

#include <errno.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/edge.h"
#include "ringbuf/slice/pace.h"
#include "ringbuf/slice/processes.h"
#include "ringbuf/slice/spans.h"

/* New numbers of the old things; 0: not used (yet). */
struct marks {
	uint32_t *threads, *nodes, *frames, *images;
	/* Threads without a run, and nothing else, of which a name is used. */
	uint32_t *named;
};

struct narrowing {
	const struct fgt_ring_slice *source;
	struct fgt_ring_slice *result;
	struct marks marks;
	uint32_t first_tick, tick_count;
	int32_t tid;
};

static void marks_done(struct marks *marks)
{
	free(marks->threads);
	free(marks->nodes);
	free(marks->frames);
	free(marks->images);
	free(marks->named);
}

static int marks_init(struct marks *marks, const struct fgt_ring_slice *source)
{
	if (!FGT_ARRAY_NEW(marks->threads, source->thread_count) ||
	    !FGT_ARRAY_NEW(marks->nodes, source->node_count) ||
	    !FGT_ARRAY_NEW(marks->frames, source->frame_count) ||
	    !FGT_ARRAY_NEW(marks->images, source->image_count) ||
	    !FGT_ARRAY_NEW(marks->named, source->thread_count))
		return -ENOMEM;
	return 0;
}

/* Number of ticks before time_ns, or at most at it. */
static uint32_t count_ticks(const struct fgt_ring_slice *slice,
			    uint64_t time_ns, bool is_inclusive)
{
	return (uint32_t)FGT_ARRAY_BISECT(
		at, slice->tick_count,
		slice->tick_ns[at] < time_ns ||
			(is_inclusive && slice->tick_ns[at] == time_ns));
}

/* Clips a run to the kept ticks; false if nothing of it is left. */
static bool clip_run(const struct narrowing *narrowing, struct fgt_run *run)
{
	uint32_t first = run->first_tick;
	uint32_t end = first + run->tick_count;
	uint32_t kept_end = narrowing->first_tick + narrowing->tick_count;
	int32_t tid = narrowing->source->threads[run->thread].tid;

	if (narrowing->tid && tid != narrowing->tid)
		return false;
	if (first < narrowing->first_tick)
		first = narrowing->first_tick;
	if (end > kept_end)
		end = kept_end;
	if (first >= end)
		return false;
	run->first_tick = first - narrowing->first_tick;
	run->tick_count = end - first;
	return true;
}

/* Keeps the runs, still with the source's numbers, and marks what they use. */
static int keep_runs(struct narrowing *narrowing)
{
	const struct fgt_ring_slice *source = narrowing->source;
	struct fgt_ring_slice *result = narrowing->result;

	if (!FGT_ARRAY_NEW(result->runs, source->run_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < source->run_count; i++) {
		struct fgt_run run = source->runs[i];

		if (!clip_run(narrowing, &run))
			continue;
		narrowing->marks.threads[run.thread] = 1;
		if (run.stack != FGT_NODE_NONE)
			narrowing->marks.nodes[run.stack] = 1;
		result->runs[result->run_count++] = run;
	}
	return result->run_count ? 0 : -ENODATA;
}

static void mark_what_nodes_use(struct narrowing *narrowing)
{
	const struct fgt_ring_slice *source = narrowing->source;
	struct marks *marks = &narrowing->marks;

	/* Parents come first, so one pass from the end reaches them all. */
	for (uint32_t i = source->node_count; i-- > 0;) {
		const struct fgt_slice_node *node = &source->nodes[i];

		if (!marks->nodes[i])
			continue;
		marks->frames[node->frame] = 1;
		if (node->parent != FGT_NODE_NONE)
			marks->nodes[node->parent] = 1;
	}
	for (uint32_t i = 0; i < source->frame_count; i++) {
		uint32_t image = source->frames[i].frame.image;

		if (marks->frames[i] && image != FGT_IMAGE_NONE)
			marks->images[image - 1] = 1;
	}
}

void *fgt_narrow_table(const void *items, size_t item_bytes, uint32_t count,
		       uint32_t *marks, uint32_t *ret_count)
{
	char *kept = calloc((size_t)count + 1, item_bytes);
	const char *item = items;
	uint32_t used = 0;

	for (uint32_t i = 0; kept && i < count; i++, item += item_bytes) {
		if (!marks[i])
			continue;
		memcpy(kept + used * item_bytes, item, item_bytes);
		marks[i] = ++used;
	}
	*ret_count = used;
	return kept;
}

int fgt_narrow_string(const struct fgt_ring_slice *source,
		      struct fgt_ring_slice *result, uint32_t *id)
{
	const char *text = fgt_slice_string(source, *id);

	return fgt_strings_intern(&result->strings, text, strlen(text), id);
}

static int move_string(struct narrowing *narrowing, uint32_t *id)
{
	return fgt_narrow_string(narrowing->source, narrowing->result, id);
}

static int copy_threads(struct narrowing *narrowing)
{
	struct fgt_ring_slice *result = narrowing->result;
	struct marks *marks = &narrowing->marks;
	int error;

	fgt_waits_mark_holders(narrowing->source, result, marks->threads,
			       marks->named);
	error = FGT_NARROW_TABLE(narrowing->source, result, threads,
				 thread_count, marks->threads);
	for (uint32_t i = 0; i < narrowing->source->thread_count; i++)
		if (marks->named[i])
			marks->threads[i] = 0;
	for (uint32_t i = 0; i < result->thread_count && !error; i++)
		error = move_string(narrowing, &result->threads[i].name);
	return error ? error : fgt_processes_narrow(narrowing->source, result);
}

static int copy_nodes(struct narrowing *narrowing)
{
	struct fgt_ring_slice *result = narrowing->result;
	const struct marks *marks = &narrowing->marks;
	int error = FGT_NARROW_TABLE(narrowing->source, result, nodes,
				     node_count, marks->nodes);

	for (uint32_t i = 0; i < result->node_count; i++) {
		struct fgt_slice_node *node = &result->nodes[i];

		node->frame = marks->frames[node->frame] - 1;
		if (node->parent != FGT_NODE_NONE)
			node->parent = marks->nodes[node->parent] - 1;
	}
	return error;
}

static int copy_symbols(struct narrowing *narrowing,
			struct fgt_slice_frame *frame)
{
	const struct fgt_ring_slice *source = narrowing->source;
	struct fgt_ring_slice *result = narrowing->result;
	const struct fgt_symbol *old = source->symbols + frame->symbol_first;
	int error = 0;

	/* Each source symbol belongs to one frame, but a file may lie. */
	if (frame->symbol_count >
	    result->symbol_capacity - result->symbol_count)
		frame->symbol_count =
			result->symbol_capacity - result->symbol_count;
	frame->symbol_first = result->symbol_count;
	for (uint32_t i = 0; i < frame->symbol_count && !error; i++) {
		struct fgt_symbol *symbol =
			&result->symbols[result->symbol_count++];

		*symbol = old[i];
		error = move_string(narrowing, &symbol->function);
		if (!error)
			error = move_string(narrowing, &symbol->file);
	}
	return error;
}

static int copy_frames(struct narrowing *narrowing)
{
	const struct fgt_ring_slice *source = narrowing->source;
	struct fgt_ring_slice *result = narrowing->result;
	const struct marks *marks = &narrowing->marks;
	int error = FGT_NARROW_TABLE(source, result, frames, frame_count,
				     marks->frames);

	if (error || !FGT_ARRAY_NEW(result->symbols, source->symbol_count))
		return -ENOMEM;
	result->symbol_capacity = source->symbol_count;
	for (uint32_t i = 0; i < result->frame_count && !error; i++) {
		struct fgt_slice_frame *frame = &result->frames[i];

		if (frame->frame.image != FGT_IMAGE_NONE)
			frame->frame.image =
				marks->images[frame->frame.image - 1];
		error = copy_symbols(narrowing, frame);
	}
	return error;
}

static int copy_images(struct narrowing *narrowing)
{
	struct fgt_ring_slice *result = narrowing->result;
	int error = FGT_NARROW_TABLE(narrowing->source, result, images,
				     image_count, narrowing->marks.images);

	for (uint32_t i = 0; i < result->image_count && !error; i++)
		error = move_string(narrowing, &result->images[i].path);
	return error;
}

static void renumber_runs(struct narrowing *narrowing)
{
	const struct marks *marks = &narrowing->marks;

	for (uint32_t i = 0; i < narrowing->result->run_count; i++) {
		struct fgt_run *run = &narrowing->result->runs[i];

		run->thread = marks->threads[run->thread] - 1;
		if (run->stack != FGT_NODE_NONE)
			run->stack = marks->nodes[run->stack] - 1;
	}
}

static int copy_states(struct narrowing *narrowing)
{
	const struct fgt_ring_slice *source = narrowing->source;
	struct fgt_ring_slice *result = narrowing->result;
	bool is_used[FGT_STATE_MAX + 1] = { false };
	int error = 0;

	for (uint32_t i = 0; i < result->run_count; i++)
		is_used[result->runs[i].state] = true;
	if (!FGT_ARRAY_NEW(result->states, source->state_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < source->state_count && !error; i++) {
		struct fgt_slice_state *state;

		if (!is_used[source->states[i].state])
			continue;
		state = &result->states[result->state_count++];
		*state = source->states[i];
		error = move_string(narrowing, &state->name);
	}
	return error;
}

/* The anchors within the kept ticks, and the one that the first tick needs. */
static int copy_anchors(struct narrowing *narrowing)
{
	const struct fgt_ring_slice *source = narrowing->source;
	struct fgt_ring_slice *result = narrowing->result;
	uint64_t first_ns = result->tick_ns[0];
	uint64_t last_ns = result->tick_ns[result->tick_count - 1];
	uint32_t first = 0, end = 1;

	while (first + 1 < source->anchor_count &&
	       source->anchors[first + 1].mono_ns <= first_ns)
		first++;
	end = first + 1;
	while (end < source->anchor_count &&
	       source->anchors[end].mono_ns <= last_ns)
		end++;
	result->anchors = calloc(end - first, sizeof(*result->anchors));
	if (!result->anchors)
		return -ENOMEM;
	result->anchor_count = end - first;
	memcpy(result->anchors, source->anchors + first,
	       (end - first) * sizeof(*result->anchors));
	return 0;
}

/* What is missing in the kept part, counted from the gaps between its ticks. */
static uint64_t count_missed(const struct narrowing *narrowing)
{
	const struct fgt_ring_slice *source = narrowing->source;
	const struct fgt_ring_slice *result = narrowing->result;
	uint64_t missed = 0;

	if (result->tick_count == source->tick_count)
		return source->missed_ticks;
	for (uint32_t i = 1; i < result->tick_count; i++) {
		uint64_t gap_ns = result->tick_ns[i] - result->tick_ns[i - 1];
		uint64_t pace_ns = fgt_pace_ns(result, i - 1);
		uint64_t steps = gap_ns / pace_ns;

		if (gap_ns % pace_ns >= pace_ns / 2)
			steps++;
		if (steps > 1)
			missed += steps - 1;
	}
	return missed < source->missed_ticks ? missed : source->missed_ticks;
}

static int copy_times(struct narrowing *narrowing)
{
	const struct fgt_ring_slice *source = narrowing->source;
	struct fgt_ring_slice *result = narrowing->result;
	uint32_t count = narrowing->tick_count;
	uint64_t first_ns = source->tick_ns[narrowing->first_tick];
	uint64_t last_ns = source->tick_ns[narrowing->first_tick + count - 1];
	int error;

	result->tick_ns = calloc(count, sizeof(*result->tick_ns));
	if (!result->tick_ns)
		return -ENOMEM;
	memcpy(result->tick_ns, source->tick_ns + narrowing->first_tick,
	       count * sizeof(*result->tick_ns));
	result->tick_count = count;
	result->process = source->process;
	result->period_ns = source->period_ns;
	error = fgt_pace_narrow(source, narrowing->first_tick, count, result);
	if (error)
		return error;
	result->effective_hz =
		count > 1 ? (count - 1) * 1e9 / (double)(last_ns - first_ns)
			  : source->effective_hz;
	result->missed_ticks = count_missed(narrowing);
	/* Only ticks at the old end can have been evicted. */
	if (result->requested_from_ns < source->tick_ns[0]) {
		result->evicted_ticks = source->evicted_ticks;
		result->lapped_ticks = source->lapped_ticks;
	}
	error = fgt_pressures_copy(source->pressures, source->pressure_count,
				   result);
	return error ? error : copy_anchors(narrowing);
}

static int copy_edges(struct narrowing *narrowing)
{
	return fgt_edges_narrow(narrowing->source, narrowing->marks.threads,
				narrowing->first_tick, narrowing->result);
}

static int keep_wakes(struct narrowing *narrowing)
{
	const struct fgt_ring_slice *source = narrowing->source;
	uint32_t last = narrowing->first_tick + narrowing->tick_count - 1;

	narrowing->result->lost_wakes = source->lost_wakes;
	return fgt_wakes_keep(source, narrowing->marks.threads,
			      source->tick_ns[narrowing->first_tick],
			      source->tick_ns[last], narrowing->result,
			      narrowing->marks.nodes);
}

static int copy_waits(struct narrowing *narrowing)
{
	int error = fgt_waits_narrow(narrowing->source, narrowing->result);

	return error ? error
		     : fgt_wakes_narrow(
			       narrowing->source, narrowing->marks.threads,
			       narrowing->marks.nodes, narrowing->result);
}

static int copy_notes(struct narrowing *narrowing)
{
	const struct fgt_ring_slice *source = narrowing->source;
	int error = 0;

	for (uint32_t i = 0; i < source->note_count && !error; i++)
		error = fgt_slice_add_note(
			narrowing->result,
			fgt_slice_string(source, source->notes[i].key),
			fgt_slice_string(source, source->notes[i].value));
	return error;
}

static int copy_spans(struct narrowing *narrowing)
{
	return fgt_spans_narrow(narrowing->source, narrowing->tid,
				narrowing->result);
}

static int fill_result(struct narrowing *narrowing)
{
	/* Numbers come before what is numbered by them: images before frames,
	 * frames before nodes. */
	int (*const steps[])(struct narrowing *) = {
		copy_times,  copy_threads, copy_images, copy_frames, copy_nodes,
		copy_states, copy_edges,   copy_waits,	copy_spans,  copy_notes,
	};
	int error;

	error = keep_runs(narrowing);
	if (!error)
		error = keep_wakes(narrowing);
	if (error)
		return error;
	mark_what_nodes_use(narrowing);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		error = steps[i](narrowing);
		if (error)
			return error;
	}
	renumber_runs(narrowing);
	return 0;
}

static int narrow(const struct fgt_ring_slice *slice, uint64_t from_ns,
		  uint64_t to_ns, int32_t tid, uint32_t ticks_least,
		  struct fgt_ring_slice **ret_slice)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *result = NULL;
	struct narrowing narrowing = { .source = slice, .tid = tid };
	int error;

	if (from_ns > to_ns)
		return -EINVAL;
	narrowing.first_tick = count_ticks(slice, from_ns, false);
	narrowing.tick_count =
		count_ticks(slice, to_ns, true) - narrowing.first_tick;
	if (narrowing.tick_count < ticks_least)
		return -ENODATA;
	error = fgt_slice_new(&result);
	if (error)
		return error;
	result->requested_from_ns = from_ns;
	result->requested_to_ns = to_ns;
	narrowing.result = result;
	error = marks_init(&narrowing.marks, slice);
	if (!error)
		error = fill_result(&narrowing);
	marks_done(&narrowing.marks);
	if (error)
		return error;
	*ret_slice = FGT_TAKE(result);
	return 0;
}

int fgt_slice_narrow(const struct fgt_ring_slice *slice, uint64_t from_ns,
		     uint64_t to_ns, int32_t tid,
		     struct fgt_ring_slice **ret_slice)
{
	return narrow(slice, from_ns, to_ns, tid, 2, ret_slice);
}

int fgt_slice_narrow_runs(const struct fgt_ring_slice *view,
			  struct fgt_ring_slice **ret_slice)
{
	uint64_t last_ns = view->tick_ns[view->tick_count - 1];
	int error = view->run_count ? narrow(view, view->tick_ns[0], last_ns, 0,
					     1, ret_slice)
				    : -ENODATA;

	if (error)
		return error;
	(*ret_slice)->requested_from_ns = view->requested_from_ns;
	(*ret_slice)->requested_to_ns = view->requested_to_ns;
	return 0;
}
