/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of active threads. Runs in the sampler's thread.
 */
#include "agent/capture/look/look.h"

#include <stdlib.h>

#define US_NS 1000

bool fgt_look_thread_begin(struct fgt_thread_table *threads,
			   struct fgt_thread *thread)
{
	const struct fgt_thread_aside *aside =
		fgt_thread_store_find_aside(&threads->table, thread);
	const struct fgt_cpu_use *use = &thread->active->use;
	struct fgt_look_thread *thread_look = calloc(1, sizeof(*thread_look));

	if (!thread_look)
		return false;
	thread_look->account.seen = *use;
	thread_look->account.due_ns = (int64_t)thread->due_us * US_NS;
	if (aside)
		thread_look->account.wait_due_ns =
			(int64_t)aside->wait_due_us * US_NS;
	thread_look->sampled_wait_ns = use->wait_ns;
	thread_look->still_wait_ns = use->wait_ns;
	thread->active->look = thread_look;
	return true;
}

void fgt_look_thread_end(struct fgt_thread_table *threads,
			 struct fgt_thread *thread)
{
	struct fgt_thread_aside *aside =
		fgt_thread_store_find_aside(&threads->table, thread);
	struct fgt_look_thread *thread_look = FGT_TAKE(thread->active->look);

	thread->due_us = (int32_t)(thread_look->account.due_ns / US_NS);
	if (aside)
		aside->wait_due_us =
			(int32_t)(thread_look->account.wait_due_ns / US_NS);
	fgt_kept_stack_done(&thread_look->last_run);
	fgt_kept_stack_done(&thread_look->last_block);
	fgt_kept_stack_done(&thread_look->former_block);
	fgt_kept_stack_done(&thread_look->later);
	fgt_kept_stack_done(&thread_look->unshown);
	fgt_kept_stack_done(&thread_look->callers);
	free(thread_look->words.bytes);
	free(thread_look);
}

void fgt_look_thread_settle(struct fgt_thread *thread, uint32_t state)
{
	thread->is_shown_running = state == FGT_STATE_RUNNING ||
				   state == FGT_STATE_RUNNABLE;
	thread->is_new = thread->has_switched = false;
}

void fgt_look_thread_forget(struct fgt_thread *thread)
{
	struct fgt_look_thread *thread_look = thread->active->look;

	thread_look->pending_ticks = 0;
	thread_look->is_run_sampled = false;
	thread_look->block_state = 0;
	thread_look->unshown.count = 0;
}
