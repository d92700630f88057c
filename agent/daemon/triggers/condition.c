/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decisions of triggers. Any thread; must not read a clock, a process or a
 * ring: all of it is passed in.
 */
#include "agent/daemon/triggers/condition.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/capture/look/state_name.h"
#include "ringbuf/base/owner.h"
#include "upload/why/moment.h"

#define HOUR_NS (UINT64_C(3600) * 1000000000)

/* ---- How often ----------------------------------------------------------- */

static uint64_t fired_before(const struct fgt_trigger_limit *limit,
			     uint64_t times)
{
	return limit
		->fired_ns[(limit->count - times) % FGT_TRIGGER_PER_HOUR_MAX];
}

uint64_t fgt_trigger_limit_next(const struct fgt_trigger_limit *limit,
				const struct fgt_trigger_pace *pace)
{
	uint64_t next_ns = 0;

	if (limit->count > 0)
		next_ns = fired_before(limit, 1) + pace->min_gap_ns;
	if (limit->count >= pace->max_per_hour) {
		uint64_t hour_ns =
			fired_before(limit, pace->max_per_hour) + HOUR_NS;

		if (hour_ns > next_ns)
			next_ns = hour_ns;
	}
	return next_ns;
}

void fgt_trigger_limit_note(struct fgt_trigger_limit *limit, uint64_t now_ns)
{
	limit->fired_ns[limit->count++ % FGT_TRIGGER_PER_HOUR_MAX] = now_ns;
}

/* ---- The CPU time of a process ------------------------------------------- */

/* The oldest point goes while the next one is old enough, too. */
static void drop_old(struct fgt_trigger_cpu *cpu, uint64_t now_ns,
		     uint64_t for_ns)
{
	size_t old = 0;

	while (old + 1 < cpu->count &&
	       now_ns - cpu->points[old + 1].at_ns >= for_ns)
		old++;
	cpu->count -= old;
	memmove(cpu->points, cpu->points + old,
		cpu->count * sizeof(cpu->points[0]));
}

void fgt_trigger_cpu_add(struct fgt_trigger_cpu *cpu, uint64_t now_ns,
			 uint64_t cpu_ns, uint64_t for_ns)
{
	size_t last = cpu->count - 1;

	if (cpu->count == 0 || cpu_ns < cpu->points[last].cpu_ns) {
		*cpu = (struct fgt_trigger_cpu){
			.points = { { now_ns, cpu_ns } },
			.count = 1,
			.rests_since_ns = now_ns,
		};
		return;
	}
	if (cpu_ns != cpu->points[last].cpu_ns)
		cpu->rests_since_ns = now_ns;
	drop_old(cpu, now_ns, for_ns);
	last = cpu->count - 1;
	/* The newest point moves until it is far enough from the one before:
	 * so few points are enough for any time. */
	if (cpu->count < FGT_TRIGGER_POINTS &&
	    (last == 0 ||
	     cpu->points[last].at_ns - cpu->points[last - 1].at_ns >=
		     for_ns / (FGT_TRIGGER_POINTS - 2)))
		last = cpu->count++;
	cpu->points[last].at_ns = now_ns;
	cpu->points[last].cpu_ns = cpu_ns;
}

bool fgt_trigger_cpu_percent(const struct fgt_trigger_cpu *cpu, uint64_t for_ns,
			     double *ret_percent)
{
	size_t last = cpu->count - 1;
	uint64_t ns, cpu_ns;

	if (cpu->count < 2)
		return false;
	ns = cpu->points[last].at_ns - cpu->points[0].at_ns;
	cpu_ns = cpu->points[last].cpu_ns - cpu->points[0].cpu_ns;
	if (ns == 0 || ns < for_ns)
		return false;
	*ret_percent = 100.0 * (double)cpu_ns / (double)ns;
	return true;
}

/* ---- A thread in a state ------------------------------------------------- */

struct state_search {
	const struct fgt_ring_slice *slice;
	const struct fgt_trigger_state *wanted;
	struct fgt_trigger_stretch *longest;
	uint64_t longest_ns;
	uint32_t edge; /* the next one that was not looked at */
	/* The stretch that goes on. */
	uint32_t thread, end_tick;
	uint64_t from_ns;
};

static bool is_wanted(const struct state_search *search,
		      const struct fgt_run *run)
{
	const struct fgt_ring_slice *slice = search->slice;
	const char *thread =
		fgt_slice_string(slice, slice->threads[run->thread].name);

	return fnmatch(search->wanted->state,
		       fgt_slice_state_name(slice, run->state), 0) == 0 &&
	       (!search->wanted->thread ||
		fnmatch(search->wanted->thread, thread, 0) == 0);
}

static void take_stretch(struct state_search *search, const struct fgt_run *run,
			 uint64_t to_ns)
{
	const struct fgt_ring_slice *slice = search->slice;
	const struct fgt_slice_thread *thread = &slice->threads[run->thread];
	struct fgt_trigger_stretch *longest = search->longest;

	if (to_ns <= search->from_ns ||
	    to_ns - search->from_ns <= search->longest_ns)
		return;
	search->longest_ns = to_ns - search->from_ns;
	longest->from_ns = search->from_ns;
	longest->to_ns = to_ns;
	longest->tid = thread->tid;
	snprintf(longest->thread, sizeof(longest->thread), "%s",
		 fgt_slice_string(slice, thread->name));
	snprintf(longest->state, sizeof(longest->state), "%s",
		 fgt_slice_state_name(slice, run->state));
}

/* A thread that got a CPU and blocked again between two ticks of one state
 * begins a new stretch. */
static void break_at_edges(struct state_search *search,
			   const struct fgt_run *run)
{
	const struct fgt_ring_slice *slice = search->slice;
	uint32_t end = run->first_tick + run->tick_count;

	for (; search->edge < slice->edge_count; search->edge++) {
		const struct fgt_edge *edge = &slice->edges[search->edge];
		uint64_t at_ns;

		if (edge->thread > run->thread ||
		    (edge->thread == run->thread && edge->tick >= end))
			return;
		if (edge->thread < run->thread ||
		    edge->tick < run->first_tick || edge->on_us == 0)
			continue;
		at_ns = slice->tick_ns[edge->tick] -
			(uint64_t)edge->on_us * 1000;
		take_stretch(search, run, at_ns);
		search->from_ns = slice->tick_ns[edge->tick];
	}
}

bool fgt_trigger_find_state(const struct fgt_ring_slice *slice,
			    const struct fgt_trigger_state *wanted,
			    struct fgt_trigger_stretch *ret_stretch)
{
	struct fgt_trigger_stretch longest = { .tid = 0 };
	struct state_search search = { .slice = slice,
				       .wanted = wanted,
				       .longest = &longest,
				       .thread = UINT32_MAX };

	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		uint32_t end = run->first_tick + run->tick_count;
		bool goes_on = search.thread == run->thread &&
			       search.end_tick == run->first_tick;

		if (!is_wanted(&search, run)) {
			search.thread = UINT32_MAX;
			continue;
		}
		if (!goes_on)
			search.from_ns = slice->tick_ns[run->first_tick];
		search.thread = run->thread;
		search.end_tick = end;
		if (fgt_state_is_blocked(run->state))
			break_at_edges(&search, run);
		take_stretch(&search, run, slice->tick_ns[end - 1]);
	}
	if (search.longest_ns == 0 || search.longest_ns < wanted->longer_ns)
		return false;
	*ret_stretch = longest;
	return true;
}

/* ---- No thread of the process ran ------------------------------------------ */

enum tick_use {
	TICK_RUNNABLE = 1,
	TICK_RAN = 2,
};

/* What all threads did at each tick, as bits of tick_use. NULL without
 * memory. */
static uint8_t *use_of_ticks(const struct fgt_ring_slice *slice)
{
	uint8_t *use = calloc(slice->tick_count, sizeof(*use));

	for (uint32_t i = 0; use && i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		uint8_t bit = run->state == FGT_STATE_RUNNING	 ? TICK_RAN
			      : run->state == FGT_STATE_RUNNABLE ? TICK_RUNNABLE
								 : 0;

		for (uint32_t k = 0; bit && k < run->tick_count; k++)
			use[run->first_tick + k] |= bit;
	}
	return use;
}

bool fgt_trigger_find_starved(const struct fgt_ring_slice *slice,
			      uint64_t longer_ns,
			      struct fgt_trigger_stretch *ret_stretch)
{
	FGT_AUTO(free) void *memory = use_of_ticks(slice);
	const uint8_t *use = memory;
	uint64_t longest_ns = 0;
	uint32_t first = 0;

	for (uint32_t i = 0; use && i < slice->tick_count; i++) {
		uint64_t ns;

		if (use[i] != TICK_RUNNABLE) {
			first = i + 1;
			continue;
		}
		ns = slice->tick_ns[i] - slice->tick_ns[first];
		if (ns <= longest_ns || ns < longer_ns)
			continue;
		longest_ns = ns;
		*ret_stretch = (struct fgt_trigger_stretch){
			.from_ns = slice->tick_ns[first],
			.to_ns = slice->tick_ns[i],
		};
	}
	return longest_ns > 0;
}

/* ---- Threads that wait for each other -------------------------------------- */

/* The first thread of the first cycle at that time, as NULL for none. */
static const struct fgt_slice_thread *
find_cycle(const struct fgt_ring_slice *slice, uint64_t at_ns,
	   struct fgt_moment **ret_moment)
{
	const struct fgt_moment *moment;

	*ret_moment = NULL;
	if (fgt_moment_new(slice, at_ns, 0, NULL, ret_moment) < 0)
		return NULL;
	moment = *ret_moment;
	return moment->cycle_count
		       ? &slice->threads[slice->runs[moment->cycle_runs[0]]
						 .thread]
		       : NULL;
}

static void name_cycle(const struct fgt_moment *moment, char *ret_text,
		       size_t size)
{
	const struct fgt_ring_slice *slice = moment->slice;
	uint32_t count = moment->cycle_ends[0];
	size_t used = 0;

	for (uint32_t i = 0; i < count && used < size; i++) {
		const struct fgt_slice_thread *thread =
			&slice->threads[slice->runs[moment->cycle_runs[i]]
						.thread];
		const char *before = i == 0	     ? ""
				     : i + 1 < count ? ", "
						     : " and ";

		used += (size_t)snprintf(
			ret_text + used, size - used, "%s%s (tid %d)", before,
			fgt_slice_string(slice, thread->name), thread->tid);
	}
}

bool fgt_trigger_find_deadlock(const struct fgt_ring_slice *slice,
			       int32_t *ret_tid, char *ret_text, size_t size)
{
	FGT_AUTO(fgt_moment_free) struct fgt_moment *first = NULL;
	FGT_AUTO(fgt_moment_free) struct fgt_moment *last = NULL;
	const struct fgt_slice_thread *thread;

	/* A lock that is handed over may be seen with two holders. */
	thread = find_cycle(slice, UINT64_MAX, &last);
	if (!thread || find_cycle(slice, slice->tick_ns[0], &first) != thread)
		return false;
	*ret_tid = thread->tid;
	name_cycle(last, ret_text, size);
	return true;
}

bool fgt_trigger_is_busy(const struct fgt_ring_slice *slice, uint64_t from_ns)
{
	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		uint32_t last = run->first_tick + run->tick_count - 1;

		if ((run->state == FGT_STATE_RUNNING ||
		     run->state == FGT_STATE_RUNNABLE) &&
		    slice->tick_ns[last] >= from_ns)
			return true;
	}
	return false;
}
