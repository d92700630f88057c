/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups what threads do at one tick. Pure.
 */
#include "upload/why/moment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/id_map.h"

#define TIMEOUT_SLACK_PART 16 /* of a wait's time */
#define DYING_NS	   200000000ull
#define LATE_NS		   100000000ull

/* A thread at the tick, with what it must share with others of its group. */
struct present {
	uint32_t thread, run, stack, state, wait;
	const struct fgt_slice_wait *reason; /* of wait; NULL: none */
	uint32_t leader; /* first thread of the group */
};

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_reasons(const struct fgt_slice_wait *a,
			   const struct fgt_slice_wait *b)
{
	int order = compare(a != NULL, b != NULL);

	if (order || !a)
		return order;
	order = compare(a->kind, b->kind);
	if (!order)
		order = compare((uint32_t)a->owner_tid, (uint32_t)b->owner_tid);
	return order ? order : compare(a->address, b->address);
}

static int by_doing(const void *left, const void *right)
{
	const struct present *a = left, *b = right;
	int order;

	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	if (a->state != b->state)
		return a->state < b->state ? -1 : 1;
	order = compare_reasons(a->reason, b->reason);
	return order ? order : compare(a->thread, b->thread);
}

static int by_leader(const void *left, const void *right)
{
	const struct present *a = left, *b = right;

	int order = compare(a->leader, b->leader);

	return order ? order : compare(a->thread, b->thread);
}

static bool is_same_doing(const struct present *a, const struct present *b)
{
	return a->stack == b->stack && a->state == b->state &&
	       compare_reasons(a->reason, b->reason) == 0;
}

/* Not all of it could be read: the next one may be the same. */
static bool is_cut(const struct fgt_ring_slice *slice, uint32_t stack)
{
	const struct fgt_frame *root;

	if (stack == FGT_NODE_NONE)
		return false;
	while (slice->nodes[stack].parent != FGT_NODE_NONE)
		stack = slice->nodes[stack].parent;
	root = &slice->frames[slice->nodes[stack].frame].frame;
	return root->flags & FGT_FRAME_MARKER &&
	       root->address >= FGT_MARKER_TRUNCATED_NO_CFI;
}

/* Of several processes each has ticks that others lack. */
bool fgt_moment_goes_on(const struct fgt_ring_slice *slice,
			const struct fgt_run *run)
{
	return run[1].thread == run->thread &&
	       (slice->process_count ||
		run->first_tick + run->tick_count == run[1].first_tick) &&
	       run[1].state == run->state &&
	       (run[1].stack == run->stack || is_cut(slice, run->stack));
}

uint32_t fgt_moment_moved_tick(const struct fgt_ring_slice *slice,
			       uint32_t thread, uint32_t tick)
{
	const struct fgt_edge *edges = slice->edges;
	const struct fgt_slice_wake *wakes = slice->wakes;
	uint64_t at_ns = slice->tick_ns[tick];
	size_t edge = FGT_ARRAY_BISECT(
		i, slice->edge_count,
		edges[i].thread < thread ||
			(edges[i].thread == thread && edges[i].tick <= tick));
	size_t wake = FGT_ARRAY_BISECT(
		i, slice->wake_count,
		wakes[i].thread < thread ||
			(wakes[i].thread == thread && wakes[i].at_ns <= at_ns));
	uint64_t known_ns = slice->threads[thread].moved_ns;
	uint32_t moved = 0, woken = 0;

	/* Edges do not show all moves. */
	if (known_ns && known_ns <= at_ns)
		moved = (uint32_t)FGT_ARRAY_BISECT(
			i, slice->tick_count, slice->tick_ns[i] < known_ns);
	if (edge && edges[edge - 1].thread == thread &&
	    edges[edge - 1].tick > moved)
		moved = edges[edge - 1].tick;
	if (wake && wakes[wake - 1].thread == thread)
		woken = (uint32_t)FGT_ARRAY_BISECT(
			i, slice->tick_count,
			slice->tick_ns[i] < wakes[wake - 1].at_ns);
	return moved > woken ? moved : woken;
}

/* The first tick at which a wait that has a time may have begun: a thread that
 * waits again at once looks as if it had never moved. */
static uint32_t timed_tick(const struct fgt_moment *moment, uint32_t run)
{
	const struct fgt_ring_slice *slice = moment->slice;
	uint32_t wait = slice->runs[run].wait;
	uint64_t most_ns = wait ? slice->waits[wait - 1].timeout_ns : 0;

	if (!most_ns)
		return 0;
	/* It is rounded, and who is woken may wait for a CPU. */
	most_ns += most_ns / TIMEOUT_SLACK_PART + slice->period_ns;
	return (uint32_t)FGT_ARRAY_BISECT(
		i, moment->tick,
		slice->tick_ns[moment->tick] - slice->tick_ns[i] > most_ns);
}

static uint32_t since_tick(const struct fgt_moment *moment, uint32_t run,
			   bool *ret_is_repeated)
{
	const struct fgt_ring_slice *slice = moment->slice;
	const struct fgt_run *at = &slice->runs[run];
	uint32_t since = fgt_moment_moved_tick(slice, at->thread, moment->tick);
	uint32_t timed = timed_tick(moment, run);

	while (at > slice->runs && fgt_moment_goes_on(slice, at - 1))
		at--;
	if (at->first_tick > since)
		since = at->first_tick;
	*ret_is_repeated = timed > since;
	return timed > since ? timed : since;
}

/* Behind the last tick that has threads: those of a process that has ended have
 * none at the last ones. */
static uint32_t end_of_threads(const struct fgt_ring_slice *slice)
{
	uint32_t end = 0;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		uint32_t own =
			slice->runs[i].first_tick + slice->runs[i].tick_count;

		if (own > end)
			end = own;
	}
	return end;
}

/* A process that is killed loses its threads one after another, and then the
 * stacks of those that are left: now is before the first of them ended. The end
 * of that tick. */
static uint32_t end_of_life(const struct fgt_ring_slice *slice)
{
	uint32_t end = end_of_threads(slice), first = end, last = 0;
	uint64_t dying_ns = end ? slice->tick_ns[end - 1] : 0;

	dying_ns -= dying_ns < DYING_NS ? dying_ns : DYING_NS;
	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];

		if (run->stack != FGT_NODE_NONE)
			last = run->first_tick + run->tick_count;
		if (i + 1 < slice->run_count && run[1].thread == run->thread)
			continue;
		if (last && last < first &&
		    slice->tick_ns[last - 1] >= dying_ns)
			first = last;
		last = 0;
	}
	return first;
}

/* Of several processes one has been asked before the others, and one has not had
 * its last tick yet: the last tick that all of them have, but those that ended
 * before. */
static uint32_t end_of_all(const struct fgt_ring_slice *slice)
{
	FGT_AUTO(free) void *memory = NULL;
	uint32_t *ends, end = end_of_threads(slice), first = end;

	if (!end || !FGT_ARRAY_NEW(ends, slice->process_count))
		return end;
	memory = ends;
	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		uint32_t *of = &ends[slice->threads[run->thread].process];

		if (*of < run->first_tick + run->tick_count)
			*of = run->first_tick + run->tick_count;
	}
	for (uint32_t i = 0; i < slice->process_count; i++)
		if (ends[i] && ends[i] < first &&
		    slice->tick_ns[end - 1] - slice->tick_ns[ends[i] - 1] <
			    LATE_NS)
			first = ends[i];
	return first;
}

uint32_t fgt_moment_end(const struct fgt_ring_slice *slice, bool has_ended)
{
	if (slice->process_count > 1)
		return end_of_all(slice);
	return has_ended ? end_of_life(slice) : end_of_threads(slice);
}

/* What was before the tick is needed by since_tick() only. */
static int find_runs(struct fgt_moment *moment)
{
	const struct fgt_ring_slice *slice = moment->slice;
	uint32_t tick = moment->tick;

	if (!FGT_ARRAY_NEW(moment->runs, slice->thread_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->thread_count; i++)
		moment->runs[i] = FGT_ID_NONE;
	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];

		if (run->first_tick <= tick &&
		    tick - run->first_tick < run->tick_count)
			moment->runs[run->thread] = i;
	}
	return 0;
}

static uint32_t list_present(const struct fgt_moment *moment, int32_t tid,
			     const bool *shown, struct present *present)
{
	const struct fgt_ring_slice *slice = moment->slice;
	uint32_t count = 0;

	for (uint32_t i = 0; i < slice->thread_count; i++) {
		uint32_t run = moment->runs[i];

		if (run == FGT_ID_NONE || (shown && !shown[run]) ||
		    (tid && slice->threads[i].tid != tid))
			continue;
		present[count++] = (struct present){
			.thread = i,
			.run = run,
			.stack = slice->runs[run].stack,
			.state = slice->runs[run].state,
			.wait = slice->runs[run].wait,
			.reason =
				slice->runs[run].wait
					? &slice->waits[slice->runs[run].wait -
							1]
					: NULL,
		};
	}
	return count;
}

static uint32_t first_tick_of(const struct fgt_moment *moment, uint32_t thread)
{
	return moment->slice->process_count
		       ? moment->first_ticks[moment->slice->threads[thread]
						     .process]
		       : 0;
}

/* Of each process: from a file, of its first sample. */
static int find_first_ticks(struct fgt_moment *moment)
{
	const struct fgt_ring_slice *slice = moment->slice;

	if (!FGT_ARRAY_NEW(moment->first_ticks, slice->process_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->process_count; i++)
		moment->first_ticks[i] = UINT32_MAX;
	for (uint32_t i = 0; i < slice->run_count && slice->process_count;
	     i++) {
		const struct fgt_run *run = &slice->runs[i];
		uint32_t *first =
			&moment->first_ticks[slice->threads[run->thread]
						     .process];

		if (run->first_tick < *first)
			*first = run->first_tick;
	}
	for (uint32_t i = 0; i < slice->process_count; i++) {
		uint64_t from_ns = slice->processes[i].from_ns;

		if (from_ns)
			moment->first_ticks[i] = (uint32_t)FGT_ARRAY_BISECT(
				at, slice->tick_count,
				slice->tick_ns[at] < from_ns);
	}
	return 0;
}

static void make_groups(struct fgt_moment *moment, struct present *present,
			uint32_t count)
{
	struct fgt_moment_group *group = NULL;

	FGT_ARRAY_SORT(present, count, by_doing);
	for (uint32_t i = 0; i < count; i++)
		present[i].leader =
			i && is_same_doing(&present[i - 1], &present[i])
				? present[i - 1].leader
				: present[i].thread;
	FGT_ARRAY_SORT(present, count, by_leader);
	for (uint32_t i = 0; i < count; i++) {
		bool is_repeated;
		uint32_t since =
			since_tick(moment, present[i].run, &is_repeated);
		bool is_known =
			since > first_tick_of(moment, present[i].thread) &&
			!is_repeated;

		if (!i || present[i].leader != present[i - 1].leader) {
			group = &moment->groups[moment->group_count++];
			*group = (struct fgt_moment_group){
				.run = present[i].run,
				.first = i,
				.first_tick = since,
				.is_begin_known = is_known,
				.is_repeated = is_repeated,
				.is_same_wait = true,
			};
		} else if (present[i].wait != present[i - 1].wait) {
			group->is_same_wait = false;
		}
		if (since < group->first_tick) {
			group->is_begin_known = is_known;
			group->is_repeated = is_repeated;
			group->first_tick = since;
		} else if (since == group->first_tick) {
			group->is_begin_known &= is_known;
			group->is_repeated &= is_repeated;
		}
		group->count++;
		moment->threads[i] = present[i].thread;
	}
	moment->thread_count = count;
}

int fgt_moment_new(const struct fgt_ring_slice *slice, uint64_t at_ns,
		   int32_t tid, const bool *shown,
		   struct fgt_moment **ret_moment)
{
	FGT_AUTO(fgt_moment_free) struct fgt_moment *moment = NULL;
	FGT_AUTO(free) void *memory = NULL;
	struct present *present;
	/* Of several processes each has its own end. */
	bool is_dead = *slice->ended_by != '\0' && !slice->process_count;
	uint32_t count, ticks;
	int r;

	ticks = at_ns == UINT64_MAX ? fgt_moment_end(slice, is_dead)
				    : (uint32_t)FGT_ARRAY_BISECT(
					      i, slice->tick_count,
					      slice->tick_ns[i] <= at_ns);
	if (!ticks)
		return -ENODATA;
	moment = calloc(1, sizeof(*moment));
	if (!moment || !FGT_ARRAY_NEW(present, slice->thread_count))
		return -ENOMEM;
	memory = present;
	moment->slice = slice;
	moment->tick = ticks - 1;
	r = find_runs(moment);
	if (r == 0)
		r = find_first_ticks(moment);
	if (r < 0)
		return r;
	if (!FGT_ARRAY_NEW(moment->groups, slice->thread_count) ||
	    !FGT_ARRAY_NEW(moment->threads, slice->thread_count))
		return -ENOMEM;
	count = list_present(moment, tid, shown, present);
	if (!count)
		return -ENODATA;
	make_groups(moment, present, count);
	r = fgt_moment_find_cycles(moment);
	if (r < 0)
		return r;
	*ret_moment = FGT_TAKE(moment);
	return 0;
}

void fgt_moment_free(struct fgt_moment *moment)
{
	if (!moment)
		return;
	free(moment->runs);
	free(moment->first_ticks);
	free(moment->groups);
	free(moment->threads);
	free(moment->cycle_runs);
	free(moment->cycle_ends);
	free(moment);
}
