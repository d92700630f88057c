/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at threads that want a CPU, or are on one, where no perf event of every
 * CPU samples them at each tick. Runs in the sampler's thread; stops only what
 * runs, and only where nothing else shows its stack.
 */
#include "agent/capture/look/look_parts.h"

#define STEADY_NS	  100000000 /* between two samples */
#define STEADY_TICKS	  4u
#define OVERDUE_TICKS	  10u /* without a signal */
#define UNSHOWN_MAX_TICKS 100u /* older ones do not show the present */
#define CALM_TICKS	  100u /* without a block: it only works */
#define RESTLESS_NS	  500000u /* mean time on a CPU: less than that */
#define DISTURBED_TICKS	  2u /* likewise: the sampler takes a CPU each tick */
#define COUNT_MAX_NS	  200000000u
#define COUNT_MIN_NS	  40000000u

/*
 * Has it been on its CPU for about a period, and is it still? The kernel
 * brings CPU time up to date at its own ticks, so that the last period alone
 * shows too little.
 */
static bool is_cpu_bound(const struct fgt_tick *tick,
			 const struct fgt_thread *thread)
{
	return thread->active->look->used_ns &&
	       thread->active->look->stretch_ns >= tick->timer_ns / 10 * 9;
}

/* Only a thread that runs at this very moment, and that no stop can hurt: not
 * that of a debugger (fault X3). */
static bool sample_by_stop(struct fgt_look *look, const struct fgt_tick *tick,
			   struct fgt_thread *thread,
			   struct fgt_verdict *ret_verdict)
{
	struct fgt_blocked blocked;
	size_t count;

	if (!tick->running->request || thread->has_unsafe_call ||
	    look->is_traced || !is_cpu_bound(tick, thread) ||
	    fgt_blocked_look(&look->threads, thread, &blocked) < 0 ||
	    !blocked.is_running ||
	    fgt_look_stack_running(look, tick, thread, &count) < 0)
		return false;
	thread->active->look->was_stopped = true;
	*ret_verdict =
		fgt_verdict_stack(tick->frames, count, FGT_STATE_RUNNING);
	return true;
}

static uint32_t draw(struct fgt_look *look)
{
	look->random = look->random * 1664525u + 1013904223u;
	return look->random;
}

static bool flip_coin(struct fgt_look *look)
{
	return draw(look) >> 31;
}

static bool is_in_each_period(const struct fgt_tick *tick)
{
	return tick->running->timing == FGT_RUNNING_IN_EACH_PERIOD;
}

/*
 * Signals come at ticks of the kernel; where none did for so long, the thread
 * blocks them, or the program has taken the signal. The next one cannot show
 * what the thread did meanwhile, either, unless it comes from a long call in
 * the kernel.
 */
static bool is_sample_overdue(const struct fgt_tick *tick,
			      const struct fgt_thread *thread)
{
	return is_in_each_period(tick) &&
	       thread->active->look->pending_ticks > OVERDUE_TICKS;
}

/*
 * It has run most of the time for some ticks, and its samples come all the time:
 * each tick has the one that is nearest to it, so that nothing that it does is
 * shown for longer than it does it.
 */
static bool is_steady(const struct fgt_look_thread *thread_look)
{
	int64_t gap_ns = (int64_t)(thread_look->times.from_ns -
				   thread_look->former_times.to_ns);

	return thread_look->former_times.to_ns && gap_ns < STEADY_NS &&
	       thread_look->busy_ticks >= STEADY_TICKS;
}

/* All long calls have a sample, of others one in several is kept: those that
 * were not are no part of the call. */
static uint64_t middle_between(const struct fgt_sample_times *former,
			       const struct fgt_sample_times *times)
{
	uint64_t left_ns = former->to_ns, right_ns = times->from_ns;

	if (times->is_of_long_call && times->before_ns > left_ns)
		left_ns = times->before_ns;
	if (former->is_of_long_call && former->next_ns)
		right_ns = former->next_ns;
	return (left_ns + right_ns) / 2;
}

/* Of the ticks that wait, those nearer to this sample than to the one before. */
static uint32_t count_nearer(const struct fgt_look *look,
			     const struct fgt_look_thread *thread_look)
{
	uint64_t middle_ns =
		middle_between(&thread_look->former_times, &thread_look->times);
	uint64_t tick = look->tick;
	uint32_t count = 0;

	while (count < thread_look->pending_ticks &&
	       count + 1 < FGT_LOOK_RECENT &&
	       look->recent_ns[--tick % FGT_LOOK_RECENT] >= middle_ns)
		count++;
	return count;
}

/* So many ticks waited for the signal that has come. */
static uint32_t take_signal_credit(struct fgt_look *look,
				   const struct fgt_tick *tick,
				   struct fgt_thread *thread)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	uint64_t blur_ns = thread_look->call_blur_ns;
	uint32_t credit;

	if (!blur_ns && is_sample_overdue(tick, thread))
		return 0;
	if (is_steady(thread_look)) {
		thread_look->pending_ticks = count_nearer(look, thread_look);
		return fgt_look_take_credit(look, thread);
	}
	credit = fgt_look_take_credit(look, thread);
	/* The first of them may have fallen before the call: a quarter of the
	 * blur, as measured. */
	if (blur_ns && credit && draw(look) % (4 * tick->event_ns) < blur_ns)
		credit--;
	return credit;
}

/*
 * Each signal stands for one tick, in their order: what a thread does last
 * before it blocks is then shown as often as what it does first. A tick that
 * finds it running before a signal came goes on with what is known until the
 * next one stands for it.
 *
 * Of signals there is one in each period in which it ran, one more than ticks
 * in a run: either the first or the last of a run is left out, and a coin
 * decides which. That of a run without a tick is shown at a tick of one without
 * a sample.
 */
static uint32_t credit_signal(struct fgt_look *look,
			      const struct fgt_tick *tick,
			      struct fgt_thread *thread)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	uint32_t credit = take_signal_credit(look, tick, thread);
	bool is_first = !thread_look->is_run_sampled;

	thread_look->is_run_sampled = true;
	/* If ticks waited for it, it stood for the first of them, and this one
	 * is left to the next sample; for those between none came. */
	thread_look->pending_ticks = is_first ? flip_coin(look) : credit > 0;
	/* The next one may be nearer to this tick. */
	if (is_steady(thread_look))
		thread_look->pending_ticks = 1;
	return credit;
}

static bool show_unshown(const struct fgt_look *look, struct fgt_thread *thread,
			 struct fgt_verdict *ret_verdict)
{
	struct fgt_look_thread *thread_look = thread->active->look;

	if (thread_look->pending_ticks || !thread_look->unshown.count ||
	    thread_look->unshown.generation != look->stacks.generation ||
	    look->tick - thread_look->unshown_tick > UNSHOWN_MAX_TICKS)
		return false;
	*ret_verdict = fgt_look_kept(look, &thread_look->unshown,
				     FGT_STATE_RUNNING, FGT_MARKER_NOT_SAMPLED);
	thread_look->unshown.count = 0;
	return true;
}

/* How long it keeps a CPU, on average; UINT64_MAX: it was last counted too long
 * ago. */
static uint64_t mean_slice_ns(struct fgt_look *look,
			      const struct fgt_tick *tick,
			      struct fgt_thread *thread)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	uint64_t elapsed_ns = tick->mono_ns - thread_look->counted_ns, switches;
	struct fgt_cpu_use use;

	if (elapsed_ns < COUNT_MIN_NS)
		return thread_look->slice_ns;
	if (fgt_schedstat_read(&look->threads, thread, &use) < 0)
		return UINT64_MAX;
	switches = use.switches - thread_look->counted_switches;
	thread_look->counted_switches = use.switches;
	thread_look->counted_ns = tick->mono_ns;
	thread_look->slice_ns = elapsed_ns <= COUNT_MAX_NS && switches
					? elapsed_ns / switches
					: UINT64_MAX;
	thread->is_restless = thread_look->slice_ns < RESTLESS_NS;
	return thread_look->slice_ns;
}

/*
 * Does it block and go on all the time? Such a thread may be in step with the
 * sampler: where the sampler takes the CPU that it waits on, it is woken
 * meanwhile, and found running at each tick; where it takes that of the thread
 * that wakes it, at none. False also where it was last counted too long ago.
 */
static bool is_restless(struct fgt_look *look, const struct fgt_tick *tick,
			struct fgt_thread *thread)
{
	return mean_slice_ns(look, tick, thread) < RESTLESS_NS;
}

/* Where it was blocked the last time that it was read; else unknown. */
static struct fgt_verdict find_blocked_somewhere(const struct fgt_look *look,
						 struct fgt_thread *thread)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	struct fgt_verdict verdict;

	if (fgt_look_last_block(look, thread, &verdict))
		return verdict;
	thread_look->pending_ticks = 0;
	fgt_look_thread_settle(thread, FGT_STATE_UNKNOWN);
	return fgt_look_kept(look, &thread_look->last_run, FGT_STATE_UNKNOWN,
			     FGT_MARKER_NOT_SAMPLED);
}

/* A tick that waits for a signal goes on with what is known, unless none will
 * come. */
static struct fgt_verdict wait_for_signal(const struct fgt_look *look,
					  const struct fgt_tick *tick,
					  struct fgt_thread *thread,
					  uint32_t state, enum fgt_marker leaf)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	struct fgt_verdict verdict;
	enum fgt_running_answer answer = fgt_look_ask(tick, thread);
	uint32_t credit = 0;

	thread_look->pending_ticks++;
	/* The ticks that waited had no sample either: they get the same marker.
	 * In the kernel, until the call ends and a sample shows it. */
	if (answer == FGT_RUNNING_IN_KERNEL) {
		leaf = FGT_MARKER_NOT_SAMPLED;
		if (thread_look->pending_ticks <= OVERDUE_TICKS)
			credit = thread_look->pending_ticks - 1;
	} else if (is_sample_overdue(tick, thread)) {
		leaf = FGT_MARKER_NOT_SAMPLED;
		if (thread_look->pending_ticks == OVERDUE_TICKS + 1)
			credit = OVERDUE_TICKS;
	} else if (answer == FGT_RUNNING_NO_SAMPLE) {
		leaf = FGT_MARKER_NOT_SAMPLED;
		credit = thread_look->pending_ticks - 1;
		thread_look->pending_ticks = 0;
	}
	verdict = fgt_look_kept(look, &thread_look->last_run, state, leaf);
	verdict.credit_ticks = credit;
	return verdict;
}

/* With which stack is it running, where signals come by themselves? */
static struct fgt_verdict find_signal_stack(struct fgt_look *look,
					    const struct fgt_tick *tick,
					    struct fgt_thread *thread,
					    uint32_t state, bool was_running)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	struct fgt_verdict verdict;
	uint32_t credit;

	/* The tick found it before the first sample of this run. Where it waits
	 * for a CPU meanwhile, no sample shows where. */
	if (thread_look->sample_tick == look->tick && thread_look->is_past &&
	    !was_running)
		return fgt_look_kept(look, &thread_look->last_run, state,
				     FGT_MARKER_NOT_SAMPLED);
	if (thread_look->sample_tick == look->tick) {
		credit = credit_signal(look, tick, thread);
		verdict = fgt_look_kept(look, &thread_look->last_run, state, 0);
		verdict.credit_ticks = credit;
		return verdict;
	}
	if (sample_by_stop(look, tick, thread, &verdict) ||
	    show_unshown(look, thread, &verdict))
		return verdict;
	return wait_for_signal(look, tick, thread, state,
			       was_running ? 0 : FGT_MARKER_NOT_SAMPLED);
}

static void show_late_signal(struct fgt_look *look, const struct fgt_tick *tick,
			     struct fgt_thread *thread,
			     struct fgt_verdict *verdict)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	struct fgt_verdict shown = fgt_look_kept(look, &thread_look->last_run,
						 FGT_STATE_RUNNING, 0);

	if (shown.kind != FGT_VERDICT_STACK) /* of images that are gone */
		return;
	if (thread->is_shown_running && thread_look->pending_ticks &&
	    (thread_look->call_blur_ns || !is_sample_overdue(tick, thread))) {
		fgt_verdict_set_past(verdict, &shown,
				     take_signal_credit(look, tick, thread));
	} else if (!thread->is_shown_running) {
		fgt_kept_stack_set(&thread_look->unshown, shown.frames,
				   shown.frame_count, look->stacks.generation);
		thread_look->unshown_tick = look->tick;
	}
}

/*
 * Samples of CPU time do not show where a thread waits for a CPU: one that
 * blocks now and then loses it above all where its calls end. One that does not
 * waits anywhere in what it runs.
 */
static bool waits_somewhere(const struct fgt_look *look,
			    const struct fgt_tick *tick,
			    const struct fgt_thread *thread, uint32_t state)
{
	uint64_t blocked_tick = thread->active->look->blocked_tick;

	return state == FGT_STATE_RUNNABLE && is_in_each_period(tick) &&
	       blocked_tick && look->tick - blocked_tick <= CALM_TICKS;
}

static struct fgt_verdict find_waiting_somewhere(struct fgt_look *look,
						 const struct fgt_tick *tick,
						 struct fgt_thread *thread)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	struct fgt_verdict verdict = fgt_look_kept(look, &thread_look->last_run,
						   FGT_STATE_RUNNABLE,
						   FGT_MARKER_NOT_SAMPLED);

	if (thread_look->sample_tick == look->tick)
		show_late_signal(look, tick, thread, &verdict);
	thread_look->pending_ticks = 0;
	fgt_look_thread_settle(thread, FGT_STATE_RUNNABLE);
	return verdict;
}

/* ---- The tick ----------------------------------------------------------- */

/* Where the provider has no time of waiting, it is read for threads that are
 * found so. What is from before the first reading is not shown. */
void fgt_look_read_wait(struct fgt_look *look, struct fgt_thread *thread)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	struct fgt_cpu_use use;

	if (!look->is_embedded ||
	    fgt_schedstat_read(&look->threads, thread, &use) < 0)
		return;
	if (thread_look->read_wait_ns)
		fgt_account_add_wait(&thread_look->account,
				     thread_look->read_wait_ns, use.wait_ns);
	thread_look->read_wait_ns = use.wait_ns;
}

/*
 * Found running at the tick, without events of every CPU. A thread that was
 * woken and still waits for its CPU where it blocked is known by its switches.
 * One that was put off looks the same as one that runs: which of the two it is
 * decides the account. More ticks than that pays for are not shown, except that
 * what runs may go on, unless it blocks again and again.
 */
struct fgt_verdict fgt_look_polled(struct fgt_look *look,
				   const struct fgt_tick *tick,
				   struct fgt_thread *thread)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	bool was_running = thread->is_shown_running;
	uint32_t state = FGT_STATE_RUNNING;
	struct fgt_verdict woken;

	fgt_look_read_wait(look, thread);
	if (fgt_look_woken(look, tick, thread, &woken))
		return woken;
	if (fgt_account_take_wait(&thread_look->account, tick->period_ns)) {
		state = FGT_STATE_RUNNABLE;
	} else if (!fgt_account_take_tick(&thread_look->account,
					  tick->period_ns)) {
		if (!was_running && !thread->is_new)
			return fgt_look_go_on(look, thread);
		if (was_running && is_restless(look, tick, thread))
			return find_blocked_somewhere(look, thread);
	}
	if (waits_somewhere(look, tick, thread, state))
		return find_waiting_somewhere(look, tick, thread);
	fgt_look_thread_settle(thread, state);
	thread_look->is_run_sampled &= was_running;
	return tick->running->timing == FGT_RUNNING_AFTER_TICKS
		       ? fgt_look_asked(look, tick, thread, state)
		       : find_signal_stack(look, tick, thread, state,
					   was_running);
}

/* It blocks in the call that the ticks without a sample were in, too. */
static void show_call(struct fgt_look *look, const struct fgt_tick *tick,
		      struct fgt_thread *thread, struct fgt_verdict *verdict)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	struct fgt_verdict shown = *verdict;

	if (!thread->is_shown_running || !thread_look->pending_ticks ||
	    fgt_look_ask(tick, thread) != FGT_RUNNING_IN_KERNEL)
		return;
	shown.state = FGT_STATE_RUNNING;
	fgt_verdict_set_past(verdict, &shown, thread_look->pending_ticks);
	look->credited_ticks += thread_look->pending_ticks;
}

void fgt_look_late_sample(struct fgt_look *look, const struct fgt_tick *tick,
			  struct fgt_thread *thread,
			  struct fgt_verdict *verdict)
{
	if (tick->running->timing == FGT_RUNNING_AFTER_TICKS)
		fgt_look_asked_late(look, tick, thread, verdict);
	else if (!is_in_each_period(tick))
		return;
	else if (thread->active->look->sample_tick == look->tick)
		show_late_signal(look, tick, thread, verdict);
	else
		show_call(look, tick, thread, verdict);
}

bool fgt_look_owed(struct fgt_look *look, const struct fgt_tick *tick,
		   struct fgt_thread *thread, struct fgt_verdict *ret_verdict)
{
	/* A thread that blocks at ticks alone does so for the sampler's sake. */
	if (tick->has_cpu_events ||
	    !fgt_account_is_overdue(&thread->active->look->account,
				    tick->period_ns) ||
	    mean_slice_ns(look, tick, thread) >
		    DISTURBED_TICKS * tick->period_ns)
		return false;
	*ret_verdict = fgt_look_polled(look, tick, thread);
	return true;
}
