/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait for each other at one tick. Pure; must end for the threads
 * of hostile files, too.
 */
#include <errno.h>
#include <stdlib.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/id_map.h"
#include "upload/why/moment.h"

/* For each thread its run at the tick, or that of the next one with its number,
 * which several may have used. */
static void find_present(const struct fgt_moment *moment, uint32_t *present)
{
	const struct fgt_ring_slice *slice = moment->slice;

	for (uint32_t i = slice->thread_count; i-- > 0;) {
		present[i] = moment->runs[i];
		if (present[i] == FGT_ID_NONE && i + 1 < slice->thread_count &&
		    slice->threads[i].tid == slice->threads[i + 1].tid)
			present[i] = present[i + 1];
	}
}

/* NULL: it is not there, or the reason is not known. */
static const struct fgt_slice_wait *wait_of(const struct fgt_moment *moment,
					    uint32_t thread)
{
	const struct fgt_ring_slice *slice = moment->slice;
	uint32_t run = moment->runs[thread];
	uint32_t wait = run == FGT_ID_NONE ? 0 : slice->runs[run].wait;

	return wait ? &slice->waits[wait - 1] : NULL;
}

/* The thread that holds the lock that a thread waits for. */
static uint32_t holder_of(const struct fgt_moment *moment,
			  const uint32_t *present, uint32_t thread)
{
	const struct fgt_ring_slice *slice = moment->slice;
	const struct fgt_slice_wait *wait = wait_of(moment, thread);
	int32_t tid = wait ? wait->owner_tid : 0;
	uint32_t at;

	if (!tid)
		return FGT_ID_NONE;
	at = fgt_slice_find_thread(slice, tid);
	if (at >= slice->thread_count || slice->threads[at].tid != tid ||
	    present[at] == FGT_ID_NONE)
		return FGT_ID_NONE;
	return slice->runs[present[at]].thread;
}

/* A lock that the kernel has refused would have closed a cycle of such locks: one
 * of the threads that wait for this one, directly or by way of others, has it.
 * Which one is not known: the first of those, as far as there is one way to it. */
static void close_refused(const struct fgt_moment *moment, uint32_t *holders,
			  uint32_t *waiters, uint32_t *counts)
{
	uint32_t count = moment->slice->thread_count;

	for (uint32_t i = 0; i < count; i++)
		/* The kernel follows no others. */
		if (holders[i] != FGT_ID_NONE &&
		    wait_of(moment, i)->kind == FGT_WAIT_PI_LOCK &&
		    !counts[holders[i]]++)
			waiters[holders[i]] = i;
	for (uint32_t i = 0; i < count; i++) {
		const struct fgt_slice_wait *wait = wait_of(moment, i);
		uint32_t at = i;

		if (!wait || !fgt_wait_is_refused(wait) || !counts[i])
			continue;
		do
			at = waiters[at];
		while (counts[at] == 1);
		holders[i] = at;
	}
}

/* From a thread on, up to what has been visited. The first thread of the cycle
 * that this closes; FGT_ID_NONE: none. */
static uint32_t visit(uint32_t from, const uint32_t *holders, uint32_t *visits)
{
	uint32_t thread = from, first, number = from + 1;

	while (thread != FGT_ID_NONE && !visits[thread]) {
		visits[thread] = number;
		thread = holders[thread];
	}
	if (thread == FGT_ID_NONE || visits[thread] != number)
		return FGT_ID_NONE;
	first = thread;
	for (uint32_t at = holders[thread]; at != thread; at = holders[at])
		if (at < first)
			first = at;
	return first;
}

static void add_cycle(struct fgt_moment *moment, uint32_t first,
		      const uint32_t *holders, uint32_t *used)
{
	uint32_t thread = first;

	do {
		moment->cycle_runs[(*used)++] = moment->runs[thread];
		thread = holders[thread];
	} while (thread != first);
	moment->cycle_ends[moment->cycle_count++] = *used;
}

/* Of all threads, also of those that are not shown; ordered by their first
 * threads. Each thread is visited once: those of a hostile file may all wait for
 * each other. */
int fgt_moment_find_cycles(struct fgt_moment *moment)
{
	FGT_AUTO(free) void *memory = NULL;
	uint32_t count = moment->slice->thread_count, used = 0;
	uint32_t *present, *holders, *visits, *is_first;

	if (!FGT_ARRAY_NEW(moment->cycle_runs, count) ||
	    !FGT_ARRAY_NEW(moment->cycle_ends, count))
		return -ENOMEM;
	memory = present = calloc(count, 6 * sizeof(*present));
	if (!memory)
		return -ENOMEM;
	holders = present + count;
	visits = holders + count;
	is_first = visits + count;
	find_present(moment, present);
	for (uint32_t i = 0; i < count; i++)
		holders[i] = holder_of(moment, present, i);
	close_refused(moment, holders, is_first + count, is_first + 2 * count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t first = visits[i] ? FGT_ID_NONE
					   : visit(i, holders, visits);

		if (first != FGT_ID_NONE)
			is_first[first] = true;
	}
	for (uint32_t i = 0; i < count; i++)
		if (is_first[i])
			add_cycle(moment, i, holders, &used);
	return 0;
}
