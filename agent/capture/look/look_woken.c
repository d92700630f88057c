/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that were woken and wait for a CPU, where no perf event of every CPU
 * shows which threads are on one: procfs calls them running, but they stand
 * where they blocked. Runs in the sampler's thread; must not touch them.
 *
 * A thread that runs calls functions, and so overwrites the return addresses
 * below its former stack pointer. If the stack is still the same there, the
 * scheduler's counts decide, in a file that costs as much to read as ten
 * stacks: how often the thread was put on a CPU, gave it up by itself, and lost
 * it. One that has no CPU, and has given one up since, is in its block.
 */
#include "agent/capture/look/look_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/capture/threads/procfs.h"

#define BUSY_PART 32u /* off a CPU for less: it did not wait */

static int read_number(const char *text, const char *name, uint64_t *ret_value)
{
	const char *at = strstr(text, name);

	if (!at)
		return -EBADMSG;
	*ret_value = strtoull(at + strlen(name), NULL, 10);
	return 0;
}

int fgt_switch_counts_read(const struct fgt_look *look,
			   const struct fgt_thread *thread,
			   struct fgt_switch_counts *counts)
{
	char path[32], text[4096];
	int rc;

	snprintf(path, sizeof(path), "%d/status", thread->tid);
	rc = fgt_procfs_read(look->process.task_fd, path, text, sizeof(text));
	if (rc < 0)
		return rc;
	rc = read_number(text, "\nvoluntary_ctxt_switches:", &counts->blocked);
	return rc < 0 ? rc
		      : read_number(text, "\nnonvoluntary_ctxt_switches:",
				    &counts->lost);
}

bool fgt_standing_take(struct fgt_standing *standing,
		       const struct fgt_switch_counts *now)
{
	const struct fgt_switch_counts *before = &standing->counts;
	int64_t ahead = (int64_t)(now->gained - now->blocked - now->lost);

	/* Where both have grown, its stack has to decide. */
	if (now->blocked != before->blocked)
		standing->is_woken = true;
	else if (now->lost != before->lost ||
		 now->runtime_ns != before->runtime_ns)
		standing->is_woken = false;
	/* The kernel leaves out a gain once in some thousand: the thread looks
	 * as if it had no CPU then, until its time grows. */
	if (ahead < standing->ahead)
		standing->ahead = ahead;
	standing->is_woken &= ahead == standing->ahead;
	standing->counts = *now;
	return standing->is_woken;
}

static bool is_busy(const struct fgt_look *look,
		    const struct fgt_look_thread *thread_look)
{
	return look->elapsed_ns &&
	       thread_look->used_ns >=
		       look->elapsed_ns - look->elapsed_ns / BUSY_PART;
}

/*
 * Does it stand there, now that its stack looks so? It has no CPU if its CPU
 * clock stands still, where that is exact, or if it has lost as many CPUs as it
 * got.
 */
static bool is_standing(const struct fgt_look *look, struct fgt_thread *thread)
{
	const bool is_exact = look->who_ran->is_exact;
	struct fgt_switch_counts counts;

	if ((is_exact &&
	     look->who_ran->look(look->who_ran_state, thread) != 0) ||
	    fgt_switch_counts_read(look, thread, &counts) < 0 ||
	    look->who_ran->look(look->who_ran_state, thread) != 0)
		return false;
	counts.gained = is_exact ? counts.blocked + counts.lost
				 : thread->active->use.switches;
	counts.runtime_ns = thread->active->use.runtime_ns;
	return fgt_standing_take(&thread->active->look->standing, &counts);
}

/* Its last block, if the frames there are still the same; to be shown only if
 * the thread has not moved meanwhile. 0: they are not. */
static size_t unwind_again(struct fgt_look *look, const struct fgt_tick *tick,
			   struct fgt_thread *thread)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	const struct fgt_frame *kept;
	struct fgt_snapshot snapshot;
	size_t count;

	kept = fgt_kept_stack_show(&thread_look->last_block,
				   look->stacks.generation, 0, &count);
	if (!kept || !thread_look->block_sp || !thread_look->block_state ||
	    fgt_look_stack_begin(look, tick, thread, thread_look->block_sp,
				 thread_look->block_pc, &snapshot) < 0)
		return 0;
	snapshot.is_blocked = thread_look->block_state != FGT_STATE_PAGE_FAULT;
	return fgt_look_stack_again(look, tick, thread, &snapshot, kept, count)
		       ? count
		       : 0;
}

bool fgt_look_woken(struct fgt_look *look, const struct fgt_tick *tick,
		    struct fgt_thread *thread, struct fgt_verdict *ret_verdict)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	uint32_t state = FGT_STATE_RUNNABLE;
	size_t count;

	thread_look->keeps_block = true;
	if (is_busy(look, thread_look))
		return false;
	count = unwind_again(look, tick, thread);
	if (!count || !is_standing(look, thread))
		return false;
	if (!fgt_account_take_woken(&thread_look->account, tick->period_ns)) {
		/* Woken with the sampler, again and again: it ran instead. */
		if (thread_look->account.due_ns > 0)
			return false;
		state = thread_look->block_state;
	}
	*ret_verdict = fgt_verdict_stack(tick->frames, count, state);
	look->samples_blocked++;
	fgt_look_late_sample(look, tick, thread, ret_verdict);
	thread_look->pending_ticks = 0;
	/* While it waits on, look_waited.c counts the ticks. */
	fgt_look_thread_settle(thread, thread_look->block_state);
	return true;
}
