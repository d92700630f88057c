/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves out runs of a slice. Pure.
 */
#include "upload/why/filter.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/id_map.h"
#include "upload/why/words.h"

#define NAMED_MAX 8u /* threads or states in an error */

/* What passes, each by its number: texts are compared once, since a hostile file
 * may have a long one for many runs. */
struct matches {
	bool *nodes; /* of it, or of its callers; NULL: no pattern */
	bool *changed; /* threads; NULL: not asked */
	bool *threads;
	bool states[FGT_STATE_MAX + 1];
};

bool fgt_filter_is_any(const struct fgt_filter *filter)
{
	return filter->thread || filter->state || filter->function ||
	       filter->is_running || filter->is_busy;
}

static bool copy_text(const char *text, const char **ret_copy)
{
	*ret_copy = text ? strdup(text) : NULL;
	return *ret_copy || !text;
}

int fgt_filter_copy(const struct fgt_filter *filter,
		    struct fgt_filter *ret_copy)
{
	struct fgt_filter copy = *filter;
	bool is_whole = copy_text(filter->thread, &copy.thread);

	is_whole &= copy_text(filter->state, &copy.state);
	is_whole &= copy_text(filter->function, &copy.function);
	if (!is_whole) {
		fgt_filter_done(&copy);
		return -ENOMEM;
	}
	*ret_copy = copy;
	return 0;
}

void fgt_filter_done(struct fgt_filter *copy)
{
	free((char *)copy->thread);
	free((char *)copy->state);
	free((char *)copy->function);
	*copy = (struct fgt_filter){ .thread = NULL };
}

static bool is_match(const char *pattern, const char *text)
{
	return !pattern || fnmatch(pattern, text, 0) == 0;
}

/* ---- Functions and threads ----------------------------------------------- */

/* Of "a::f(int) const": up to its parameters, "a::f". */
static size_t bare_len(const char *function)
{
	const char *at = strrchr(function, ')');
	unsigned int depth = 0;

	if (!at || (at[1] && at[1] != ' '))
		return strlen(function);
	for (; at > function; at--) {
		if (*at == ')')
			depth++;
		else if (*at == '(' && --depth == 0)
			return (size_t)(at - function);
	}
	return strlen(function);
}

/* With its parameters, or without them. -ENOMEM. */
static int match_function(const char *pattern, const char *function,
			  bool *ret_is_match)
{
	FGT_AUTO(free) void *memory = NULL;
	char *bare;

	*ret_is_match = is_match(pattern, function);
	if (*ret_is_match || !strchr(function, '('))
		return 0;
	memory = bare = strndup(function, bare_len(function));
	if (!bare)
		return -ENOMEM;
	*ret_is_match = is_match(pattern, bare);
	return 0;
}

/* Does a function of the frame match, inlined or not? Each text is matched
 * once. */
static int match_frames(const struct fgt_ring_slice *slice, const char *pattern,
			bool *frames)
{
	FGT_AUTO(free) void *memory = NULL;
	struct {
		bool is_known, is_match;
	} * texts;
	int r = 0;

	if (!FGT_ARRAY_NEW(texts, slice->strings.count))
		return -ENOMEM;
	memory = texts;
	for (uint32_t i = 0; i < slice->frame_count; i++) {
		const struct fgt_slice_frame *frame = &slice->frames[i];

		for (uint32_t k = 0; k < frame->symbol_count && !frames[i];
		     k++) {
			uint32_t id = slice->symbols[frame->symbol_first + k]
					      .function;

			if (!texts[id].is_known)
				r = match_function(pattern,
						   fgt_slice_string(slice, id),
						   &texts[id].is_match);
			if (r < 0)
				return r;
			texts[id].is_known = true;
			frames[i] = texts[id].is_match;
		}
	}
	return 0;
}

/* Parents come before their children. */
static int match_functions(const struct fgt_ring_slice *slice,
			   const char *pattern, struct matches *matches)
{
	FGT_AUTO(free) void *memory = NULL;
	bool *frames;
	int r;

	if (!pattern)
		return 0;
	if (!FGT_ARRAY_NEW(matches->nodes, slice->node_count) ||
	    !FGT_ARRAY_NEW(frames, slice->frame_count))
		return -ENOMEM;
	memory = frames;
	r = match_frames(slice, pattern, frames);
	for (uint32_t i = 0; i < slice->node_count && r == 0; i++) {
		uint32_t parent = slice->nodes[i].parent;

		matches->nodes[i] =
			(parent != FGT_NODE_NONE && matches->nodes[parent]) ||
			frames[slice->nodes[i].frame];
	}
	return r;
}

/* One that was blocked at one place all the time has not. */
static int find_changed(const struct fgt_ring_slice *slice, bool is_wanted,
			struct matches *matches)
{
	const struct fgt_run *first = NULL;

	if (!is_wanted)
		return 0;
	if (!FGT_ARRAY_NEW(matches->changed, slice->thread_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];

		if (!first || first->thread != run->thread)
			first = run;
		if (!fgt_state_is_blocked(run->state) ||
		    run->state != first->state || run->stack != first->stack)
			matches->changed[run->thread] = true;
	}
	return 0;
}

/* ---- Runs ------------------------------------------------------------------ */

bool fgt_filter_takes_thread(const struct fgt_filter *filter,
			     const struct fgt_ring_slice *slice,
			     uint32_t thread)
{
	const struct fgt_slice_thread *at = &slice->threads[thread];
	char number[16];

	snprintf(number, sizeof(number), "%d", at->tid);
	return is_match(filter->thread, fgt_slice_string(slice, at->name)) ||
	       is_match(filter->thread, number);
}

static bool state_passes(const struct fgt_filter *filter,
			 const struct fgt_ring_slice *slice,
			 const struct fgt_slice_state *state)
{
	bool is_blocked = fgt_state_is_blocked(state->state);

	if (filter->is_running && is_blocked)
		return false;
	if (filter->state && strcmp(filter->state, "blocked") == 0)
		return is_blocked;
	return is_match(filter->state,
			fgt_slice_state_name(slice, state->state));
}

static int match_threads_and_states(const struct fgt_filter *filter,
				    const struct fgt_ring_slice *slice,
				    struct matches *matches)
{
	if (!FGT_ARRAY_NEW(matches->threads, slice->thread_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->thread_count; i++)
		matches->threads[i] = fgt_filter_takes_thread(filter, slice, i);
	for (uint32_t i = 0; i < slice->state_count; i++)
		matches->states[slice->states[i].state] =
			state_passes(filter, slice, &slice->states[i]);
	return 0;
}

static bool passes(const struct matches *matches, const struct fgt_run *run)
{
	if (matches->changed && !matches->changed[run->thread])
		return false;
	if (matches->nodes &&
	    (run->stack == FGT_NODE_NONE || !matches->nodes[run->stack]))
		return false;
	return matches->threads[run->thread] && matches->states[run->state];
}

int fgt_filter_mark(const struct fgt_filter *filter,
		    const struct fgt_ring_slice *slice, bool **ret_marks)
{
	struct matches matches = { .nodes = NULL };
	bool *marks = NULL;
	int r = match_functions(slice, filter->function, &matches);

	if (r == 0)
		r = find_changed(slice, filter->is_busy, &matches);
	if (r == 0)
		r = match_threads_and_states(filter, slice, &matches);
	if (r == 0 && !FGT_ARRAY_NEW(marks, slice->run_count))
		r = -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < slice->run_count; i++)
		marks[i] = passes(&matches, &slice->runs[i]);
	free(matches.nodes);
	free(matches.changed);
	free(matches.threads);
	if (r == 0)
		*ret_marks = marks;
	return r;
}

static int choose_runs(const struct fgt_filter *filter,
		       const struct fgt_ring_slice *slice,
		       struct fgt_run **ret_runs, uint32_t *ret_count)
{
	FGT_AUTO(free) void *memory = NULL;
	struct fgt_run *runs;
	bool *marks = NULL;
	uint32_t count = 0;
	int r = fgt_filter_mark(filter, slice, &marks);

	memory = marks;
	if (r < 0)
		return r;
	if (!FGT_ARRAY_NEW(runs, slice->run_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->run_count; i++)
		if (marks[i])
			runs[count++] = slice->runs[i];
	*ret_runs = runs;
	*ret_count = count;
	return 0;
}

/* ---- The slice ------------------------------------------------------------- */

static uint32_t name_of(const struct fgt_ring_slice *slice, bool of_threads,
			uint32_t index)
{
	return of_threads ? slice->threads[index].name
			  : slice->states[index].name;
}

/* Which threads, or states, there are. */
static int explain_names(const struct fgt_ring_slice *slice, bool of_threads,
			 struct fgt_why *why)
{
	uint32_t count = of_threads ? slice->thread_count : slice->state_count;
	struct fgt_words words = { .len = 0 };
	struct fgt_id_map names = { 0 };
	uint32_t number, named = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t name = name_of(slice, of_threads, i);

		if (fgt_id_map_add(&names, name, &number) < 0)
			break;
		if (number < named || named++ >= NAMED_MAX)
			continue;
		fgt_words_add(&words, "%s%s", named > 1 ? ", " : "",
			      fgt_slice_string(slice, name));
	}
	fgt_id_map_done(&names);
	if (named > NAMED_MAX)
		fgt_words_add(&words, " and %u more", named - NAMED_MAX);
	return fgt_why_set(why, -ENODATA,
			   "no sample passes the filter: %s are %.300s",
			   of_threads ? "threads" : "states", words.text);
}

/* Does a sample pass? Also if that cannot be found out. */
static bool passes_any(const struct fgt_filter *filter,
		       const struct fgt_ring_slice *slice)
{
	bool *marks = NULL;
	bool is_any = fgt_filter_mark(filter, slice, &marks) < 0;

	for (uint32_t i = 0; i < slice->run_count && !is_any; i++)
		is_any = marks[i];
	free(marks);
	return is_any;
}

/* The part of the filter that alone lets nothing pass. */
int fgt_filter_explain(const struct fgt_filter *filter,
		       const struct fgt_ring_slice *slice, struct fgt_why *why)
{
	const struct fgt_filter thread = { .thread = filter->thread };
	const struct fgt_filter state = { .state = filter->state,
					  .is_running = filter->is_running };
	const struct fgt_filter function = { .function = filter->function };
	const struct fgt_filter busy = { .is_busy = filter->is_busy };

	if (fgt_filter_is_any(&thread) && !passes_any(&thread, slice))
		return explain_names(slice, true, why);
	if (fgt_filter_is_any(&state) && !passes_any(&state, slice))
		return explain_names(slice, false, why);
	if (fgt_filter_is_any(&function) && !passes_any(&function, slice))
		return fgt_why_set(why, -ENODATA,
				   "no sample passes the filter: no stack has "
				   "a function like '%.100s'; * stands for any "
				   "text",
				   filter->function);
	if (fgt_filter_is_any(&busy) && !passes_any(&busy, slice))
		return fgt_why_set(why, -ENODATA,
				   "no sample passes the filter: no thread has "
				   "changed its stack in this time");
	return fgt_why_set(why, -ENODATA,
			   "no sample passes the filter: some pass each part "
			   "of it, none passes all; leave out one part");
}

int fgt_filter_apply(const struct fgt_filter *filter,
		     const struct fgt_ring_slice *slice,
		     struct fgt_ring_slice **ret_part, struct fgt_why *why)
{
	struct fgt_ring_slice view = *slice;
	int r;

	view.runs = NULL;
	r = choose_runs(filter, slice, &view.runs, &view.run_count);

	/* They may belong to a run that was left out. */
	if (filter->state || filter->function || filter->is_running)
		view.edge_count = view.wake_count = 0;
	if (r == 0)
		r = fgt_slice_narrow_runs(&view, ret_part);
	free(view.runs);
	if (r == -ENODATA)
		return fgt_filter_explain(filter, slice, why);
	return r < 0 ? fgt_why_set(why, r, FGT_NO_MEMORY) : 0;
}
