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
#include "ringbuf/base/clock.h"

#define WAITED_MAX_TICKS 8u
#define WAIT_SHORT	 8 /* of a period: less than a scheduler slice */
#define WAIT_DEBT_TICKS	 3u /* by chance, ticks fall into waits */
#define LOST_TICKS	 100u /* for so many, its blocks are counted */
#define LEFT_PART	 4 /* of a period: a sample is good for so long */
#define VARIED_TICKS	 1000u /* so long two stacks of blocks are remembered */

uint32_t fgt_look_take_credit(struct fgt_look *look, struct fgt_thread *thread)
{
	uint32_t ticks = thread->active->look->pending_ticks;

	thread->active->look->pending_ticks = 0;
	look->credited_ticks += ticks;
	return ticks;
}

void fgt_look_note_block(const struct fgt_look *look, struct fgt_thread *thread,
			 const struct fgt_frame *frames, size_t count,
			 uint32_t state)
{
	struct fgt_look_thread *thread_look = thread->active->look;

	/* One that runs again is not stopped any more. */
	thread_look->block_state = state == FGT_STATE_STOPPED ? 0 : state;
	if (fgt_kept_stack_differs(&thread_look->last_block, frames, count,
				   look->stacks.generation))
		thread_look->varied_tick = look->tick;
	thread_look->blocked_tick = look->tick;
	fgt_kept_stack_set(&thread_look->last_block, frames, count,
			   look->stacks.generation);
}

static bool has_varied(const struct fgt_look *look,
		       const struct fgt_look_thread *thread_look)
{
	return thread_look->varied_tick &&
	       look->tick - thread_look->varied_tick <= VARIED_TICKS;
}

struct fgt_verdict fgt_look_go_on(const struct fgt_look *look,
				  const struct fgt_thread *thread)
{
	struct fgt_look_thread *thread_look = thread->active->look;

	if (thread->is_shown_running || !thread->has_switched ||
	    !thread_look->block_state || !has_varied(look, thread_look))
		return (struct fgt_verdict){ .kind = FGT_VERDICT_AS_BEFORE };
	return fgt_look_kept(look, &thread_look->last_block,
			     thread_look->block_state, FGT_MARKER_NOT_SAMPLED);
}

bool fgt_look_last_block(const struct fgt_look *look, struct fgt_thread *thread,
			 struct fgt_verdict *ret_verdict)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	const struct fgt_frame *frames;
	size_t count;

	frames = fgt_kept_stack_show(
		&thread_look->last_block, look->stacks.generation,
		has_varied(look, thread_look) ? FGT_MARKER_NOT_SAMPLED : 0,
		&count);
	if (!frames || !thread_look->block_state)
		return false;
	*ret_verdict =
		fgt_verdict_stack(frames, count, thread_look->block_state);
	thread_look->pending_ticks = 0;
	fgt_look_thread_settle(thread, thread_look->block_state);
	return true;
}

uint32_t fgt_look_unpaid_ticks(int64_t due_ns, uint64_t period_ns,
			       uint32_t pending_ticks)
{
	int64_t unpaid_ns = -due_ns - (int64_t)(WAIT_DEBT_TICKS * period_ns);
	uint64_t ticks;

	if (unpaid_ns <= 0)
		return 0;
	ticks = ((uint64_t)unpaid_ns + period_ns - 1) / period_ns;
	return ticks < pending_ticks ? (uint32_t)ticks : pending_ticks;
}

/* Has it run on for a part of a period since its last sample? Then it is not
 * where that found it, nor where the next one will. */
static bool has_left_sample(const struct fgt_tick *tick,
			    const struct fgt_thread *thread)
{
	const struct fgt_active_thread *active = thread->active;

	return active->use.runtime_ns - active->look->sampled_run_ns >
	       tick->period_ns / LEFT_PART;
}

void fgt_look_take_waits(struct fgt_look *look, const struct fgt_tick *tick,
			 struct fgt_thread *thread, struct fgt_verdict *verdict)
{
	uint32_t pending = fgt_look_take_credit(look, thread), unpaid;
	uint64_t wait_ns = thread->active->use.wait_ns;
	bool has_left = has_left_sample(tick, thread);
	struct fgt_verdict shown = *verdict;
	struct fgt_thread_aside *aside;

	thread->active->look->sampled_wait_ns = wait_ns;
	thread->active->look->sampled_run_ns = thread->active->use.runtime_ns;
	if (!pending)
		return;
	aside = fgt_thread_store_aside(&look->threads.table, thread);
	unpaid =
		fgt_look_unpaid_ticks((int64_t)(wait_ns - aside->shown_wait_ns),
				      tick->period_ns, pending);
	aside->shown_wait_ns -= unpaid * tick->period_ns;
	/* The ring cuts the ticks that are running off the end of these. */
	shown.state = FGT_STATE_RUNNABLE;
	if (!has_left)
		fgt_verdict_set_past(verdict, &shown, pending);
	verdict->credit_ticks = unpaid;
}

/* A tick is shown runnable; the scheduler counts a wait when it ends. */
static void pay_wait(struct fgt_look *look, const struct fgt_tick *tick,
		     struct fgt_thread *thread)
{
	fgt_thread_store_aside(&look->threads.table, thread)->shown_wait_ns +=
		tick->period_ns;
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
	int64_t waited_ns = (int64_t)(wait_ns - aside->shown_wait_ns);
	int64_t most_ns = (int64_t)(WAITED_MAX_TICKS * tick->period_ns);

	if (waited_ns < (int64_t)tick->period_ns)
		return false;
	if (waited_ns > most_ns)
		aside->shown_wait_ns = wait_ns - (uint64_t)most_ns;
	pay_wait(look, tick, thread);
	return true;
}

/* The ring's stack goes on, and the thread wants a CPU. */
static struct fgt_verdict go_on_runnable(void)
{
	return (struct fgt_verdict){
		.kind = FGT_VERDICT_MARKED,
		.state = FGT_STATE_RUNNABLE,
	};
}

/* Woken, and stands where it was blocked: elsewhere than at the tick before,
 * for it has run since. */
static struct fgt_verdict find_woken_elsewhere(void)
{
	return (struct fgt_verdict){
		.kind = FGT_VERDICT_MARKED,
		.state = FGT_STATE_RUNNABLE,
		.leaf = FGT_MARKER_NOT_SAMPLED,
	};
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

/* Times that it has given up a CPU by itself. */
static bool read_block_count(const struct fgt_look *look,
			     const struct fgt_thread *thread,
			     uint64_t *ret_count)
{
	struct fgt_switch_counts counts;

	if (fgt_switch_counts_read(look, thread, &counts) < 0)
		return false;
	*ret_count = counts.blocked;
	return true;
}

/*
 * May it have blocked since the tick before? was_running: it was shown running
 * at that tick, so that it has not if the count is the same as at any tick
 * before.
 */
static bool take_block_count(struct fgt_look_thread *thread_look,
			     uint64_t count, uint64_t tick, bool was_running)
{
	uint64_t before_tick = thread_look->block_count_tick;
	bool is_known = before_tick && (was_running || before_tick + 1 == tick);
	bool is_same = thread_look->block_count == count;

	thread_look->block_count = count;
	thread_look->block_count_tick = tick;
	return !is_known || !is_same;
}

/* The next run begins with what is counted now. Reads a file if the last run was
 * longer than a tick, or if the thread has lately lost a CPU. */
static void count_from_block(const struct fgt_look *look,
			     const struct fgt_thread *thread)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	bool is_put_off = thread_look->lost_cpu_tick &&
			  look->tick - thread_look->lost_cpu_tick < LOST_TICKS;
	uint64_t count;

	thread_look->block_use = thread->active->use;
	thread_look->block_use_count = 0;
	/* The next run is not where the last sample was. */
	thread_look->sampled_run_ns = 0;
	if ((!thread_look->is_run_long && !is_put_off) ||
	    !read_block_count(look, thread, &count))
		return;
	thread_look->block_use_count = count;
	/* As of the tick before: at the next one it may still be blocked, with
	 * the same count. */
	if (thread_look->is_run_long)
		(void)take_block_count(thread_look, count, look->tick - 1,
				       false);
}

void fgt_look_end_run(const struct fgt_look *look, const struct fgt_tick *tick,
		      const struct fgt_thread *thread,
		      struct fgt_verdict *verdict)
{
	const struct fgt_look_thread *thread_look = thread->active->look;
	bool has_left = has_left_sample(tick, thread);
	struct fgt_verdict waiting =
		fgt_look_kept(look, &thread_look->last_run, FGT_STATE_RUNNABLE,
			      has_left ? FGT_MARKER_NOT_SAMPLED : 0);

	/* It wanted a CPU, and no sample came before it blocked. */
	fgt_verdict_set_past(verdict, &waiting, thread_look->pending_ticks);
	count_from_block(look, thread);
}

/* Has it given up a CPU by itself since the tick before? True where that is
 * not known. */
static bool has_blocked(const struct fgt_look *look,
			const struct fgt_thread *thread)
{
	uint64_t count;

	return !read_block_count(look, thread, &count) ||
	       take_block_count(thread->active->look, count, look->tick,
				thread->is_shown_running);
}

/*
 * It ran at the last tick, and has been on a CPU since; now it is runnable, or
 * on one that it got after the samples fell. Most such threads were blocked in
 * between: of those that were put aside the scheduler knows a longer wait. A
 * thread that is on a CPU by now (its kernel stack is empty), and was not put
 * on one since the last tick, was not blocked: its sample is missing.
 */
static bool was_blocked(const struct fgt_look *look,
			const struct fgt_tick *tick,
			const struct fgt_thread *thread)
{
	const struct fgt_active_thread *active = thread->active;
	const struct fgt_look_thread *thread_look = active->look;
	uint64_t waited_ns = active->use.wait_ns - thread_look->sampled_wait_ns;
	int rc;

	if (!thread->has_run || !thread_look->last_block.count ||
	    waited_ns >= tick->period_ns / WAIT_SHORT)
		return false;
	rc = look_if_preempted(look->process.task_fd, thread->tid);
	if (rc == -ENODATA)
		return thread->has_switched && has_blocked(look, thread);
	return rc <= 0;
}

/*
 * It was put on a CPU and taken off it, and has not slept since the block that
 * was read last: it was off before the samples fell, if it has run for longer
 * than they are old.
 */
static bool has_lost_cpu(const struct fgt_look *look,
			 const struct fgt_tick *tick,
			 const struct fgt_thread *thread)
{
	const struct fgt_look_thread *thread_look = thread->active->look;
	const struct fgt_cpu_use *use = &thread->active->use;
	const struct fgt_cpu_use *block = &thread_look->block_use;
	uint64_t age_ns = fgt_clock_ns(CLOCK_MONOTONIC) - tick->fired_ns, count;

	if (!block->switches || use->runtime_ns - block->runtime_ns <= age_ns)
		return false;
	return use->switches == block->switches + 1 ||
	       (thread_look->block_use_count &&
		read_block_count(look, thread, &count) &&
		count == thread_look->block_use_count);
}

/* Shown blocked, and on a CPU since: did it wait for one when samples fell? */
static bool is_waiting(struct fgt_look *look, const struct fgt_tick *tick,
		       struct fgt_thread *thread, int *ret_rc)
{
	*ret_rc = look_if_preempted(look->process.task_fd, thread->tid);
	if (*ret_rc > 0)
		thread->active->look->lost_cpu_tick = look->tick;
	/* On a CPU by now: it waited if it was not blocked since the tick
	 * before. */
	if (*ret_rc == -ENODATA) {
		if (has_blocked(look, thread))
			return false;
	} else if (*ret_rc <= 0 || !has_lost_cpu(look, tick, thread)) {
		return take_waited(look, tick, thread);
	}
	pay_wait(look, tick, thread);
	return true;
}

/*
 * It ran, lost its CPU and may block again before a sample falls on it: it is
 * runnable, with the stack of its last sample until a new one stands for these
 * ticks, below a marker where it has left that. If it was only woken meanwhile,
 * its state goes on; where that is not known, a sample will show it.
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
		if (!is_waiting(look, tick, thread, &rc))
			return fgt_look_go_on(look, thread);
		if (rc == 0)
			return find_woken_elsewhere();
		if (rc > 0 || rc == -ENODATA)
			verdict = fgt_look_kept(
				look, &thread->active->look->last_run,
				FGT_STATE_RUNNABLE, FGT_MARKER_NOT_SAMPLED);
	} else {
		verdict = go_on_runnable();
		pay_wait(look, tick, thread);
		if (has_left_sample(tick, thread))
			verdict.leaf = FGT_MARKER_NOT_SAMPLED;
	}
	thread->active->look->pending_ticks++;
	return verdict;
}

/*
 * It was woken, has not been on a CPU since, and stands where it blocked. At
 * the first such tick it may have been woken after the samples fell, so that
 * the scheduler's count must pay for it, unless it still waits at the next one.
 */
static struct fgt_verdict find_woken(struct fgt_look *look,
				     const struct fgt_tick *tick,
				     struct fgt_thread *thread)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	struct fgt_verdict verdict = { .kind = FGT_VERDICT_AS_BEFORE };
	bool is_first = thread_look->woken_tick + 1 != look->tick;

	thread_look->woken_tick = look->tick;
	if (is_first) {
		thread_look->is_wait_shown = take_waited(look, tick, thread);
		return thread_look->is_wait_shown ? go_on_runnable() : verdict;
	}
	verdict = go_on_runnable();
	pay_wait(look, tick, thread);
	if (!thread_look->is_wait_shown) {
		verdict.credit_ticks = 1;
		pay_wait(look, tick, thread);
	}
	thread_look->is_wait_shown = true;
	return verdict;
}

struct fgt_verdict fgt_look_runnable(struct fgt_look *look,
				     const struct fgt_tick *tick,
				     struct fgt_thread *thread)
{
	/* Has not run since: it was woken, and stands where it blocked. */
	bool is_woken = !thread->is_shown_running && !thread->is_new &&
			!thread->has_switched;

	if (tick->has_cpu_events)
		return is_woken ? find_woken(look, tick, thread)
				: wait_for_sample(look, tick, thread);
	if (is_woken)
		return (struct fgt_verdict){ .kind = FGT_VERDICT_AS_BEFORE };
	return fgt_look_polled(look, tick, thread);
}
