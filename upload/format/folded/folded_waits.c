/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What threads wait for: the stack of one that waits for a lock goes on, above
 * "--", with that of the thread that holds it, from its leaf to its root, and
 * with that thread's name, as graphs of wake-ups have them; that of any other
 * wait with the stack of the thread that woke it.
 */
#include <errno.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/pace.h"
#include "upload/format/folded/folded_tree.h"

/* ---- Holders ---------------------------------------------------------------- */

int fgt_folded_index_runs(struct folded *folded)
{
	const struct fgt_ring_slice *slice = folded->slice;
	uint32_t run = 0;

	if (!FGT_ARRAY_NEW(folded->thread_runs, slice->thread_count + 1))
		return -ENOMEM;
	for (uint32_t thread = 0; thread < slice->thread_count; thread++) {
		folded->thread_runs[thread] = run;
		while (run < slice->run_count &&
		       slice->runs[run].thread == thread)
			run++;
	}
	folded->thread_runs[slice->thread_count] = run;
	return 0;
}

/* The thread that holds what a run waits for; thread_count: none of which there
 * are samples. */
static uint32_t holder_of(const struct folded *folded,
			  const struct fgt_run *run)
{
	const struct fgt_ring_slice *slice = folded->slice;
	uint32_t holder = fgt_slice_find_thread(
		slice, run->wait ? slice->waits[run->wait - 1].owner_tid : 0);

	if (holder < slice->thread_count &&
	    folded->thread_runs[holder] == folded->thread_runs[holder + 1])
		return slice->thread_count;
	return holder;
}

/* Of a thread that ends the wait. */
struct other {
	uint32_t stack, state;
	const char *name;
};

/* From the waiting thread's leaf on. */
static int add_other(struct folded *folded, const struct other *other,
		     uint32_t *entry)
{
	int r = fgt_folded_step_to_text(folded, "--", entry);

	fgt_levels_expand(&folded->levels, other->stack, other->state);
	for (uint32_t i = 0; i < folded->levels.count && !r; i++)
		r = fgt_folded_step_to_level(folded, folded->levels.items[i],
					     entry);
	return r ? r : fgt_folded_step_to_text(folded, other->name, entry);
}

/* other: NULL if it is not known. */
static int add_ticks(struct folded *folded, const struct fgt_run *run,
		     const struct other *other, uint32_t first, uint32_t end)
{
	uint32_t entry;
	int r;

	if (first >= end)
		return 0;
	r = fgt_folded_add_stack(folded, run->stack, run->state, &entry);
	if (!r && other)
		r = add_other(folded, other, &entry);
	if (!r)
		folded->entry[entry].ticks +=
			fgt_pace_weight(folded->slice, first, end - first);
	return r;
}

/* What the holder did at the ticks of that run. */
static int add_held(struct folded *folded, const struct fgt_run *run,
		    uint32_t thread)
{
	const struct fgt_ring_slice *slice = folded->slice;
	uint32_t at = run->first_tick, end = at + run->tick_count;
	char buffer[FGT_LEVEL_NAME_MAX];
	struct other other = { .name = fgt_level_thread_name(
				       slice, &slice->threads[thread],
				       buffer) };
	int r = 0;

	for (uint32_t i = folded->thread_runs[thread];
	     i < folded->thread_runs[thread + 1] && at < end && !r; i++) {
		const struct fgt_run *holder = &slice->runs[i];
		uint32_t to = holder->first_tick + holder->tick_count;

		if (to <= at || holder->first_tick >= end)
			continue;
		r = add_ticks(folded, run, NULL, at, holder->first_tick);
		if (at < holder->first_tick)
			at = holder->first_tick;
		if (to > end)
			to = end;
		other.stack = holder->stack;
		other.state = holder->state;
		if (!r)
			r = add_ticks(folded, run, &other, at, to);
		at = to;
	}
	return r ? r : add_ticks(folded, run, NULL, at, end);
}

/* ---- Wakers ------------------------------------------------------------------ */

static int add_woken(struct folded *folded, const struct fgt_run *run)
{
	const struct fgt_ring_slice *slice = folded->slice;
	uint32_t plain = run->first_tick, end = plain + run->tick_count;
	uint32_t at = plain;
	int r = 0;

	while (at < end && !r) {
		uint32_t to = at + 1;
		const struct fgt_slice_wake *wake =
			fgt_wake_find(slice, run->thread, at, end, &to);
		const struct fgt_slice_waker *waker =
			wake ? &slice->wakers[wake->waker] : NULL;

		if (waker && waker->stack != FGT_NODE_NONE) {
			const struct other other = {
				.stack = waker->stack,
				.state = FGT_STATE_RUNNING,
				.name = fgt_slice_string(slice, waker->name),
			};

			r = add_ticks(folded, run, NULL, plain, at);
			if (!r)
				r = add_ticks(folded, run, &other, at, to);
			plain = to;
		}
		at = to;
	}
	return r ? r : add_ticks(folded, run, NULL, plain, end);
}

int fgt_folded_add_wait(struct folded *folded, const struct fgt_run *run,
			bool *ret_is_added)
{
	const struct fgt_ring_slice *slice = folded->slice;
	uint32_t holder = holder_of(folded, run);

	*ret_is_added = false;
	if (holder < slice->thread_count) {
		*ret_is_added = true;
		return add_held(folded, run, holder);
	}
	if (!fgt_state_is_blocked(run->state) || !slice->wake_count)
		return 0;
	*ret_is_added = true;
	return add_woken(folded, run);
}
