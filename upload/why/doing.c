/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives numbers to what threads do. Pure.
 */
#include "upload/why/doing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/hash.h"
#include "upload/why/group.h"

/* Two numbers as one, which stands for the pair. */
static int pair(struct fgt_doings *doings, uint64_t left, uint64_t right,
		uint32_t *ret_id)
{
	return fgt_id_map_add(
		&doings->parts,
		fgt_hash_number(left * 0x9e3779b97f4a7c15u) ^ right, ret_id);
}

/* Ports and numbers of connections differ where the purpose does not. */
static uint64_t hash_text(const char *text)
{
	char pattern[FGT_GROUP_NAME_MAX];

	fgt_group_pattern(text, pattern);
	return fgt_hash_bytes(pattern, strlen(pattern));
}

static bool is_nameless(const struct fgt_ring_slice *slice,
			const struct fgt_doing *doing)
{
	const struct fgt_slice_wait *wait =
		doing->wait ? &slice->waits[doing->wait - 1] : NULL;

	return (doing->kind == FGT_WAIT_DESCRIPTOR ||
		doing->kind == FGT_WAIT_CHILD) &&
	       (!wait || (!wait->object && !wait->text));
}

/* What distinguishes one wait from another of that kind: a lock by its address,
 * a descriptor by what it is. */
static uint64_t hash_wait(const struct fgt_ring_slice *slice,
			  const struct fgt_slice_wait *wait)
{
	switch ((enum fgt_wait_kind)wait->kind) {
	case FGT_WAIT_MUTEX:
	case FGT_WAIT_RWLOCK:
	case FGT_WAIT_PI_LOCK:
		return wait->address;
	case FGT_WAIT_DESCRIPTOR:
		return wait->object
			       ? wait->object
			       : hash_text(fgt_slice_string(slice, wait->text));
	case FGT_WAIT_CHILD:
		return hash_text(fgt_slice_string(slice, wait->text));
	default:
		return 0;
	}
}

/* Waits of these kinds have no object, or one that serves many purposes. */
static bool has_vague_reason(uint32_t kind)
{
	return kind == FGT_WAIT_NOTIFICATION || kind == FGT_WAIT_EVENTS ||
	       kind == FGT_WAIT_SLEEP || kind == FGT_WAIT_SIGNAL ||
	       kind == FGT_WAIT_IPC || kind == FGT_WAIT_KERNEL ||
	       kind == FGT_WAIT_JOIN;
}

/* A doing without its number. */
static struct fgt_doing doing_of(const struct fgt_doings *doings,
				 const struct fgt_ring_slice *slice,
				 const struct fgt_run *run)
{
	struct fgt_doing doing = { .state = run->state,
				   .stack = run->stack,
				   .thread = run->thread };

	if (run->state != FGT_STATE_RUNNABLE)
		doing.place = fgt_place_of(doings->places, run->stack);
	if (!fgt_state_is_blocked(run->state))
		return doing;
	doing.wait = run->wait;
	if (run->wait)
		doing.kind = slice->waits[run->wait - 1].kind;
	if (doing.kind == FGT_WAIT_UNKNOWN)
		doing.kind = fgt_doing_kind_of_state(slice, run->state);
	if (has_vague_reason(doing.kind))
		memcpy(doing.callers, doing.place.callers,
		       sizeof(doing.callers));
	return doing;
}

/* A stack, state and wait of runs. */
struct distinct {
	struct fgt_doing doing;
	uint32_t id; /* of the doing */
};

/* Place, state and kind as a number, and more of it. */
static int number_kind(struct fgt_doings *doings, const struct fgt_doing *doing,
		       uint64_t more, uint64_t *ret_number)
{
	uint32_t place, what;
	int r = pair(doings,
		     ((uint64_t)doing->place.function << 32) |
			     doing->place.call,
		     1, &place);

	if (r == 0)
		r = pair(doings, ((uint64_t)doing->state << 32) | doing->kind,
			 more, &what);
	if (r == 0)
		*ret_number = ((uint64_t)place << 32) | what;
	return r;
}

/* All but the callers, as a number. */
static int number_alike(struct fgt_doings *doings,
			const struct fgt_ring_slice *slice,
			const struct fgt_doing *doing, uint64_t *ret_number)
{
	return number_kind(
		doings, doing,
		doing->wait ? hash_wait(slice, &slice->waits[doing->wait - 1])
			    : 0,
		ret_number);
}

/* What its descriptors are was looked up: a wait for events that lasted. */
static bool has_names(const struct fgt_ring_slice *slice,
		      const struct fgt_doing *doing)
{
	return doing->wait && doing->kind == FGT_WAIT_EVENTS &&
	       strchr(fgt_slice_string(slice,
				       slice->waits[doing->wait - 1].text),
		      '(');
}

static void take_wait(const struct fgt_doing *doing, struct fgt_doing *into)
{
	into->wait = doing->wait;
	into->thread = doing->thread;
}

static void merge_doing(const struct fgt_ring_slice *slice,
			const struct fgt_doing *doing, struct fgt_doing *into)
{
	const struct fgt_slice_wait *wait, *first;

	if (!doing->wait)
		return;
	if (!into->wait)
		take_wait(doing, into);
	wait = &slice->waits[doing->wait - 1];
	first = &slice->waits[into->wait - 1];
	into->has_other_times |= wait->timeout_ns != first->timeout_ns;
	if (first->owner_tid && wait->owner_tid)
		into->has_other_owners |= wait->owner_tid != first->owner_tid;
	else if (wait->owner_tid ||
		 (has_names(slice, doing) && !has_names(slice, into)))
		take_wait(doing, into);
}

static int number_doing(struct fgt_doings *doings,
			const struct fgt_ring_slice *slice,
			const struct fgt_doing *doing, uint32_t *ret_id)
{
	uint32_t callers = 0, id;
	uint64_t alike;
	int r = number_alike(doings, slice, doing, &alike);

	if (r == 0 && doing->callers[0])
		r = pair(doings,
			 ((uint64_t)doing->callers[0] << 32) |
				 doing->callers[1],
			 3, &callers);
	if (r == 0)
		r = fgt_id_map_add(&doings->map,
				   fgt_hash_number(alike) + callers, &id);
	if (r == 0 && id == doings->count)
		r = FGT_ARRAY_GROW(doings->doings, doings->count,
				   doings->capacity);
	if (r < 0)
		return r;
	if (id == doings->count)
		doings->doings[doings->count++] = *doing;
	else
		merge_doing(slice, doing, &doings->doings[id]);
	*ret_id = id;
	return 0;
}

/* Marks doings that only their callers distinguish. */
static int find_alike_ones(struct fgt_doings *doings,
			   const struct fgt_ring_slice *slice)
{
	FGT_AUTO(free) void *memory = NULL;
	uint64_t *keys;
	int r = 0;

	if (!FGT_ARRAY_NEW(keys, doings->count))
		return -ENOMEM;
	memory = keys;
	for (uint32_t i = 0; i < doings->count && r == 0; i++)
		r = number_alike(doings, slice, &doings->doings[i], &keys[i]);
	if (r == 0)
		r = fgt_id_map_tally(keys, doings->count);
	for (uint32_t i = 0; i < doings->count && r == 0; i++)
		doings->doings[i].shows_callers = keys[i] > 1;
	return r;
}

/* Gives a nameless one the first doing of its kind at its place. firsts: room
 * for each doing that there may be, by kind. */
static int number_nameless(struct fgt_doings *doings,
			   const struct fgt_ring_slice *slice,
			   struct fgt_id_map *kinds, uint32_t *firsts,
			   struct distinct *nameless)
{
	uint32_t known = kinds->count, kind = 0;
	uint64_t number;
	int r = number_kind(doings, &nameless->doing, 0, &number);

	if (r == 0)
		r = fgt_id_map_add(kinds, number, &kind);
	if (r == 0 && kind == known)
		r = number_doing(doings, slice, &nameless->doing,
				 &firsts[kind]);
	nameless->id = firsts[kind];
	return r;
}

static int list_kinds(struct fgt_doings *doings, struct fgt_id_map *kinds,
		      uint32_t *firsts)
{
	int r = 0;

	for (uint32_t i = 0; i < doings->count && r == 0; i++) {
		uint32_t known = kinds->count, kind;
		uint64_t number;

		r = number_kind(doings, &doings->doings[i], 0, &number);
		if (r == 0)
			r = fgt_id_map_add(kinds, number, &kind);
		if (r == 0 && kind == known)
			firsts[kind] = i;
	}
	return r;
}

/* Nameless ones come last: each goes to its like with a name, if there is one. */
static int number_kinds(struct fgt_doings *doings,
			const struct fgt_ring_slice *slice,
			struct distinct *distinct)
{
	uint32_t count = doings->stacks.count, *firsts;
	struct fgt_id_map kinds = { 0 };
	int r = 0;

	for (uint32_t i = 0; i < count && r == 0; i++)
		if (!is_nameless(slice, &distinct[i].doing))
			r = number_doing(doings, slice, &distinct[i].doing,
					 &distinct[i].id);
	if (r < 0)
		return r;
	if (!FGT_ARRAY_NEW(firsts, count))
		return -ENOMEM;
	r = list_kinds(doings, &kinds, firsts);
	for (uint32_t i = 0; i < count && r == 0; i++)
		if (is_nameless(slice, &distinct[i].doing))
			r = number_nameless(doings, slice, &kinds, firsts,
					    &distinct[i]);
	free(firsts);
	fgt_id_map_done(&kinds);
	return r < 0 ? r : find_alike_ones(doings, slice);
}

/* Many runs have the same stack, state and wait. */
static int number_runs(struct fgt_doings *doings,
		       const struct fgt_ring_slice *slice)
{
	struct distinct *distinct = NULL;
	uint32_t capacity = 0;
	int r = 0;

	for (uint32_t i = 0; i < slice->run_count && r == 0; i++) {
		const struct fgt_run *run = &slice->runs[i];
		uint32_t same, before = doings->stacks.count;

		r = pair(doings, ((uint64_t)run->stack << 32) | run->state,
			 ((uint64_t)run->wait << 2) | 2, &same);
		if (r == 0)
			r = fgt_id_map_add(&doings->stacks, same, &same);
		if (r == 0)
			r = FGT_ARRAY_GROW(distinct, same, capacity);
		if (r == 0 && same == before)
			distinct[same].doing = doing_of(doings, slice, run);
		doings->run_doings[i] = same;
	}
	if (r == 0)
		r = number_kinds(doings, slice, distinct);
	for (uint32_t i = 0; i < slice->run_count && r == 0; i++)
		doings->run_doings[i] = distinct[doings->run_doings[i]].id;
	free(distinct);
	return r;
}

static int number_groups(struct fgt_doings *doings,
			 const struct fgt_ring_slice *slice)
{
	struct fgt_id_map map = { 0 };
	int r = 0;

	for (uint32_t i = 0; i < slice->thread_count && r == 0; i++) {
		char pattern[FGT_GROUP_NAME_MAX];

		fgt_group_of_thread(slice, i, slice->process_count > 1,
				    pattern);
		r = fgt_id_map_add(&map,
				   fgt_hash_bytes(pattern, strlen(pattern)),
				   &doings->thread_groups[i]);
	}
	doings->group_count = map.count;
	fgt_id_map_done(&map);
	if (r == 0 && !FGT_ARRAY_NEW(doings->group_sizes, doings->group_count))
		r = -ENOMEM;
	for (uint32_t i = 0; i < slice->thread_count && r == 0; i++)
		doings->group_sizes[doings->thread_groups[i]]++;
	return r;
}

static void find_thread_runs(struct fgt_doings *doings,
			     const struct fgt_ring_slice *slice)
{
	uint32_t run = 0;

	for (uint32_t thread = 0; thread < slice->thread_count; thread++) {
		doings->thread_runs[thread] = run;
		while (run < slice->run_count &&
		       slice->runs[run].thread == thread)
			run++;
	}
	doings->thread_runs[slice->thread_count] = run;
}

/* A wait goes on in the next run, when its reason became known late. */
static void find_wait_lasts(struct fgt_doings *doings,
			    const struct fgt_ring_slice *slice)
{
	for (uint32_t i = slice->run_count; i-- > 0;) {
		const struct fgt_run *run = &slice->runs[i], *next = run + 1;
		bool goes_on = i + 1 < slice->run_count &&
			       next->thread == run->thread &&
			       next->first_tick ==
				       run->first_tick + run->tick_count &&
			       next->stack == run->stack &&
			       next->state == run->state &&
			       (!run->wait || next->wait == run->wait);

		doings->wait_lasts[i] = goes_on ? doings->wait_lasts[i + 1] : i;
	}
}

int fgt_doings_new(const struct fgt_ring_slice *slice,
		   struct fgt_doings **ret_doings)
{
	FGT_AUTO(fgt_doings_free) struct fgt_doings *doings = NULL;
	int r;

	doings = calloc(1, sizeof(*doings));
	if (!doings || !FGT_ARRAY_NEW(doings->run_doings, slice->run_count) ||
	    !FGT_ARRAY_NEW(doings->wait_lasts, slice->run_count) ||
	    !FGT_ARRAY_NEW(doings->thread_runs, slice->thread_count + 1) ||
	    !FGT_ARRAY_NEW(doings->thread_groups, slice->thread_count))
		return -ENOMEM;
	find_thread_runs(doings, slice);
	find_wait_lasts(doings, slice);
	r = fgt_places_new(slice, &doings->places);
	if (r == 0)
		r = number_groups(doings, slice);
	if (r == 0)
		r = number_runs(doings, slice);
	if (r < 0)
		return r;
	*ret_doings = FGT_TAKE(doings);
	return 0;
}

void fgt_doings_free(struct fgt_doings *doings)
{
	if (!doings)
		return;
	fgt_id_map_done(&doings->map);
	fgt_id_map_done(&doings->stacks);
	fgt_id_map_done(&doings->parts);
	free(doings->doings);
	free(doings->places);
	free(doings->run_doings);
	free(doings->wait_lasts);
	free(doings->thread_runs);
	free(doings->thread_groups);
	free(doings->group_sizes);
	free(doings);
}

/* May a run of that thread have waited for that, too? Processes have numbers and
 * addresses of their own, and threads sets of descriptors. */
static bool may_be_wait_of(const struct fgt_ring_slice *slice,
			   const struct fgt_doing *doing,
			   const struct fgt_run *run)
{
	const struct fgt_slice_thread *threads = slice->threads;
	const struct fgt_slice_wait *own =
		run->wait ? &slice->waits[run->wait - 1] : NULL;

	return threads[doing->thread].process == threads[run->thread].process &&
	       (!own || !doing->wait || own->kind != FGT_WAIT_EVENTS ||
		own->number == slice->waits[doing->wait - 1].number);
}

struct fgt_doing fgt_doings_of_run(const struct fgt_doings *doings,
				   const struct fgt_ring_slice *slice,
				   uint32_t run)
{
	struct fgt_doing doing = doings->doings[doings->run_doings[run]], own;

	own = doing;
	own.wait = slice->runs[run].wait;
	if (!may_be_wait_of(slice, &doing, &slice->runs[run]))
		return own;
	if (!own.wait || is_nameless(slice, &own) ||
	    (doing.wait && slice->waits[doing.wait - 1].owner_tid &&
	     !slice->waits[own.wait - 1].owner_tid) ||
	    (has_names(slice, &doing) && !has_names(slice, &own)))
		return doing;
	return own;
}

uint32_t fgt_doings_run_at(const struct fgt_doings *doings,
			   const struct fgt_ring_slice *slice, uint32_t thread,
			   uint32_t tick)
{
	const struct fgt_run *runs = &slice->runs[doings->thread_runs[thread]];
	size_t count =
		doings->thread_runs[thread + 1] - doings->thread_runs[thread];
	size_t at = FGT_ARRAY_BISECT(i, count, runs[i].first_tick <= tick);

	if (!at || tick - runs[at - 1].first_tick >= runs[at - 1].tick_count)
		return FGT_ID_NONE;
	return doings->thread_runs[thread] + (uint32_t)(at - 1);
}
