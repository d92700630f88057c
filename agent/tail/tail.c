/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares each run with what its thread did before. Runs in any thread; the
 * memory grows with the threads of the target, not with time.
 */
#include "agent/tail/tail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/tail/tail_event.h"
#include "ringbuf/base/array.h"
#include "ringbuf/base/clock.h"

#define MS_NS UINT64_C(1000000)

struct fgt_tail {
	struct fgt_tail_event event; /* form, sink, times */
	uint64_t last_ns;
	bool has_begun;
	struct fgt_filter filter; /* owned */
	struct fgt_tail_thread *threads; /* by tid, then start_time */
	uint32_t count, capacity;
};

/* One slice. */
struct feed {
	struct fgt_tail *tail;
	const struct fgt_ring_slice *slice;
	struct fgt_levels levels;
	uint32_t first_tick; /* the first that is new */
	uint32_t *order; /* runs, by their first new tick */
	uint32_t order_count;
	uint32_t *known; /* thread of the slice → of the tail */
	bool *marks; /* of runs: do they pass? */
};

int fgt_tail_form_from_name(const char *name, enum fgt_tail_form *ret_form,
			    struct fgt_why *why)
{
	bool is_chrome = strcmp(name, "chrome") == 0;

	if (!is_chrome && strcmp(name, "json") != 0)
		return fgt_why_set(why, -EINVAL,
				   "unknown format '%.40s': a stream has json "
				   "and chrome",
				   name);
	*ret_form = is_chrome ? FGT_TAIL_CHROME : FGT_TAIL_JSON;
	return 0;
}

int fgt_tail_new(enum fgt_tail_form form, const struct fgt_filter *filter,
		 struct fgt_tail **ret_tail, struct fgt_why *why)
{
	FGT_AUTO(fgt_tail_free) struct fgt_tail *tail = NULL;

	if (filter->is_busy)
		return fgt_why_set(
			why, -EINVAL,
			"a stream has no idle threads: what stays as "
			"it is writes nothing; leave out no-idle");
	tail = calloc(1, sizeof(*tail));
	if (!tail || fgt_filter_copy(filter, &tail->filter) < 0)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	tail->event.form = form;
	*ret_tail = FGT_TAKE(tail);
	return 0;
}

void fgt_tail_free(struct fgt_tail *tail)
{
	if (!tail)
		return;
	for (uint32_t i = 0; i < tail->count; i++)
		free(tail->threads[i].stack.names);
	free(tail->threads);
	fgt_filter_done(&tail->filter);
	free(tail);
}

uint64_t fgt_tail_last_ns(const struct fgt_tail *tail)
{
	return tail->last_ns;
}

static struct fgt_time at(uint64_t ns)
{
	return (struct fgt_time){ .form = FGT_TIME_MONOTONIC, .ns = ns };
}

void fgt_tail_range(const struct fgt_tail *tail, struct fgt_range *ret_range)
{
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);

	*ret_range = (struct fgt_range){
		.has_to = true,
		.to = at(now_ns - FGT_TAIL_DELAY_MS * MS_NS),
		.has_from = tail->last_ns != 0,
		.from = at(tail->last_ns),
		.last_ns = FGT_TAIL_PERIOD_MS * MS_NS,
	};
}

/* ---- Threads ------------------------------------------------------------- */

static bool is_before(const struct fgt_tail_thread *known,
		      const struct fgt_slice_thread *thread)
{
	return known->tid != thread->tid
		       ? known->tid < thread->tid
		       : known->start_time < thread->start_time;
}

static bool is_same(const struct fgt_tail_thread *known,
		    const struct fgt_slice_thread *thread)
{
	return known->tid == thread->tid &&
	       known->start_time == thread->start_time;
}

/* Both lists are in the same order. */
static int find_thread(struct fgt_tail *tail,
		       const struct fgt_slice_thread *thread, uint32_t *at)
{
	while (*at < tail->count && is_before(&tail->threads[*at], thread))
		++*at;
	if (*at < tail->count && is_same(&tail->threads[*at], thread))
		return 0;
	if (FGT_ARRAY_GROW(tail->threads, tail->count, tail->capacity))
		return -ENOMEM;
	memmove(&tail->threads[*at + 1], &tail->threads[*at],
		(tail->count - *at) * sizeof(*tail->threads));
	tail->threads[*at] = (struct fgt_tail_thread){
		.tid = thread->tid,
		.start_time = thread->start_time,
	};
	tail->count++;
	return 0;
}

/* Those of the slice; then known[] has their final places. */
static int find_threads(struct feed *feed)
{
	struct fgt_tail *tail = feed->tail;
	const struct fgt_ring_slice *slice = feed->slice;
	uint32_t at = 0;
	int r = 0;

	for (uint32_t i = 0; i < slice->thread_count && r == 0; i++)
		r = find_thread(tail, &slice->threads[i], &at);
	at = 0;
	for (uint32_t i = 0; i < slice->thread_count && r == 0; i++) {
		r = find_thread(tail, &slice->threads[i], &at);
		feed->known[i] = at;
	}
	return r;
}

/* A thread that the slice does not have has ended, maybe half a second ago. */
static int end_others(struct feed *feed)
{
	struct fgt_tail *tail = feed->tail;
	uint32_t left = 0, at = 0;
	int r = 0;

	for (uint32_t i = 0; i < tail->count; i++) {
		struct fgt_tail_thread *thread = &tail->threads[i];

		if (at < feed->slice->thread_count && feed->known[at] == i) {
			at++;
			tail->threads[left++] = *thread;
			continue;
		}
		tail->event.at_ns = thread->until_ns;
		if (r == 0 && thread->state[0])
			r = fgt_tail_put_end(&tail->event, feed->slice, thread,
					     "ended");
		free(thread->stack.names);
	}
	tail->count = left;
	return r;
}

/* ---- Runs ---------------------------------------------------------------- */

static uint32_t first_new(const struct feed *feed, const struct fgt_run *run)
{
	return run->first_tick > feed->first_tick ? run->first_tick
						  : feed->first_tick;
}

static int compare_runs(const void *a, const void *b, void *context)
{
	const struct feed *feed = context;
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
	uint32_t one_tick = first_new(feed, &feed->slice->runs[one]);
	uint32_t other_tick = first_new(feed, &feed->slice->runs[other]);

	if (one_tick != other_tick)
		return one_tick < other_tick ? -1 : 1;
	return one < other ? -1 : one > other;
}

static void order_runs(struct feed *feed)
{
	const struct fgt_ring_slice *slice = feed->slice;

	for (uint32_t i = 0; i < slice->run_count; i++)
		if (slice->runs[i].first_tick + slice->runs[i].tick_count >
		    feed->first_tick)
			feed->order[feed->order_count++] = i;
	qsort_r(feed->order, feed->order_count, sizeof(*feed->order),
		compare_runs, feed);
}

/* The names from the root on, each with its NUL. */
static int write_names(struct feed *feed, const struct fgt_run *run,
		       struct fgt_tail_stack *ret_stack)
{
	char buffer[FGT_LEVEL_NAME_MAX];
	struct fgt_memory_sink memory;
	int r = 0;

	fgt_levels_expand(&feed->levels, run->stack, run->state);
	fgt_memory_sink_init(&memory, FGT_TAIL_STACK_BYTES);
	for (uint32_t i = feed->levels.count; i > 0 && r == 0; i--) {
		const char *name = fgt_level_name(
			feed->slice, feed->levels.items[i - 1], buffer);

		r = fgt_sink_write(&memory.sink, name, strlen(name) + 1);
	}
	if (r < 0 && r != -EMSGSIZE) {
		fgt_memory_sink_done(&memory);
		return r;
	}
	/* A longer one loses its leaf. */
	*ret_stack = (struct fgt_tail_stack){ (char *)memory.bytes,
					      memory.len_bytes };
	return 0;
}

static bool is_stack_same(const struct fgt_tail_stack *a,
			  const struct fgt_tail_stack *b)
{
	return a->len == b->len && a->len > 0 &&
	       memcmp(a->names, b->names, a->len) == 0;
}

/* It no longer passes. */
static int leave(struct feed *feed, const struct fgt_run *run,
		 struct fgt_tail_thread *thread)
{
	struct fgt_tail_event *event = &feed->tail->event;
	int r;

	if (!thread->state[0])
		return 0;
	event->at_ns = feed->slice->tick_ns[first_new(feed, run)];
	r = fgt_tail_put_end(event, feed->slice, thread, "left");
	free(thread->stack.names);
	thread->stack = (struct fgt_tail_stack){ .names = NULL };
	thread->state[0] = '\0';
	return r;
}

static int feed_run(struct feed *feed, const struct fgt_run *run)
{
	struct fgt_tail *tail = feed->tail;
	struct fgt_tail_thread *thread =
		&tail->threads[feed->known[run->thread]];
	const char *state = fgt_slice_state_name(feed->slice, run->state);
	uint32_t after = run->first_tick + run->tick_count;
	struct fgt_tail_stack stack;
	int r;

	thread->until_ns = feed->slice->tick_ns[after < feed->slice->tick_count
							? after
							: after - 1];
	if (!feed->marks[run - feed->slice->runs])
		return leave(feed, run, thread);
	r = write_names(feed, run, &stack);
	if (r < 0)
		return r;
	if (is_stack_same(&thread->stack, &stack) &&
	    strcmp(thread->state, state) == 0) {
		free(stack.names);
		return 0;
	}
	tail->event.at_ns = feed->slice->tick_ns[first_new(feed, run)];
	snprintf(thread->state, sizeof(thread->state), "%s", state);
	r = fgt_tail_put_change(&tail->event, feed->slice,
				&feed->slice->threads[run->thread], thread,
				&stack);
	free(thread->stack.names);
	thread->stack = stack;
	return r;
}

/* ---- A slice ------------------------------------------------------------- */

static int feed_all(struct feed *feed)
{
	int r = find_threads(feed);

	order_runs(feed);
	for (uint32_t i = 0; i < feed->order_count && r == 0; i++)
		r = feed_run(feed, &feed->slice->runs[feed->order[i]]);
	if (r == 0)
		r = end_others(feed);
	feed->tail->event.at_ns =
		feed->slice->tick_ns[feed->slice->tick_count - 1];
	if (r == 0)
		r = fgt_tail_put_spans(&feed->tail->event, feed->slice,
				       &feed->tail->filter,
				       feed->tail->last_ns);
	return r;
}

static int begin(struct fgt_tail *tail, const struct fgt_ring_slice *slice)
{
	if (tail->has_begun)
		return 0;
	tail->has_begun = true;
	tail->event.pid = slice->process.pid;
	tail->event.base_ns = slice->tick_ns[0];
	return fgt_tail_put_begin(&tail->event, slice);
}

int fgt_tail_feed(struct fgt_tail *tail, const struct fgt_ring_slice *slice,
		  const struct fgt_sink *sink)
{
	struct feed feed = { .tail = tail, .slice = slice };
	uint64_t last_ns = slice->tick_ns[slice->tick_count - 1];
	int r = -ENOMEM;

	if (last_ns <= tail->last_ns)
		return 0;
	tail->event.sink = sink;
	feed.first_tick = (uint32_t)FGT_ARRAY_BISECT(
		at, slice->tick_count, slice->tick_ns[at] <= tail->last_ns);
	feed.order = calloc(slice->run_count + (size_t)1, sizeof(uint32_t));
	feed.known = calloc(slice->thread_count + (size_t)1, sizeof(uint32_t));
	if (feed.order && feed.known)
		r = fgt_filter_mark(&tail->filter, slice, &feed.marks);
	if (r == 0)
		r = fgt_levels_init(&feed.levels, slice,
				    tail->event.form == FGT_TAIL_CHROME
					    ? FGT_STATE_FRAMES_LEAF
					    : FGT_STATE_FRAMES_NO,
				    FGT_LEVELS_MAX);
	if (r == 0) {
		r = begin(tail, slice);
		if (r == 0)
			r = feed_all(&feed);
		fgt_levels_done(&feed.levels);
	}
	tail->last_ns = last_ns;
	free(feed.order);
	free(feed.known);
	free(feed.marks);
	return r;
}
