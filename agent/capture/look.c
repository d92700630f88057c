/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at single threads. Runs in the sampler's thread; must never touch a
 * thread that is blocked.
 *
 * With perf events on every CPU, running means: a sample fell on the thread.
 * A thread that is only found running by our later look is not counted, so
 * that shares are unbiased. Without them, running means: found so at the tick;
 * samples of single threads follow their CPU time and not our ticks, and only
 * lend their stacks.
 */
#include "agent/capture/look.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/capture/blocked.h"
#include "agent/capture/look_stack.h"
#include "agent/capture/look_switch.h"

#define WAITED_MAX_TICKS 8u
#define READ_TRIES	 2
#define WAIT_SHORT	 8 /* of a period: less than a slice of the scheduler */

static void settle(struct fgt_thread *thread, uint32_t state)
{
	thread->state = state;
	thread->is_new = false;
	thread->settled_switches = thread->use.switches;
}

/* What it used before we came is not ours to show. */
static void take_account(struct fgt_target *target, struct fgt_thread *thread)
{
	if (thread->is_new && target->tick <= 1)
		fgt_account_start(&thread->account, &thread->use);
	else
		fgt_account_add(&thread->account, &thread->use);
}

/*
 * Ticks that a thread which had run had to wait for a CPU: they belong to the
 * stack that it is found with when it gets one.
 */
static uint32_t take_credit(struct fgt_target *target,
			    struct fgt_thread *thread)
{
	uint32_t ticks = thread->pending_ticks;

	thread->pending_ticks = 0;
	target->work.credited_ticks += ticks;
	return ticks;
}

void fgt_look_sampled(struct fgt_target *target, const struct fgt_tick *tick,
		      struct fgt_thread *thread,
		      const struct fgt_perf_sample *sample)
{
	size_t count;

	if (thread->slot == FGT_THREAD_NO_SLOT)
		return;
	target->who_ran->look(target->who_ran_state, thread);
	fgt_threads_activate(&target->threads, thread, tick->mono_ns);
	/* It may have blocked since, and not run again. */
	thread->needs_look = true;
	fgt_look_switch_forget(thread);
	count = fgt_look_stack_sampled(target, tick, thread, sample);
	fgt_last_run_keep(&thread->last_run, target->stacks.frames, count,
			  target->stacks.generation);
	target->work.samples_running++;
	if (!tick->perf_cpu) {
		take_account(target, thread);
		fgt_account_take_sample(&thread->account, tick->event_ns);
		thread->sample_tick = tick->number;
		thread->sample_ns = sample->time_ns;
		return;
	}
	fgt_ring_set(target->ring, thread->slot, target->stacks.frames, count,
		     FGT_STATE_RUNNING, take_credit(target, thread));
	thread->is_sampled = true;
	thread->sampled_wait_ns = thread->use.wait_ns;
	settle(thread, FGT_STATE_RUNNING);
}

enum found {
	FOUND_BLOCKED,
	FOUND_RUNNING,
	FOUND_TORN,
	FOUND_GONE,
	FOUND_NO_STACK,
	FOUND_REFUSED,
};

static enum found found_error(int error)
{
	if (error == -EPERM || error == -EACCES)
		return FOUND_REFUSED;
	return error == -ESRCH ? FOUND_GONE : FOUND_TORN;
}

/*
 * A stop of the whole process shows at its first thread: ask that once a tick.
 * Others may have stopped before it did, and will not run again: look anew.
 */
static bool is_stop_possible(struct fgt_target *target,
			     const struct fgt_tick *tick)
{
	char path[32], text[1024];
	struct fgt_stat stat = { .state = 0 };
	bool was_possible = target->is_stop_possible;
	int len;

	if (target->stop_tick == target->tick)
		return was_possible;
	target->stop_tick = target->tick;
	snprintf(path, sizeof(path), "%d/stat", target->process.pid);
	len = fgt_fd_budget_read(target->budget, &target->leader_stat_fd, true,
				 target->process.task_fd, path, text,
				 sizeof(text));
	target->is_stop_possible = target->is_traced || len < 0 ||
				   fgt_stat_parse(text, (size_t)len, &stat) <
					   0 ||
				   strchr("TtZX", stat.state);
	if (target->is_stop_possible && !was_possible)
		fgt_threads_look_at_all(&target->threads, tick->mono_ns);
	return target->is_stop_possible;
}

static uint32_t state_of(struct fgt_target *target, const struct fgt_tick *tick,
			 struct fgt_thread *thread,
			 const struct fgt_blocked *blocked)
{
	uint32_t state = fgt_blocked_state(blocked, thread);

	if (!fgt_ptrace_is_safe_call(state))
		thread->has_unsafe_call = true;
	if (is_stop_possible(target, tick)) {
		char letter = fgt_blocked_letter(&target->threads, thread->tid);

		if (letter == 'T' || letter == 't')
			return FGT_STATE_STOPPED;
	}
	return state;
}

/* Everything is read between two looks at its use: equal means nothing moved. */
static enum found read_blocked(struct fgt_target *target,
			       const struct fgt_tick *tick,
			       struct fgt_thread *thread)
{
	struct fgt_snapshot snapshot = { .stack = tick->buffer };
	struct fgt_blocked blocked;
	uint32_t state;
	size_t count;
	int64_t rc;

	rc = fgt_blocked_look(&target->threads, thread, &blocked);
	if (rc < 0)
		return found_error((int)rc);
	if (blocked.is_running)
		return FOUND_RUNNING;
	if (blocked.sp == 0)
		return FOUND_NO_STACK;
	snapshot.stack_limit = fgt_stacks_limit(&target->stacks, blocked.sp);
	snapshot.stack_start = blocked.sp;
	snapshot.is_blocked = blocked.call >= 0;
	fgt_regs_set(&snapshot.regs, fgt_arch_host.sp, blocked.sp);
	fgt_regs_set(&snapshot.regs, fgt_arch_host.pc, blocked.pc);
	rc = fgt_blocked_copy(thread->tid, blocked.sp, tick->buffer,
			      thread->read_bytes ? thread->read_bytes
						 : FGT_SNAPSHOT_FIRST_BYTES);
	if (rc == -EPERM || rc == -EACCES || rc == -ESRCH)
		return found_error((int)rc);
	snapshot.stack_len = rc > 0 ? (size_t)rc : 0;
	count = fgt_look_stack_blocked(target, tick, thread, &snapshot, 0);
	state = state_of(target, tick, thread, &blocked);
	rc = target->who_ran->look(target->who_ran_state, thread);
	if (rc != 0)
		return rc > 0 ? FOUND_TORN : found_error((int)rc);
	fgt_ring_set(target->ring, thread->slot, target->stacks.frames, count,
		     state, 0);
	target->work.samples_blocked++;
	if (tick->perf_cpu)
		fgt_last_run_keep(&thread->last_block, target->stacks.frames,
				  count, target->stacks.generation);
	/* No sample came before it blocked: it stays as it was shown. */
	thread->pending_ticks = 0;
	settle(thread, state);
	return FOUND_BLOCKED;
}

/* A target that may not be read any more: at least run or not. */
static void look_from_afar(struct fgt_target *target, struct fgt_thread *thread)
{
	char letter = fgt_blocked_letter(&target->threads, thread->tid);
	uint32_t state = letter == 'R' ? FGT_STATE_RUNNING : FGT_STATE_UNKNOWN;

	if (letter == 'T' || letter == 't')
		state = FGT_STATE_STOPPED;
	thread->needs_look = state == FGT_STATE_RUNNING;
	fgt_ring_set(target->ring, thread->slot, NULL, 0, state, 0);
	settle(thread, state);
}

/* It has ended, but must wait for the others: the first thread. */
static void retire(struct fgt_target *target, struct fgt_thread *thread)
{
	fgt_ring_thread_end(target->ring, thread->slot);
	thread->slot = FGT_THREAD_NO_SLOT;
	thread->needs_look = false;
	target->threads.sampled_count--;
}

static void refuse(struct fgt_target *target, const struct fgt_tick *tick,
		   struct fgt_thread *thread)
{
	/* The files of a thread without memory belong to root. */
	if (fgt_blocked_letter(&target->threads, thread->tid) == 'Z') {
		retire(target, thread);
		return;
	}
	/* Says why, and whether it is for good. */
	fgt_target_reread(target, tick, false);
	look_from_afar(target, thread);
}

/*
 * Has it been on its CPU for about a period, and is it still? The kernel
 * brings CPU time up to date at its own ticks, so that the last period alone
 * says too little.
 */
static bool is_cpu_bound(const struct fgt_tick *tick,
			 const struct fgt_thread *thread)
{
	return thread->used_ns && thread->stretch_ns >= tick->timer_ns / 10 * 9;
}

/* Only a thread that runs at this very moment, and that no stop can hurt. */
static bool sample_by_ptrace(struct fgt_target *target,
			     const struct fgt_tick *tick,
			     struct fgt_thread *thread)
{
	struct fgt_blocked blocked;
	size_t count;

	if (!tick->ptrace || thread->has_unsafe_call || target->is_traced ||
	    !is_cpu_bound(tick, thread) ||
	    fgt_blocked_look(&target->threads, thread, &blocked) < 0 ||
	    !blocked.is_running ||
	    fgt_look_stack_running(target, tick, thread, &count) < 0)
		return false;
	thread->was_stopped = true;
	fgt_ring_set(target->ring, thread->slot, target->stacks.frames, count,
		     FGT_STATE_RUNNING, 0);
	return true;
}

static void note_use(struct fgt_thread *thread,
		     const struct fgt_cpu_use *before)
{
	thread->used_ns = thread->use.runtime_ns - before->runtime_ns;
	if (thread->use.switches - before->switches > thread->was_stopped)
		thread->stretch_ns = 0;
	else
		thread->stretch_ns += thread->used_ns;
	thread->was_stopped = false;
}

void fgt_look_account(struct fgt_target *target, const struct fgt_tick *tick,
		      struct fgt_thread *thread)
{
	struct fgt_cpu_use before = thread->account.seen;
	struct fgt_perf_use use;

	take_account(target, thread);
	note_use(thread, &before);
	use = (struct fgt_perf_use){
		.now_ns = tick->mono_ns,
		.period_ns = tick->period_ns,
		.event_ns = tick->event_ns,
		.runtime_ns = thread->used_ns,
		.switches = thread->use.switches - before.switches,
	};
	if (tick->perf_threads && !thread->is_new)
		fgt_perf_threads_consider(tick->perf_threads, thread, &use);
}

/* The stack of its last sample, or the last one known, as running. */
static void show_last_run(struct fgt_target *target, struct fgt_thread *thread,
			  enum fgt_marker leaf, uint32_t credit)
{
	struct fgt_stacks *stacks = &target->stacks;
	size_t count = fgt_last_run_show(&thread->last_run, stacks->generation,
					 leaf, stacks->frames,
					 stacks->capacity);

	if (count)
		fgt_ring_set(target->ring, thread->slot, stacks->frames, count,
			     FGT_STATE_RUNNING, credit);
	else
		fgt_ring_set_state(
			target->ring, thread->slot, FGT_STATE_RUNNING,
			leaf ? leaf : FGT_MARKER_NOT_SAMPLED, credit);
}

/*
 * A sample speaks for the tick that is nearest to it, and for those before it
 * that had none.
 */
static uint32_t credit_sample(struct fgt_target *target,
			      const struct fgt_tick *tick,
			      struct fgt_thread *thread, bool was_running)
{
	if (was_running && !thread->pending_ticks &&
	    thread->sample_ns + tick->period_ns / 2 < tick->mono_ns)
		return 1;
	return take_credit(target, thread);
}

/*
 * Found running at the tick, without events of every CPU. A thread that was
 * woken and still waits for its CPU looks the same: more ticks than its CPU
 * time pays for are not shown, except that what runs may go on.
 */
static void show_found_running(struct fgt_target *target,
			       const struct fgt_tick *tick,
			       struct fgt_thread *thread)
{
	bool was_running = thread->state == FGT_STATE_RUNNING;
	enum fgt_marker leaf = was_running ? 0 : FGT_MARKER_NOT_SAMPLED;
	uint32_t credit = 0;

	if (!fgt_account_take_tick(&thread->account, tick->period_ns) &&
	    !was_running && !thread->is_new)
		return;
	settle(thread, FGT_STATE_RUNNING);
	if (thread->sample_tick == target->tick) {
		leaf = 0;
		credit = credit_sample(target, tick, thread, was_running);
	} else if (fgt_perf_threads_has(thread) &&
		   fgt_account_take_hidden(&thread->account, tick->period_ns)) {
		leaf = FGT_MARKER_KERNEL_DENIED;
	} else if (sample_by_ptrace(target, tick, thread)) {
		return;
	} else {
		thread->pending_ticks++;
	}
	show_last_run(target, thread, leaf, credit);
}

/*
 * Has the thread waited for a CPU long enough, by the scheduler's count, to
 * pay for one more tick? One that our own waking put aside for a moment looks
 * like one that waits.
 */
static bool take_waited(const struct fgt_tick *tick, struct fgt_thread *thread)
{
	uint64_t waited_ns = thread->use.wait_ns - thread->shown_wait_ns;

	if (waited_ns < tick->period_ns)
		return false;
	if (waited_ns > WAITED_MAX_TICKS * tick->period_ns)
		thread->shown_wait_ns = thread->use.wait_ns -
					WAITED_MAX_TICKS * tick->period_ns;
	thread->shown_wait_ns += tick->period_ns;
	return true;
}

/*
 * It ran at the last tick, and has been on a CPU since; now it is runnable, or
 * on one that it got after the samples fell. Most such threads were blocked in
 * between: of those that were put aside the scheduler knows a longer wait.
 */
static bool was_blocked(struct fgt_target *target, const struct fgt_tick *tick,
			struct fgt_thread *thread)
{
	uint64_t waited_ns = thread->use.wait_ns - thread->sampled_wait_ns;

	return thread->has_run && thread->last_block.count &&
	       waited_ns < tick->period_ns / WAIT_SHORT &&
	       fgt_preempted_look(target->process.task_fd, thread->tid) <= 0;
}

static void show_last_block(struct fgt_target *target,
			    struct fgt_thread *thread)
{
	struct fgt_stacks *stacks = &target->stacks;
	size_t count = fgt_last_run_show(&thread->last_block,
					 stacks->generation, 0, stacks->frames,
					 stacks->capacity);

	if (!count || !thread->call_state)
		return;
	fgt_ring_set(target->ring, thread->slot, stacks->frames, count,
		     thread->call_state, 0);
	thread->pending_ticks = 0;
	settle(thread, thread->call_state);
}

/*
 * It ran, lost its CPU and may block again before a sample falls on it: it is
 * shown with the stack of its last sample until a new one speaks for these
 * ticks. If it was only woken meanwhile, its state goes on; if nobody can tell,
 * a sample will.
 */
static void wait_for_sample(struct fgt_target *target,
			    const struct fgt_tick *tick,
			    struct fgt_thread *thread)
{
	int rc;

	if (thread->state == FGT_STATE_RUNNING &&
	    was_blocked(target, tick, thread)) {
		show_last_block(target, thread);
		return;
	}
	if (thread->state != FGT_STATE_RUNNING) {
		rc = fgt_preempted_look(target->process.task_fd, thread->tid);
		/* Woken; or on a CPU by now, but not when samples fell. */
		if (rc == 0 || rc == -ENODATA || !take_waited(tick, thread))
			return;
		if (rc > 0)
			show_last_run(target, thread, FGT_MARKER_NOT_SAMPLED,
				      0);
	}
	thread->pending_ticks++;
}

/*
 * Runnable, but no sample fell on it. If it has not run since its state was
 * set, it was woken and still stands where it was blocked.
 */
static void look_at_running(struct fgt_target *target,
			    const struct fgt_tick *tick,
			    struct fgt_thread *thread)
{
	if (thread->state != FGT_STATE_RUNNING && !thread->is_new &&
	    thread->use.switches == thread->settled_switches)
		return;
	if (tick->perf_cpu)
		wait_for_sample(target, tick, thread);
	else
		show_found_running(target, tick, thread);
}

static void look_at_blocked(struct fgt_target *target,
			    const struct fgt_tick *tick,
			    struct fgt_thread *thread)
{
	enum found found = FOUND_TORN;

	for (int i = 0; i < READ_TRIES && found == FOUND_TORN; i++)
		found = read_blocked(target, tick, thread);
	thread->needs_look = found != FOUND_BLOCKED;
	switch (found) {
	case FOUND_TORN:
		target->work.torn++;
		break;
	case FOUND_REFUSED:
		refuse(target, tick, thread);
		break;
	case FOUND_GONE:
		fgt_threads_end(&target->threads, thread);
		target->threads.is_stale = true;
		break;
	case FOUND_NO_STACK:
		retire(target, thread);
		break;
	case FOUND_RUNNING:
		look_at_running(target, tick, thread);
		break;
	case FOUND_BLOCKED:
		break;
	}
}

void fgt_look_unsampled(struct fgt_target *target, const struct fgt_tick *tick,
			struct fgt_thread *thread)
{
	if (thread->slot == FGT_THREAD_NO_SLOT) {
		thread->needs_look = false;
		return;
	}
	if (!target->is_readable) {
		look_from_afar(target, thread);
		return;
	}
	if (!fgt_look_switched(target, tick, thread))
		look_at_blocked(target, tick, thread);
}
