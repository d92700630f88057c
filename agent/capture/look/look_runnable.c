/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at threads that want a CPU, or got one after the samples fell.
 * Runs in the sampler's thread; must not touch them.
 */
#include "agent/capture/look/look_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/capture/threads/procfs.h"

#define WAITED_MAX_TICKS 8u
#define WAIT_SHORT	 8 /* of a period: less than a scheduler slice */

uint32_t fgt_look_take_credit(struct fgt_look *look, struct fgt_thread *thread)
{
	uint32_t ticks = thread->active->look->pending_ticks;

	thread->active->look->pending_ticks = 0;
	look->credited_ticks += ticks;
	return ticks;
}

bool fgt_look_last_block(const struct fgt_look *look, struct fgt_thread *thread,
			 struct fgt_verdict *ret_verdict)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	const struct fgt_frame *frames;
	size_t count;

	frames = fgt_kept_stack_show(&thread_look->last_block,
				     look->stacks.generation, 0, &count);
	if (!frames || !thread->call_state)
		return false;
	*ret_verdict = fgt_verdict_stack(frames, count, thread->call_state);
	thread_look->pending_ticks = 0;
	fgt_look_thread_settle(thread, thread->call_state);
	return true;
}

/*
 * Has the thread waited for a CPU long enough, by the scheduler's count, to
 * pay for one more tick? A thread that the waking sampler put aside for a
 * moment looks like one that waits.
 */
static bool take_waited(struct fgt_look *look, const struct fgt_tick *tick,
			struct fgt_thread *thread)
{
	struct fgt_thread_aside *aside =
		fgt_thread_store_aside(&look->threads.table, thread);
	uint64_t wait_ns = thread->active->use.wait_ns;
	uint64_t waited_ns = wait_ns - aside->shown_wait_ns;

	if (waited_ns < tick->period_ns)
		return false;
	if (waited_ns > WAITED_MAX_TICKS * tick->period_ns)
		aside->shown_wait_ns =
			wait_ns - WAITED_MAX_TICKS * tick->period_ns;
	aside->shown_wait_ns += tick->period_ns;
	return true;
}

/* On the kernel stack of every system call: x86-64, aarch64. */
static const char *const call_entries[] = { "do_syscall_64", "entry_SYSCALL_64",
					    "el0_svc", "invoke_syscall", NULL };
/* On top of it when its work was interrupted rather than waiting. */
static const char *const interruptions[] = { "preempt_schedule", "cond_resched",
					     "irqentry_exit", NULL };

static bool has_any(const char *text, const char *const *names)
{
	while (*names && !strstr(text, *names))
		names++;
	return *names;
}

static int parse_stack(const char *text)
{
	if (!*text)
		return -ENODATA;
	return !has_any(text, call_entries) || has_any(text, interruptions);
}

/*
 * Looks at the kernel stack of a thread that is not on a CPU (needs
 * CAP_SYS_ADMIN): 1 it was interrupted in its own code or in the midst of a
 * system call's work, 0 it was woken and stands where it was blocked;
 * negative errno if that is not known. Costs about 10 µs.
 */
static int look_if_preempted(int task_fd, int32_t tid)
{
	char path[32], text[2048];
	int len;

	snprintf(path, sizeof(path), "%d/stack", tid);
	len = fgt_procfs_read(task_fd, path, text, sizeof(text));
	return len < 0 ? len : parse_stack(text);
}

/*
 * It ran at the last tick, and has been on a CPU since; now it is runnable, or
 * on one that it got after the samples fell. Most such threads were blocked in
 * between: of those that were put aside the scheduler knows a longer wait.
 */
static bool was_blocked(const struct fgt_look *look,
			const struct fgt_tick *tick,
			const struct fgt_thread *thread)
{
	const struct fgt_active_thread *active = thread->active;
	const struct fgt_look_thread *thread_look = active->look;
	uint64_t waited_ns = active->use.wait_ns - thread_look->sampled_wait_ns;

	return thread->has_run && thread_look->last_block.count &&
	       waited_ns < tick->period_ns / WAIT_SHORT &&
	       look_if_preempted(look->process.task_fd, thread->tid) <= 0;
}

/*
 * It ran, lost its CPU and may block again before a sample falls on it: it is
 * shown with the stack of its last sample until a new one shows where it was
 * runnable at these ticks. If it was only woken meanwhile, its state goes on; where that is not
 * known, a sample will show it.
 */
static struct fgt_verdict wait_for_sample(struct fgt_look *look,
					  const struct fgt_tick *tick,
					  struct fgt_thread *thread)
{
	struct fgt_verdict verdict = { .kind = FGT_VERDICT_AS_BEFORE };
	int rc;

	if (thread->is_shown_running && was_blocked(look, tick, thread)) {
		(void)fgt_look_last_block(look, thread, &verdict);
		return verdict;
	}
	if (!thread->is_shown_running) {
		rc = look_if_preempted(look->process.task_fd, thread->tid);
		/* Woken; or on a CPU by now, but not when samples fell. */
		if (rc == 0 || rc == -ENODATA ||
		    !take_waited(look, tick, thread))
			return verdict;
		if (rc > 0)
			verdict = fgt_look_kept(
				look, &thread->active->look->last_run,
				FGT_STATE_RUNNABLE, FGT_MARKER_NOT_SAMPLED);
	}
	thread->active->look->pending_ticks++;
	return verdict;
}

struct fgt_verdict fgt_look_runnable(struct fgt_look *look,
				     const struct fgt_tick *tick,
				     struct fgt_thread *thread)
{
	/* Has not run since: it was woken, and stands where it blocked. */
	if (!thread->is_shown_running && !thread->is_new &&
	    !thread->has_switched)
		return (struct fgt_verdict){ .kind = FGT_VERDICT_AS_BEFORE };
	return tick->has_cpu_events ? wait_for_sample(look, tick, thread)
				    : fgt_look_polled(look, tick, thread);
}
