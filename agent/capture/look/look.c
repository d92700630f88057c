/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at single threads. Runs in the sampler's thread; must never touch a
 * thread that is blocked.
 *
 * Where the kernel tells of switches, running means: on a CPU at the instant
 * that all threads are asked about. With nothing but perf events on every CPU,
 * it means: a sample fell on the thread. A thread that is only found running by
 * our later look is not counted, so that shares are unbiased. Without them,
 * running means: found so at the tick; samples of single threads follow their
 * CPU time and not our ticks, and only lend their stacks.
 */
#include "agent/capture/look/look.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent/capture/look/blocked.h"
#include "agent/capture/look/look_runnable.h"
#include "agent/capture/look/look_stack.h"
#include "agent/capture/look/look_switch.h"
#include "agent/capture/look/look_thread.h"
#include "agent/capture/running/running_ptrace.h"

#define READ_TRIES 2
#define IDLE_PART  200u
#define BUSY_PART  32u

void fgt_look_settle(struct fgt_thread *thread, uint32_t state)
{
	thread->is_shown_running = state == FGT_STATE_RUNNING;
	thread->is_new = thread->has_switched = false;
}

void fgt_look_forget(struct fgt_thread *thread)
{
	thread->active->look->pending_ticks = 0;
	thread->active->look->is_run_sampled = false;
	thread->active->look->unshown.count = 0;
}

void fgt_look_show_kept(struct fgt_target *target, struct fgt_thread *thread,
			const struct fgt_last_run *kept, uint32_t state,
			enum fgt_marker leaf, uint32_t credit_ticks)
{
	struct fgt_stacks *stacks = &target->stacks;
	size_t count = fgt_last_run_show(kept, stacks->generation, leaf,
					 stacks->frames, stacks->capacity);

	if (count)
		fgt_ring_set(target->ring, thread->slot, stacks->frames, count,
			     state, credit_ticks);
	else
		fgt_ring_set_state(target->ring, thread->slot, state,
				   leaf ? leaf : FGT_MARKER_NOT_SAMPLED,
				   credit_ticks);
}

/* What it used before we came is not ours to show. */
static bool is_older_than_us(const struct fgt_target *target,
			     const struct fgt_thread *thread)
{
	return thread->is_new && target->tick <= 1;
}

static void take_account(struct fgt_target *target, struct fgt_thread *thread)
{
	struct fgt_active_thread *active = thread->active;

	if (is_older_than_us(target, thread))
		fgt_account_start(&active->look->account, &active->use);
	else
		fgt_account_add(&active->look->account, &active->use);
}

uint32_t fgt_look_take_credit(struct fgt_target *target,
			      struct fgt_thread *thread)
{
	uint32_t ticks = thread->active->look->pending_ticks;

	thread->active->look->pending_ticks = 0;
	target->work.credited_ticks += ticks;
	return ticks;
}

void fgt_look_sampled(struct fgt_target *target, const struct fgt_tick *tick,
		      struct fgt_thread *thread,
		      const struct fgt_running_sample *sample)
{
	size_t count;
	bool is_running;

	if (thread->slot == FGT_THREAD_NO_SLOT)
		return;
	/* Else the tick asks all of them, and their accounts with it. */
	if (tick->has_cpu_events)
		target->who_ran->look(target->who_ran_state, thread);
	if (!fgt_thread_table_activate(&target->threads, thread, tick->mono_ns))
		return;
	/* It may have blocked since, and not run again. */
	thread->needs_look = true;
	is_running = fgt_look_switch_sampled(target, tick, thread);
	count = fgt_look_stack_sampled(target, tick, thread, sample);
	fgt_last_run_keep(&thread->active->look->last_run,
			  target->stacks.frames, count,
			  target->stacks.generation);
	if (!is_running)
		return;
	target->work.samples_running++;
	if (!tick->has_cpu_events) {
		fgt_account_take_sample(&thread->active->look->account,
					tick->event_ns);
		thread->active->look->sample_tick = tick->number;
		return;
	}
	fgt_ring_set(target->ring, thread->slot, target->stacks.frames, count,
		     FGT_STATE_RUNNING, fgt_look_take_credit(target, thread));
	thread->is_sampled = true;
	thread->active->look->sampled_wait_ns = thread->active->use.wait_ns;
	fgt_look_settle(thread, FGT_STATE_RUNNING);
}

enum found {
	FOUND_BLOCKED,
	FOUND_OWED, /* … and shown running, for it ran too often unseen */
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
 * One that samples itself stops with all others.
 */
static bool is_stop_possible(struct fgt_target *target,
			     const struct fgt_tick *tick)
{
	char text[1024];
	struct fgt_stat stat = { .state = 0 };
	bool was_possible = target->is_stop_possible;
	int len;

	if (target->is_embedded && !target->is_traced)
		return false;
	if (target->stop_tick == target->tick)
		return was_possible;
	target->stop_tick = target->tick;
	len = fgt_fd_budget_read(target->budget, &target->leader_stat_fd,
				 target->process.task_fd, target->process.pid,
				 "stat", text, sizeof(text));
	target->is_stop_possible = target->is_traced || len < 0 ||
				   fgt_stat_parse(text, (size_t)len, &stat) <
					   0 ||
				   strchr("TtZX", stat.state);
	if (target->is_stop_possible && !was_possible)
		fgt_thread_table_look_at_all(&target->threads, tick->mono_ns);
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
			      fgt_look_stack_first_bytes(thread));
	if (rc == -EPERM || rc == -EACCES || rc == -ESRCH)
		return found_error((int)rc);
	snapshot.stack_len = rc > 0 ? (size_t)rc : 0;
	count = fgt_look_stack_blocked(target, tick, thread, &snapshot, 0);
	state = state_of(target, tick, thread, &blocked);
	rc = target->who_ran->look(target->who_ran_state, thread);
	if (rc != 0)
		return rc > 0 ? FOUND_TORN : found_error((int)rc);
	if (tick->has_cpu_events || thread->is_restless)
		fgt_last_run_keep(&thread->active->look->last_block,
				  target->stacks.frames, count,
				  target->stacks.generation);
	if (fgt_look_owed(target, tick, thread))
		return FOUND_OWED;
	fgt_ring_set(target->ring, thread->slot, target->stacks.frames, count,
		     state, 0);
	target->work.samples_blocked++;
	fgt_look_late_sample(target, tick, thread);
	/* No other came before it blocked: it stays as it was shown. */
	thread->active->look->pending_ticks = 0;
	fgt_look_settle(thread, state);
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
	fgt_look_forget(thread);
	fgt_look_settle(thread, state);
}

/* It has ended, but must wait for the others: the first thread. */
static void retire(struct fgt_target *target, struct fgt_thread *thread)
{
	fgt_ring_thread_end(target->ring, thread->slot);
	thread->slot = FGT_THREAD_NO_SLOT;
	thread->needs_look = false;
	target->threads.sampled_count--;
}

/*
 * A process that is not dumpable may not ask where its own threads are blocked.
 * What they last ran is known by their timers; a signal while they sleep would
 * end their calls.
 */
static void refuse_to_itself(struct fgt_target *target,
			     const struct fgt_tick *tick,
			     struct fgt_thread *thread)
{
	/* Else it is a thread that is about to end. */
	if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1)
		fgt_target_explain(target, tick,
				   "this process is not dumpable "
				   "(PR_SET_DUMPABLE, set-uid, a change of "
				   "user): blocked threads show the stack that "
				   "they last ran with; make it dumpable "
				   "again, or run it as root");
	if (fgt_blocked_letter(&target->threads, thread->tid) == 'R') {
		thread->needs_look = true;
		fgt_look_runnable(target, tick, thread);
		return;
	}
	thread->needs_look = false;
	fgt_look_show_kept(target, thread, &thread->active->look->last_run,
			   FGT_STATE_UNKNOWN, FGT_MARKER_NOT_SAMPLED, 0);
	fgt_look_late_sample(target, tick, thread);
	thread->active->look->pending_ticks = 0;
	fgt_look_settle(thread, FGT_STATE_UNKNOWN);
}

static void refuse(struct fgt_target *target, const struct fgt_tick *tick,
		   struct fgt_thread *thread)
{
	/* The files of a thread without memory belong to root. */
	if (fgt_blocked_letter(&target->threads, thread->tid) == 'Z') {
		retire(target, thread);
		return;
	}
	if (target->is_embedded) {
		refuse_to_itself(target, tick, thread);
		return;
	}
	/* Says why, and whether it is for good. */
	fgt_target_reread(target, tick, false);
	look_from_afar(target, thread);
}

static void note_use(struct fgt_active_thread *active,
		     const struct fgt_cpu_use *before)
{
	active->look->used_ns = active->use.runtime_ns - before->runtime_ns;
	if (active->use.switches - before->switches > active->look->was_stopped)
		active->look->stretch_ns = 0;
	else
		active->look->stretch_ns += active->look->used_ns;
	active->look->was_stopped = false;
}

/* Since the last tick, but for one part in so many. */
static bool has_run_but_for(const struct fgt_target *target,
			    const struct fgt_thread *thread, uint64_t part)
{
	return target->elapsed_ns &&
	       thread->active->look->used_ns >=
		       target->elapsed_ns - target->elapsed_ns / part;
}

/*
 * On a CPU all the time: it need not be asked whether it still is. Where it was
 * looked at later in this tick than in the last one, it may have blocked for
 * that long besides; the next tick knows.
 */
static bool has_run_throughout(const struct fgt_target *target,
			       const struct fgt_thread *thread)
{
	return target->who_ran->is_exact && thread->is_shown_running &&
	       has_run_but_for(target, thread, IDLE_PART);
}

void fgt_look_account(struct fgt_target *target, const struct fgt_tick *tick,
		      struct fgt_thread *thread)
{
	struct fgt_active_thread *active = thread->active;
	struct fgt_cpu_use before = active->look->account.seen;
	struct fgt_running_use use;

	take_account(target, thread);
	note_use(active, &before);
	use = (struct fgt_running_use){
		.now_ns = tick->mono_ns,
		.period_ns = tick->period_ns,
		.event_ns = tick->event_ns,
		.runtime_ns = active->look->used_ns,
		.switches = active->use.switches - before.switches,
		.hidden_ns = active->look->account.hidden_ns,
		.is_throughout = has_run_but_for(target, thread, BUSY_PART),
		.is_new = thread->is_new,
		.is_first_tick = target->tick <= 1,
	};
	if (tick->running->consider && thread->slot != FGT_THREAD_NO_SLOT)
		tick->running->consider(tick->running_state, thread, &use);
}

static void look_at_blocked(struct fgt_target *target,
			    const struct fgt_tick *tick,
			    struct fgt_thread *thread)
{
	enum found found = has_run_throughout(target, thread) ? FOUND_RUNNING
							      : FOUND_TORN;

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
		fgt_thread_table_end(&target->threads, thread);
		target->threads.is_stale = true;
		break;
	case FOUND_NO_STACK:
		retire(target, thread);
		break;
	case FOUND_RUNNING:
		fgt_look_runnable(target, tick, thread);
		break;
	case FOUND_BLOCKED:
	case FOUND_OWED:
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
