/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the wake-ups out of a thread's slot, each once, and the stacks of
 * wakers. Runs in the sampler's thread; reads only.
 */
#include "agent/capture/look/look_parts.h"

#include <stdatomic.h>

/*
 * The slot may be the shared one: only what is new is read. Meanwhile one of its
 * wake-ups may be changing, and more may come in the place of the oldest.
 */
void fgt_switch_seen_take_wakes(struct fgt_switch_seen *seen,
				const struct fgt_switch_slot *slot,
				uint64_t instant_ns,
				struct fgt_wake_list *ret_wakes)
{
	/* Acquire: those before are whole. */
	uint64_t count = __atomic_load_n(&slot->wakes, __ATOMIC_ACQUIRE);
	uint64_t next = seen->wakes;

	ret_wakes->count = ret_wakes->lost = 0;
	if (!seen->has_wakes || next > count) {
		seen->has_wakes = true;
		seen->wakes = count;
		return;
	}
	for (; next != count; next++) {
		struct fgt_switch_wake wake =
			slot->wake[next % FGT_SWITCH_WAKES];

		/* Acquire: the copy is taken before the number is read. */
		atomic_thread_fence(memory_order_acquire);
		if (__atomic_load_n(&slot->wakes, __ATOMIC_RELAXED) - next >=
		    FGT_SWITCH_WAKES)
			ret_wakes->lost++;
		else if (wake.ns > instant_ns)
			break;
		else
			ret_wakes->wakes[ret_wakes->count++] = wake;
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
