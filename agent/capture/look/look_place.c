/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places where a thread blocked, and the stacks that were read there: two, for
 * a thread that goes to and fro between two calls. Runs in the sampler's thread.
 */
#include "agent/capture/look/look_parts.h"

bool fgt_switch_place_is_same(const struct fgt_switch_off *a,
			      const struct fgt_switch_off *b)
{
	return a->pc == b->pc && a->sp == b->sp && a->fp == b->fp &&
	       a->call == b->call;
}

/* Two places that have one bit get markers that only one of them needs. */
static uint64_t bit_of(const struct fgt_switch_off *place)
{
	uint64_t mixed = place->pc * 31 + place->sp * 7 + place->fp +
			 (uint64_t)place->call;

	return 1ull << (mixed * 0x9e3779b97f4a7c15u >> 58);
}

void fgt_switch_place_note(struct fgt_thread_switches *switches,
			   const struct fgt_switch_off *place,
			   const struct fgt_kept_stack *last,
			   const struct fgt_frame *frames, size_t count,
			   uint64_t generation)
{
	if (fgt_switch_place_is_same(place, &switches->blocked_at) &&
	    fgt_kept_stack_differs(last, frames, count, generation))
		switches->shared_places |= bit_of(place);
	switches->blocked_at = *place;
}

bool fgt_switch_place_is_shared(const struct fgt_thread_switches *switches,
				const struct fgt_switch_off *place)
{
	return switches->shared_places & bit_of(place);
}

void fgt_switch_places_forget(struct fgt_thread_switches *switches)
{
	switches->shared_places = 0;
	switches->blocked_at = switches->former_at =
		(struct fgt_switch_off){ 0 };
}

void fgt_look_place_turn(struct fgt_look_thread *thread_look,
			 struct fgt_thread_switches *switches,
			 const struct fgt_switch_off *place)
{
	struct fgt_kept_stack stack = thread_look->last_block;
	struct fgt_switch_off at = switches->blocked_at;

	if (fgt_switch_place_is_same(place, &at))
		return;
	thread_look->last_block = thread_look->former_block;
	switches->blocked_at = switches->former_at;
	thread_look->former_block = stack;
	switches->former_at = at;
}

const struct fgt_kept_stack *
fgt_look_place_find(const struct fgt_look_thread *thread_look,
		    const struct fgt_thread_switches *switches,
		    const struct fgt_switch_off *place)
{
	if (fgt_switch_place_is_same(place, &switches->blocked_at))
		return &thread_look->last_block;
	return fgt_switch_place_is_same(place, &switches->former_at)
		       ? &thread_look->former_block
		       : NULL;
}
