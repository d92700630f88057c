/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slice in a few lines: sums samples by function and by thread.
 * Pure; reads a valid slice and allocates what it returns.
 */
#include "agent/cli/summary/summary.h"

#include <errno.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/pace.h"
#include "ringbuf/slice/processes.h"

/* Samples of one stack. */
struct weight {
	uint64_t running, wall;
};

/* Sums by string id of the function's name. */
struct tally {
	const struct fgt_ring_slice *slice;
	struct weight *nodes; /* [node_count]: samples with it as the leaf */
	struct fgt_summary_function *functions; /* [strings.count] */
	uint32_t *last_stack; /* [strings.count]: leaf + 1 that counted it */
	uint32_t *plain; /* [strings.count]: what it is counted as */
};

double fgt_percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* A tick at a lowered rate counts for the ticks that it replaces. */
static uint64_t weight_of(const struct fgt_ring_slice *slice,
			  const struct fgt_run *run)
{
	return fgt_pace_weight(slice, run->first_tick, run->tick_count);
}

static const struct fgt_slice_frame *
frame_of(const struct fgt_ring_slice *slice, uint32_t node)
{
	return &slice->frames[slice->nodes[node].frame];
}

static bool is_marker(const struct fgt_slice_frame *frame)
{
	return frame->frame.flags & FGT_FRAME_MARKER;
}

static bool is_that_marker(const struct fgt_slice_frame *frame,
			   enum fgt_marker marker)
{
	return is_marker(frame) && frame->frame.address == marker;
}

/* A remark on the sample; the function is the frame below it. */
static bool is_remark(const struct fgt_slice_frame *frame)
{
	return is_that_marker(frame, FGT_MARKER_KERNEL) ||
	       is_that_marker(frame, FGT_MARKER_KERNEL_DENIED) ||
	       is_that_marker(frame, FGT_MARKER_NOT_SAMPLED);
}

/* A stack with a marker as its root is not complete. */
static bool is_complete(const struct fgt_ring_slice *slice, uint32_t node)
{
	const struct fgt_slice_frame *root = NULL;

	for (; node != FGT_NODE_NONE; node = slice->nodes[node].parent)
		root = frame_of(slice, node);
	return root && !is_marker(root);
}

/* glibc's names for its functions inside: "__GI___libc_write" is write(). */
static const char *plain_name(const char *name)
{
	static const char *const prefixes[] = { "__GI_", "__libc_", "__" };

	if (strncmp(name, prefixes[0], strlen(prefixes[0])) != 0)
		return name;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		size_t len = strlen(prefixes[i]);

		if (strncmp(name, prefixes[i], len) == 0 && name[len])
			name += len;
	}
	return name;
}

/* The plain one, else the first with that plain name. */
uint32_t fgt_summary_function_id(const struct fgt_ring_slice *slice,
				 uint32_t name)
{
	const char *text = fgt_slice_string(slice, name);
	const char *plain = plain_name(text);
	uint32_t first = name;

	if (plain == text)
		return name;
	for (uint32_t i = slice->strings.count; i-- > 1;) {
		const char *other = fgt_slice_string(slice, i);

		if (strcmp(other, plain) == 0)
			return i;
		if (strcmp(plain_name(other), plain) == 0)
			first = i;
	}
	return first;
}

static bool is_start(const char *name)
{
	static const char *const starts[] = { "_start",
					      "__libc_start_main",
					      "__libc_start_main_impl",
					      "__libc_start_call_main",
					      "clone",
					      "__clone",
					      "clone3",
					      "__clone3",
					      "start_thread" };

	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		if (strcmp(name, starts[i]) == 0)
			return true;
	return false;
}

static void count_function(struct tally *tally, uint32_t name, uint32_t leaf,
			   const struct weight *weight)
{
	struct fgt_summary_function *function = &tally->functions[name];

	/* Recursion: once a stack. */
	if (tally->last_stack[name] == leaf + 1)
		return;
	tally->last_stack[name] = leaf + 1;
	function->total += weight->running;
	function->wall += weight->wall;
}

/* Adds the samples that end in this leaf to every function of the stack. */
static void count_stack(struct tally *tally, uint32_t leaf)
{
	const struct fgt_ring_slice *slice = tally->slice;
	const struct weight *weight = &tally->nodes[leaf];
	bool is_self_counted = false;

	for (uint32_t node = leaf; node != FGT_NODE_NONE;
	     node = slice->nodes[node].parent) {
		const struct fgt_slice_frame *frame = frame_of(slice, node);

		if (is_remark(frame) &&
		    slice->nodes[node].parent != FGT_NODE_NONE)
			continue;
		if (is_marker(frame) && is_self_counted)
			continue;
		for (uint32_t i = 0; i < frame->symbol_count; i++) {
			uint32_t name =
				tally->plain
					[slice->symbols[frame->symbol_first + i]
						 .function];

			if (!is_self_counted)
				tally->functions[name].self += weight->running;
			is_self_counted = true;
			count_function(tally, name, leaf, weight);
		}
		is_self_counted = true;
	}
}

static int by_heat(const void *left, const void *right)
{
	const struct fgt_summary_function *a = left, *b = right;

	if (a->self != b->self)
		return a->self < b->self ? 1 : -1;
	if (a->total != b->total)
		return a->total < b->total ? 1 : -1;
	/* Of what ran, tables show no more than that. */
	if (!a->total && a->wall != b->wall)
		return a->wall < b->wall ? 1 : -1;
	return strcmp(a->name, b->name);
}

/* Sums the samples by their leaf. */
static void count_leaves(struct tally *tally, struct fgt_summary *summary)
{
	const struct fgt_ring_slice *slice = tally->slice;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		const struct fgt_slice_frame *leaf;
		uint64_t weight;

		if (run->stack == FGT_NODE_NONE)
			continue;
		leaf = frame_of(slice, run->stack);
		weight = weight_of(slice, run);
		tally->nodes[run->stack].wall += weight;
		if (run->state != FGT_STATE_RUNNING)
			continue;
		tally->nodes[run->stack].running += weight;
		if (is_that_marker(leaf, FGT_MARKER_NOT_SAMPLED))
			summary->not_sampled += weight;
		if (is_that_marker(leaf, FGT_MARKER_KERNEL_DENIED))
			summary->kernel_denied += weight;
	}
}

static void count_functions(struct tally *tally, struct fgt_summary *summary)
{
	const struct fgt_ring_slice *slice = tally->slice;
	uint32_t used = 0;

	count_leaves(tally, summary);
	for (uint32_t i = 0; i < slice->node_count; i++) {
		if (tally->nodes[i].wall)
			count_stack(tally, i);
	}
	for (uint32_t i = 0; i < slice->strings.count; i++) {
		const char *name = plain_name(fgt_slice_string(slice, i));

		tally->functions[i].name = name;
		tally->functions[i].id = i;
		if (tally->functions[i].wall &&
		    (tally->functions[i].self || !is_start(name)))
			tally->functions[used++] = tally->functions[i];
	}
	FGT_ARRAY_SORT(tally->functions, used, by_heat);
	summary->function_count = used;
}

static int list_functions(const struct fgt_ring_slice *slice,
			  struct fgt_summary *summary)
{
	struct tally tally = { .slice = slice };
	int r = -ENOMEM;

	if (FGT_ARRAY_NEW(summary->functions, slice->strings.count) &&
	    FGT_ARRAY_NEW(tally.nodes, slice->node_count) &&
	    FGT_ARRAY_NEW(tally.last_stack, slice->strings.count) &&
	    FGT_ARRAY_NEW(tally.plain, slice->strings.count)) {
		for (uint32_t i = 0; i < slice->strings.count; i++)
			tally.plain[i] = fgt_summary_function_id(slice, i);
		tally.functions = summary->functions;
		count_functions(&tally, summary);
		r = 0;
	}
	free(tally.nodes);
	free(tally.last_stack);
	free(tally.plain);
	return r;
}

static bool goes_before(const char *name, uint64_t samples,
			const struct fgt_summary_thread *thread, uint32_t at)
{
	uint64_t other = thread->states[at].samples;

	return samples != other ? samples > other
				: strcmp(name, thread->states[at].name) < 0;
}

/* Keeps states[] sorted; the least frequent state falls off the end. */
static void add_state(struct fgt_summary_thread *thread, const char *name,
		      uint64_t samples)
{
	uint32_t at = thread->state_count;

	if (at == FGT_SUMMARY_STATES)
		at--;
	else
		thread->state_count++;
	if (thread->states[at].samples &&
	    !goes_before(name, samples, thread, at))
		return;
	for (; at > 0 && goes_before(name, samples, thread, at - 1); at--)
		thread->states[at] = thread->states[at - 1];
	thread->states[at].name = name;
	thread->states[at].samples = samples;
}

/* The runs of one thread lie side by side: [first, end). */
static void count_thread(const struct fgt_ring_slice *slice, uint32_t first,
			 uint32_t end, struct fgt_summary_thread *thread)
{
	const struct fgt_slice_thread *of =
		&slice->threads[slice->runs[first].thread];
	uint64_t by_state[FGT_STATE_MAX + 1] = { 0 };

	thread->number = slice->runs[first].thread;
	thread->tid = of->tid;
	thread->pid = fgt_slice_process(slice, of->process).pid;
	thread->name = fgt_slice_string(slice, of->name);
	for (uint32_t i = first; i < end; i++) {
		const struct fgt_run *run = &slice->runs[i];
		uint64_t weight = weight_of(slice, run);

		thread->samples += weight;
		if (run->state == FGT_STATE_RUNNING)
			thread->running += weight;
		else if (run->state == FGT_STATE_RUNNABLE)
			thread->runnable += weight;
		else if (run->state <= FGT_STATE_MAX)
			by_state[run->state] += weight;
		if (is_complete(slice, run->stack))
			thread->complete += weight;
	}
	for (uint32_t i = 0; i < slice->state_count; i++) {
		uint32_t state = slice->states[i].state;

		if (state <= FGT_STATE_MAX && by_state[state])
			add_state(thread, fgt_slice_state_name(slice, state),
				  by_state[state]);
	}
}

static int by_running(const void *left, const void *right)
{
	const struct fgt_summary_thread *a = left, *b = right;
	int order;

	if (a->running != b->running)
		return a->running < b->running ? 1 : -1;
	order = strcmp(a->name, b->name);
	if (order)
		return order;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int count_threads(const struct fgt_ring_slice *slice,
			 struct fgt_summary *summary)
{
	uint32_t first = 0;

	if (!FGT_ARRAY_NEW(summary->threads, slice->thread_count))
		return -ENOMEM;
	while (first < slice->run_count) {
		uint32_t end = first + 1;
		struct fgt_summary_thread *thread;

		while (end < slice->run_count &&
		       slice->runs[end].thread == slice->runs[first].thread)
			end++;
		thread = &summary->threads[summary->thread_count++];
		count_thread(slice, first, end, thread);
		summary->samples += thread->samples;
		summary->running += thread->running;
		summary->runnable += thread->runnable;
		summary->complete += thread->complete;
		first = end;
	}
	FGT_ARRAY_SORT(summary->threads, summary->thread_count, by_running);
	return 0;
}

int fgt_summary_new(const struct fgt_ring_slice *slice,
		    struct fgt_summary **ret_summary)
{
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	int r;

	summary = calloc(1, sizeof(*summary));
	if (!summary)
		return -ENOMEM;
	r = list_functions(slice, summary);
	if (r == 0)
		r = count_threads(slice, summary);
	if (r == 0)
		r = fgt_summary_groups_new(
			summary->threads, summary->thread_count,
			&summary->groups, &summary->group_count);
	if (r == 0)
		r = fgt_summary_waits_new(slice, &summary->waits);
	if (r == 0)
		r = fgt_nameless_count(slice, &summary->nameless);
	if (r < 0)
		return r;
	summary->has_processes = slice->process_count > 1;
	if (slice->tick_count > 0)
		summary->covered_s =
			(double)(slice->tick_ns[slice->tick_count - 1] -
				 slice->tick_ns[0]) /
			1e9;
	*ret_summary = FGT_TAKE(summary);
	return 0;
}

void fgt_summary_free(struct fgt_summary *summary)
{
	if (!summary)
		return;
	free(summary->functions);
	free(summary->threads);
	free(summary->groups);
	fgt_summary_waits_free(summary->waits);
	free(summary);
}
