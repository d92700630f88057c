/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the wake-ups out of a thread's slot, each once, and the stacks of
 * wakers. Runs in the sampler's thread; reads only.
 */
#include "agent/capture/look/look_parts.h"

/* One of the slot's may be changing. */
void fgt_switch_seen_take_wakes(struct fgt_switch_seen *seen,
				const struct fgt_switch_slot *slot,
				uint64_t instant_ns,
				struct fgt_wake_list *ret_wakes)
{
	uint64_t kept = FGT_SWITCH_WAKES - 1, next = seen->wakes;

	ret_wakes->count = ret_wakes->lost = 0;
	if (!seen->has_wakes || next > slot->wakes) {
		seen->has_wakes = true;
		seen->wakes = slot->wakes;
		return;
	}
	if (slot->wakes - next > kept) {
		ret_wakes->lost = (uint32_t)(slot->wakes - next - kept);
		next = slot->wakes - kept;
	}
	for (; next != slot->wakes; next++) {
		const struct fgt_switch_wake *wake =
			&slot->wake[next % FGT_SWITCH_WAKES];

		if (wake->ns > instant_ns)
			break;
		ret_wakes->wakes[ret_wakes->count++] = *wake;
	}
	seen->wakes = next;
}

/* It runs on, but what it did then has been copied. */
size_t fgt_look_waker(struct fgt_look *look, const struct fgt_tick *tick,
		      const struct fgt_switch_wake *wake)
{
	struct fgt_switch_stack stack;
	struct fgt_thread *thread;

	if (wake->stack == FGT_SWITCH_STACK_LOST)
		look->lost_waker_stacks++;
	if (wake->stack == FGT_SWITCH_STACK_NONE ||
	    wake->stack == FGT_SWITCH_STACK_LOST || !look->switches)
		return 0;
	thread = fgt_thread_table_find(&look->threads, (int32_t)wake->tid);
	if (!thread ||
	    !fgt_thread_table_activate(&look->threads, thread, tick->mono_ns) ||
	    !fgt_switches_read_stack(look->switches, wake->stack, &stack) ||
	    !stack.len)
		return 0;
	return fgt_look_stack_waker(look, tick, thread, &stack);
}
