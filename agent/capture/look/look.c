/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at single threads. Runs in the sampler's thread; must never touch a
 * thread that is blocked.
 *
 * Where the kernel reports switches, running means: on a CPU at the instant
 * that all threads are asked about. With nothing but perf events on every CPU,
 * it means: a sample fell on the thread. A thread that is only found running by
 * the later look is not counted, so that shares are unbiased. Without them,
 * running means: found so at the tick; samples of single threads follow their
 * CPU time and not the ticks, and only lend their stacks.
 */
#include "agent/capture/look/look_parts.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#define READ_TRIES 2
#define IDLE_PART  200u
#define BUSY_PART  32u

void fgt_look_begin_tick(struct fgt_look *look, uint64_t mono_ns)
{
	look->tick++;
	look->elapsed_ns = look->tick_ns ? mono_ns - look->tick_ns : 0;
	look->tick_ns = mono_ns;
	look->recent_ns[look->tick % FGT_LOOK_RECENT] = mono_ns;
}

struct fgt_verdict fgt_look_sampled(struct fgt_look *look,
				    const struct fgt_tick *tick,
				    struct fgt_thread *thread,
				    const struct fgt_running_sample *sample)
{
	struct fgt_verdict verdict = { .kind = FGT_VERDICT_AS_BEFORE };
	struct fgt_look_thread *thread_look;
	size_t count;
	bool is_running, was_running = thread->is_shown_running;

	if (thread->slot == FGT_THREAD_NO_SLOT)
		return verdict;
	/* Without events the tick asks all threads, for their accounts. */
	if (tick->has_cpu_events)
		look->who_ran->look(look->who_ran_state, thread);
	if (!fgt_thread_table_activate(&look->threads, thread, tick->mono_ns))
		return verdict;
	thread_look = thread->active->look;
	/* It may have blocked since, and not run again. */
	thread->needs_look = true;
	is_running =
		fgt_look_switch_sampled(look, tick, thread, sample->time_ns);
	count = fgt_look_stack_sampled(look, tick, thread, sample);
	if (!tick->has_cpu_events) {
		fgt_look_note_callers(look, thread, sample, tick->frames,
				      count);
		count = fgt_look_before_signal(look, thread, sample,
					       tick->frames, count);
		fgt_look_note_sample(thread, sample, tick->frames, count);
	}
	fgt_kept_stack_set(&thread_look->last_run, tick->frames, count,
			   look->stacks.generation);
	if (!is_running)
		return verdict;
	look->samples_running++;
	if (!tick->has_cpu_events) {
		thread_look->sample_tick = tick->number;
		return verdict;
	}
	verdict = fgt_verdict_stack(tick->frames, count, FGT_STATE_RUNNING);
	fgt_look_take_waits(look, tick, thread, &verdict);
	verdict.edges = &look->edges;
	thread_look->is_run_long = thread->is_shown_running;
	thread->is_sampled = true;
	fgt_look_thread_settle(thread, FGT_STATE_RUNNING);
	fgt_look_waited(look, tick, thread, was_running, &verdict);
	return verdict;
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
 * Other threads may have stopped before it, and will not run again: look again.
 * A process that samples itself stops as a whole.
 */
static bool is_stop_possible(struct fgt_look *look, const struct fgt_tick *tick)
{
	char text[1024];
	struct fgt_stat stat = { .state = 0 };
	bool was_possible = look->is_stop_possible;
	int len;

	if (look->is_embedded && !look->is_traced)
		return false;
	if (look->stop_tick == look->tick)
		return was_possible;
	look->stop_tick = look->tick;
	len = fgt_fd_budget_read(look->budget, &look->leader_stat_fd,
				 look->process.task_fd, look->process.pid,
				 "stat", text, sizeof(text));
	look->is_stop_possible = look->is_traced || len < 0 ||
				 fgt_stat_parse(text, (size_t)len, &stat) < 0 ||
				 strchr("TtZX", stat.state);
	if (look->is_stop_possible && !was_possible)
		fgt_thread_table_look_at_all(&look->threads, tick->mono_ns);
	return look->is_stop_possible;
}

static uint32_t state_of(struct fgt_look *look, const struct fgt_tick *tick,
			 struct fgt_thread *thread,
			 const struct fgt_blocked *blocked)
{
	uint32_t state = fgt_blocked_state(blocked, thread);

	if (!fgt_ptrace_is_safe_call(state))
		thread->has_unsafe_call = true;
	if (is_stop_possible(look, tick)) {
		char letter = fgt_blocked_letter(&look->threads, thread->tid);

		if (letter == 'T' || letter == 't')
			return FGT_STATE_STOPPED;
	}
	return state;
}

/* Registers and the first bytes of the stack, as far as procfs shows them. */
static enum found take_snapshot(struct fgt_look *look,
				const struct fgt_tick *tick,
				struct fgt_thread *thread,
				struct fgt_blocked *ret_blocked,
				struct fgt_snapshot *ret_snapshot)
{
	int64_t rc = fgt_blocked_look(&look->threads, thread, ret_blocked);

	if (rc < 0)
		return found_error((int)rc);
	if (ret_blocked->is_running)
		return FOUND_RUNNING;
	if (ret_blocked->sp == 0)
		return FOUND_NO_STACK;
	rc = fgt_look_stack_begin(look, tick, thread, ret_blocked->sp,
				  ret_blocked->pc, ret_snapshot);
	ret_snapshot->is_blocked = ret_blocked->call >= 0;
	if (rc == -EPERM || rc == -EACCES || rc == -ESRCH)
		return found_error((int)rc);
	return FOUND_BLOCKED;
}

/* All is read between two looks at its use: equal means nothing moved. */
static enum found read_blocked(struct fgt_look *look,
			       const struct fgt_tick *tick,
			       struct fgt_thread *thread,
			       struct fgt_verdict *ret_verdict)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	struct fgt_snapshot snapshot;
	struct fgt_blocked blocked;
	enum found found;
	uint32_t state;
	size_t count;
	int rc;

	found = take_snapshot(look, tick, thread, &blocked, &snapshot);
	if (found != FOUND_BLOCKED)
		return found;
	count = fgt_look_stack_blocked(look, tick, thread, &snapshot, 0);
	state = state_of(look, tick, thread, &blocked);
	rc = look->who_ran->look(look->who_ran_state, thread);
	if (rc != 0)
		return rc > 0 ? FOUND_TORN : found_error(rc);
	if (tick->has_cpu_events || thread->is_restless ||
	    thread_look->keeps_block)
		fgt_look_note_block(look, thread, tick->frames, count, state);
	thread_look->block_sp = blocked.sp;
	thread_look->block_pc = blocked.pc;
	if (fgt_look_owed(look, tick, thread, ret_verdict))
		return FOUND_OWED;
	*ret_verdict = fgt_verdict_stack(tick->frames, count, state);
	look->samples_blocked++;
	fgt_look_late_sample(look, tick, thread, ret_verdict);
	if (tick->has_cpu_events)
		fgt_look_end_run(look, tick, thread, ret_verdict);
	thread_look->pending_ticks = 0;
	fgt_look_thread_settle(thread, state);
	return FOUND_BLOCKED;
}

/* A target that may not be read any more: at least run or not. */
static struct fgt_verdict look_from_afar(const struct fgt_look *look,
					 struct fgt_thread *thread)
{
	char letter = fgt_blocked_letter(&look->threads, thread->tid);
	uint32_t state = letter == 'R' ? FGT_STATE_RUNNING : FGT_STATE_UNKNOWN;

	if (letter == 'T' || letter == 't')
		state = FGT_STATE_STOPPED;
	thread->needs_look = state == FGT_STATE_RUNNING;
	fgt_look_thread_forget(thread);
	fgt_look_thread_settle(thread, state);
	return fgt_verdict_stack(NULL, 0, state);
}

/* The first thread has ended, but must wait for the other threads. */
static struct fgt_verdict retire(struct fgt_thread *thread)
{
	thread->needs_look = false;
	return (struct fgt_verdict){ .kind = FGT_VERDICT_ENDED };
}

/*
 * A process that is not dumpable may not ask where its own threads are blocked.
 * What they last ran is known from their timers; a signal while they sleep
 * would end their calls.
 */
static struct fgt_verdict refuse_to_itself(struct fgt_look *look,
					   const struct fgt_tick *tick,
					   struct fgt_thread *thread)
{
	struct fgt_verdict verdict;

	thread->needs_look = fgt_blocked_letter(&look->threads, thread->tid) ==
			     'R';
	if (thread->needs_look) {
		verdict = fgt_look_runnable(look, tick, thread);
	} else {
		verdict = fgt_look_kept(look, &thread->active->look->last_run,
					FGT_STATE_UNKNOWN,
					FGT_MARKER_NOT_SAMPLED);
		fgt_look_late_sample(look, tick, thread, &verdict);
		thread->active->look->pending_ticks = 0;
		fgt_look_thread_settle(thread, FGT_STATE_UNKNOWN);
	}
	/* In a dumpable process only a thread that is about to end refuses. */
	if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1)
		verdict.refusal = FGT_REFUSAL_NOT_DUMPABLE;
	return verdict;
}

static struct fgt_verdict refuse(struct fgt_look *look,
				 const struct fgt_tick *tick,
				 struct fgt_thread *thread)
{
	struct fgt_verdict verdict;

	/* The files of a thread without memory belong to root. */
	if (fgt_blocked_letter(&look->threads, thread->tid) == 'Z')
		return retire(thread);
	if (look->is_embedded)
		return refuse_to_itself(look, tick, thread);
	verdict = look_from_afar(look, thread);
	verdict.refusal = FGT_REFUSAL_OF_TARGET;
	return verdict;
}

static void note_use(const struct fgt_look *look,
		     struct fgt_active_thread *active,
		     const struct fgt_cpu_use *before)
{
	active->look->used_ns = active->use.runtime_ns - before->runtime_ns;
	if (active->use.switches - before->switches > active->look->was_stopped)
		active->look->stretch_ns = 0;
	else
		active->look->stretch_ns += active->look->used_ns;
	active->look->was_stopped = false;
	if (active->look->used_ns < look->elapsed_ns / 2)
		active->look->busy_ticks = 0;
	else if (active->look->busy_ticks < UINT8_MAX)
		active->look->busy_ticks++;
}

/* Since the last tick, except one part in so many. */
static bool has_run_except(const struct fgt_look *look,
			   const struct fgt_thread *thread, uint64_t part)
{
	return look->elapsed_ns &&
	       thread->active->look->used_ns >=
		       look->elapsed_ns - look->elapsed_ns / part;
}

/*
 * On a CPU all the time: it need not be asked whether it still is. Where it was
 * looked at later in this tick than in the last one, it may have blocked for
 * that long besides; the next tick knows.
 */
static bool has_run_throughout(const struct fgt_look *look,
			       const struct fgt_thread *thread)
{
	return look->who_ran->is_exact && thread->is_shown_running &&
	       has_run_except(look, thread, IDLE_PART);
}

void fgt_look_account(struct fgt_look *look, const struct fgt_tick *tick,
		      struct fgt_thread *thread)
{
	struct fgt_active_thread *active = thread->active;
	struct fgt_cpu_use before = active->look->account.seen;
	struct fgt_running_use use;

	/* What it used before the recording began is not shown. */
	if (thread->is_new && look->tick <= 1)
		fgt_account_start(&active->look->account, &active->use);
	else
		fgt_account_add(&active->look->account, &active->use);
	note_use(look, active, &before);
	use = (struct fgt_running_use){
		.now_ns = tick->mono_ns,
		.period_ns = tick->period_ns,
		.event_ns = tick->event_ns,
		.runtime_ns = active->look->used_ns,
		.switches = active->use.switches - before.switches,
		.is_throughout = has_run_except(look, thread, BUSY_PART),
		.is_new = thread->is_new,
		.is_first_tick = look->tick <= 1,
	};
	if (tick->running->consider && thread->slot != FGT_THREAD_NO_SLOT)
		tick->running->consider(tick->running_state, thread, &use);
}

static struct fgt_verdict look_at_blocked(struct fgt_look *look,
					  const struct fgt_tick *tick,
					  struct fgt_thread *thread)
{
	struct fgt_verdict verdict = { .kind = FGT_VERDICT_AS_BEFORE };
	enum found found = has_run_throughout(look, thread) ? FOUND_RUNNING
							    : FOUND_TORN;

	for (int i = 0; i < READ_TRIES && found == FOUND_TORN; i++)
		found = read_blocked(look, tick, thread, &verdict);
	thread->needs_look = found != FOUND_BLOCKED;
	switch (found) {
	case FOUND_TORN:
		look->torn++;
		return fgt_look_go_on(look, thread);
	case FOUND_REFUSED:
		return refuse(look, tick, thread);
	case FOUND_GONE:
		fgt_thread_table_end(&look->threads, thread);
		look->threads.is_stale = true;
		break;
	case FOUND_NO_STACK:
		return retire(thread);
	case FOUND_RUNNING:
		return fgt_look_runnable(look, tick, thread);
	case FOUND_BLOCKED:
	case FOUND_OWED:
		break;
	}
	return verdict;
}

struct fgt_verdict fgt_look_unsampled(struct fgt_look *look,
				      const struct fgt_tick *tick,
				      struct fgt_thread *thread)
{
	struct fgt_verdict verdict = { .kind = FGT_VERDICT_AS_BEFORE };
	bool was_running;

	if (thread->slot == FGT_THREAD_NO_SLOT) {
		thread->needs_look = false;
		return verdict;
	}
	if (!look->is_readable)
		return look_from_afar(look, thread);
	if (fgt_look_switched(look, tick, thread, &verdict))
		return verdict;
	was_running = thread->is_shown_running;
	verdict = look_at_blocked(look, tick, thread);
	verdict.has_moved = thread->has_run && !thread->is_shown_running;
	fgt_look_waited(look, tick, thread, was_running, &verdict);
	return verdict;
}
