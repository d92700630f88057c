/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers on the CPU time of threads, and the slots that their signals fill.
 * Runs in the sampler's thread; must not signal a thread that blocks the
 * signal, that is near the end of its stack, or whose system calls are
 * filtered.
 */
#include "agent/embed/signal/running_signal.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "agent/embed/signal/signal_permission.h"
#include "agent/embed/signal/signal_source.h"
#include "agent/embed/signal/thread_timer.h"

#define WORTH_SHARE 50u /* of a period, used in one tick */
#define CHECK_NS    500000000u
/* A thread that waits for signals has them unblocked until it is on a CPU. */
#define LOOKS_MIN	2u
#define LOOKS_TAKER_MIN 6u
/* CPU time between two signals: on a busy machine ticks of the kernel may miss
 * a thread, but not for so long. */
#define STALE_NS   50000000u
#define RECHECK_NS 40000000u /* as long as samples come */
#define LOOK_NS	   100000000u /* between two looks for handlers */
#define FULL_TICKS 16u
/* In so many, a thread that runs returns to user mode at a tick of the kernel,
 * or is in a call. */
#define QUIET_TICKS    3u
#define CLOSE_TRIES    1000
#define CLOSE_PAUSE_NS 100000

#define STACKS_ARE_KEPT	    "running threads keep the stacks that they had: "
#define SAMPLE_FROM_OUTSIDE ": let an agent sample the program from outside"

/* One in a process; its slots stay mapped for ever. */
static atomic_flag is_taken = ATOMIC_FLAG_INIT;

/* ---- The signal -------------------------------------------------------- */

/* In the child of a fork: it has none of these timers, and may begin again. */
static void leave_to_child(void)
{
	fgt_signal_slots_forget();
	atomic_flag_clear(&is_taken);
	fgt_signal_choice_give_back();
}

static int signal_open(struct fgt_fd_budget *budget, uint64_t period_ns,
		       void **ret_state, struct fgt_why *why)
{
	struct signal_source *signal;
	int rc;

	(void)budget;
	(void)period_ns;
	if (atomic_flag_test_and_set(&is_taken))
		return fgt_why_set(why, -EBUSY,
				   "this process is sampled already: stop that "
				   "first");
	signal = calloc(1, sizeof(*signal));
	rc = signal ? fgt_signal_slots_map() : -ENOMEM;
	if (rc > 0)
		rc = -pthread_atfork(NULL, NULL, leave_to_child);
	if (rc == 0) {
		fgt_signal_table.pid = getpid();
		signal->own_filters = fgt_signal_permission_filters();
		signal->ticks.apart_ns = fgt_thread_timer_kernel_tick();
		rc = fgt_signal_choice_take(&signal->number);
	}
	if (rc < 0) {
		free(signal);
		atomic_flag_clear(&is_taken);
		return fgt_why_set(
			why, rc,
			rc == -ENOSPC ? "running threads have no stacks: "
					"the program handles SIGURG and "
					"SIGWINCH itself" SAMPLE_FROM_OUTSIDE
				      : "running threads have no stacks: "
					"%s",
			strerror(-rc));
	}
	*ret_state = signal;
	return 0;
}

/* The handler has stopped its timer for ever. */
static bool is_foreign(const struct fgt_thread_signal *armed)
{
	return atomic_load_explicit(&armed->slot->is_foreign,
				    memory_order_seq_cst);
}

static void signal_drop(void *state, struct fgt_thread *thread)
{
	struct signal_source *signal = state;
	struct fgt_thread_signal *armed = FGT_TAKE(thread->active->source);
	struct fgt_thread_signal *last;

	if (!armed)
		return;
	fgt_thread_timer_end(armed->timer);
	if (is_foreign(armed))
		fgt_signal_refusals_note_foreign(&signal->refusals, thread);
	fgt_signal_slot_put(armed->slot);
	last = signal->armed[--signal->armed_count];
	signal->armed[armed->index] = last;
	last->index = armed->index;
	free(armed);
}

static void drop_all(struct signal_source *signal)
{
	while (signal->armed_count)
		signal_drop(signal, signal->armed[0]->thread);
}

static void signal_close(void *state)
{
	struct signal_source *signal = state;
	const struct timespec pause = { .tv_nsec = CLOSE_PAUSE_NS };

	if (!signal)
		return;
	drop_all(signal);
	fgt_signal_choice_give_back();
	/* A handler may be put off its CPU; its slot stays in any case. */
	for (int i = 0; i < CLOSE_TRIES && fgt_signal_slots_are_written(); i++)
		nanosleep(&pause, NULL);
	free(signal);
	atomic_flag_clear(&is_taken);
}

static void lose(struct signal_source *signal, const char *why)
{
	signal->lost = why;
	drop_all(signal);
}

static const char io_uring_is_used[] = STACKS_ARE_KEPT
	"a signal would end the program's waits in "
	"io_uring" SAMPLE_FROM_OUTSIDE;
static const char signal_is_taken[] = STACKS_ARE_KEPT
	"the program has taken the sampler's signal" SAMPLE_FROM_OUTSIDE;
static const char other_timers[] = STACKS_ARE_KEPT
	"the program has a timer on its CPU time (setitimer, "
	"timer_create), or too many timers to "
	"check" SAMPLE_FROM_OUTSIDE;

/* A handler that ran was this one; but its replacement may call it. Where no
 * thread is signalled there is time to ask. */
static bool is_still_handled(struct signal_source *signal, uint64_t now_ns)
{
	bool is_calm = signal->has_sample || !signal->armed_count;

	signal->has_sample = false;
	if (is_calm && now_ns - signal->last_check_ns < RECHECK_NS)
		return true;
	signal->last_check_ns = now_ns;
	return fgt_signal_choice_is_kept(signal->number);
}

/*
 * Drops all timers while the program has one on its CPU time. With one thread,
 * no other can get that timer's signal; while no thread is signalled, nothing
 * delays it.
 */
static void yield(struct signal_source *signal, uint64_t now_ns)
{
	signal->cpu_timers.own_timers = signal->armed_count;
	if (signal->threads <= 1)
		signal->has_yielded = false;
	else if (signal->has_yielded || signal->armed_count)
		signal->has_yielded =
			fgt_cpu_timer_watch_ask(&signal->cpu_timers, now_ns);
	if (signal->has_yielded)
		drop_all(signal);
}

static void look_for_handlers(struct signal_source *signal, uint64_t now_ns)
{
	signal->last_look_ns = now_ns;
	fgt_signal_look_for_handlers(signal->number);
}

static const char *signal_limit(void *state, uint32_t threads, uint64_t now_ns)
{
	struct signal_source *signal = state;

	if (signal->lost)
		return signal->lost;
	if (!is_still_handled(signal, now_ns))
		lose(signal, signal_is_taken);
	else if (signal->armed_count &&
		 fgt_io_uring_watch_follow(&signal->io_uring, now_ns))
		lose(signal, io_uring_is_used);
	if (signal->lost)
		return signal->lost;
	if (now_ns - signal->last_look_ns >= LOOK_NS)
		look_for_handlers(signal, now_ns);
	signal->threads = threads;
	yield(signal, now_ns);
	if (signal->has_yielded)
		return other_timers;
	return signal->refusals.text[0] ? signal->refusals.text : NULL;
}

/* ---- Threads ------------------------------------------------------------ */

/* A slot, if its stacks have room for a handler. -ENOSPC, -EPERM. */
static int find_room(struct signal_source *signal,
		     struct fgt_thread_signal *armed, uint64_t now_ns)
{
	if (!fgt_signal_has_safe_stacks(armed->thread))
		return -EPERM;
	armed->room.low = fgt_thread_stack_low(
		&signal->layout, armed->thread->tid, &armed->room.high);
	if (!fgt_thread_has_room(&signal->layout, &armed->room, armed->thread,
				 now_ns))
		return -ENOSPC;
	armed->slot = fgt_signal_slot_get(
		&signal->next_slot, armed->thread->tid, armed->room.low,
		armed->room.high,
		armed->room.low != 0 || signal->layout.stack_offset);
	return armed->slot ? 0 : -ENOSPC;
}

/*
 * 0 if the thread leaves the signal unblocked. A thread that waits for signals
 * (sigwait(3)) has them unblocked until it is on a CPU again. So it must be
 * seen unblocked twice, with work in between, and more often if it is known to
 * wait so. -EACCES: blocked; -EPERM: never; -EAGAIN: it sleeps in a call that
 * may change that; -EINPROGRESS: not seen often enough so far.
 */
static int ask_permission(const struct signal_source *signal,
			  struct fgt_thread *thread)
{
	uint8_t looks_min = thread->takes_signals ? LOOKS_TAKER_MIN : LOOKS_MIN;
	int rc = -EPERM;

	if (!thread->is_fragile)
		rc = fgt_signal_permission_ask(thread->tid, signal->number,
					       signal->own_filters);
	if (rc == -EACCES || rc == -EPERM)
		thread->open_looks = 0;
	if (rc < 0 || thread->open_looks >= looks_min)
		return rc;
	return ++thread->open_looks < looks_min ? -EINPROGRESS : 0;
}

/* -EPERM: no thread of the program may be signalled. */
static int ask_program(struct signal_source *signal, uint64_t now_ns)
{
	if (!signal->armed_count && !fgt_signal_choice_is_kept(signal->number))
		lose(signal, signal_is_taken);
	else if (fgt_io_uring_watch_ask(&signal->io_uring, now_ns))
		lose(signal, io_uring_is_used);
	if (signal->lost)
		return -EPERM;
	/* With armed timers, yield() has asked at this tick. */
	if (!signal->armed_count && signal->threads > 1)
		signal->has_yielded =
			fgt_cpu_timer_watch_ask(&signal->cpu_timers, now_ns);
	/* On a busy machine the next tick may come too late for it. */
	if (signal->last_look_ns != now_ns)
		look_for_handlers(signal, now_ns);
	return signal->has_yielded ? -EPERM : 0;
}

static int arm(struct signal_source *signal, struct fgt_thread *thread,
	       const struct fgt_running_use *use)
{
	struct fgt_thread_signal *armed;
	int rc;

	if (!signal->layout.need_bytes)
		fgt_thread_layout_learn(&signal->layout);
	if (signal->armed_count == FGT_SIGNAL_SLOTS_MAX)
		return -ENOSPC;
	armed = calloc(1, sizeof(*armed));
	if (!armed)
		return -ENOMEM;
	*armed = (struct fgt_thread_signal){
		.thread = thread,
		.period_ns = fgt_thread_timer_period(signal->ticks.apart_ns),
		.checked_ns = use->now_ns,
		.index = signal->armed_count,
	};
	rc = ask_permission(signal, thread);
	if (rc == 0)
		rc = ask_program(signal, use->now_ns);
	if (rc == 0)
		rc = find_room(signal, armed, use->now_ns);
	if (rc == 0)
		rc = fgt_thread_timer_start(thread->tid, signal->number,
					    fgt_signal_slot_value(armed->slot),
					    armed->period_ns, &armed->timer);
	if (rc < 0) {
		fgt_signal_slot_put(armed->slot);
		free(armed);
		return rc;
	}
	signal->armed[signal->armed_count++] = armed;
	thread->active->source = armed;
	return 0;
}

/*
 * 0 if the thread is still as it was when it got its timer: what it ran since
 * may have changed that, and until the handler has run nothing is proven.
 * -EACCES, -EPERM, -ENOSPC, -ESRCH, -EINPROGRESS.
 */
static int check_fitness(struct signal_source *signal,
			 struct fgt_thread *thread,
			 const struct fgt_running_use *use)
{
	struct fgt_thread_signal *armed = thread->active->source;
	int rc;

	if (thread->is_fragile)
		return -EPERM;
	if (use->runtime_ns &&
	    !fgt_thread_has_room(&signal->layout, &armed->room, thread,
				 use->now_ns))
		return -ENOSPC;
	if ((armed->is_proven || !use->runtime_ns) &&
	    use->now_ns - armed->checked_ns < CHECK_NS)
		return 0;
	armed->checked_ns = use->now_ns;
	rc = ask_permission(signal, thread);
	return rc == -EAGAIN ? 0 : rc;
}

/*
 * A signal at each tick of the kernel, or one end of a thread's runs would be
 * shown more often than the other. A thread that runs all the time has no such
 * ends, and gets few more signals than are needed.
 */
static void choose_period(const struct signal_source *signal,
			  struct fgt_thread_signal *armed,
			  const struct fgt_running_use *use)
{
	uint64_t tick_ns = signal->ticks.apart_ns, period_ns;

	if (!use->is_throughout)
		armed->full_ticks = 0;
	else if (armed->full_ticks < FULL_TICKS)
		armed->full_ticks++;
	period_ns = armed->full_ticks == FULL_TICKS
			    ? fgt_thread_timer_rare(tick_ns, use->period_ns)
			    : fgt_thread_timer_period(tick_ns);
	if (period_ns == armed->period_ns || is_foreign(armed))
		return;
	armed->period_ns = period_ns;
	(void)fgt_thread_timer_change(armed->timer, period_ns);
	/* What has been stopped meanwhile stays so. */
	if (is_foreign(armed))
		(void)fgt_thread_timer_change(armed->timer, 0);
}

static void adapt(const struct signal_source *signal, struct fgt_thread *thread,
		  const struct fgt_running_use *use)
{
	struct fgt_thread_signal *armed = thread->active->source;

	choose_period(signal, armed, use);
	/* In the kernel it gets none, whether it goes on running or not. */
	if (armed->quiet_ticks < QUIET_TICKS)
		armed->quiet_ticks =
			use->is_throughout ? armed->quiet_ticks + 1u : 0;
	fgt_signal_slot_set_period(armed->slot, armed->period_ns,
				   armed->quiet_ticks || use->is_throughout);
	fgt_signal_slot_want(armed->slot, fgt_thread_read_bytes(thread),
			     thread->active->interrupted_sp);
}

static void signal_consider(void *state, struct fgt_thread *thread,
			    const struct fgt_running_use *use)
{
	struct signal_source *signal = state;
	int rc;

	/* What it used before the recording began is not shown. */
	if (signal->lost || signal->has_yielded ||
	    (use->is_new && use->is_first_tick))
		return;
	if (thread->active->source) {
		rc = check_fitness(signal, thread, use);
		if (rc == 0) {
			adapt(signal, thread, use);
			return;
		}
		signal_drop(signal, thread);
		thread->active->source_retry_ns =
			use->now_ns + fgt_signal_refusals_pause(thread, rc);
	}
	if (use->runtime_ns < use->event_ns / WORTH_SHARE ||
	    use->now_ns < thread->active->source_retry_ns)
		return;
	rc = arm(signal, thread, use);
	if (rc == 0 || rc == -EINPROGRESS)
		return;
	if (signal->armed_count < FGT_SIGNAL_SLOTS_MAX)
		fgt_signal_refusals_note(&signal->refusals, thread, rc,
					 signal->number);
	thread->active->source_retry_ns =
		use->now_ns + fgt_signal_refusals_pause(thread, rc);
}

/*
 * On a foreign stack, the handler has stopped the timer. The kernel delivers
 * signals when a thread returns to user mode: one that has run for ticks
 * without any is in a call still, unless it blocks the signal.
 */
static enum fgt_running_answer
signal_ask(void *state, struct fgt_thread *thread, uint64_t now_ns)
{
	const struct signal_source *signal = state;
	struct fgt_thread_signal *armed = thread->active->source;
	int rc;

	(void)now_ns;
	if (!armed || is_foreign(armed))
		return FGT_RUNNING_NO_SAMPLE;
	if (armed->quiet_ticks < QUIET_TICKS)
		return FGT_RUNNING_SAMPLE_COMES;
	rc = fgt_signal_permission_ask(thread->tid, signal->number,
				       signal->own_filters);
	armed->is_in_call = rc == 0 || rc == -EAGAIN;
	return armed->is_in_call ? FGT_RUNNING_IN_KERNEL
				 : FGT_RUNNING_NO_SAMPLE;
}

/* ---- Samples ----------------------------------------------------------- */

static void hand_out(struct signal_source *signal,
		     struct fgt_thread_signal *armed,
		     const struct fgt_running_handler *handler)
{
	const struct fgt_signal_slot *slot = armed->slot;
	struct fgt_running_sample sample = fgt_signal_slot_sample(slot);

	if (slot->found_tid != armed->thread->tid)
		return;
	armed->is_proven = true;
	armed->thread->active->has_room_aside = slot->has_room_aside;
	if (is_foreign(armed))
		fgt_signal_refusals_note_foreign(&signal->refusals,
						 armed->thread);
	armed->thread->open_looks = LOOKS_TAKER_MIN;
	armed->thread->signal_refusals = 0;
	/* Blocked meanwhile: it shows the call that let it through. */
	if (slot->overrun * (int64_t)armed->period_ns > STALE_NS &&
	    !armed->is_in_call)
		return;
	if (slot->is_of_long_call)
		sample.call_blur_ns = armed->period_ns > signal->ticks.apart_ns
					      ? armed->period_ns
					      : signal->ticks.apart_ns;
	fgt_signal_date(&signal->ticks, slot, &sample);
	if (handler->is_wanted(handler->context, sample.pid))
		handler->sample(handler->context, &sample);
}

static void signal_drain(void *state, const struct fgt_running_handler *handler)
{
	struct signal_source *signal = state;

	for (uint32_t i = 0; i < signal->armed_count; i++) {
		struct fgt_thread_signal *armed = signal->armed[i];
		unsigned int full = FGT_SIGNAL_FULL;

		/* Acquire: pairs with the release of fgt_signal_take(). */
		if (!atomic_compare_exchange_strong_explicit(
			    &armed->slot->state, &full, FGT_SIGNAL_READING,
			    memory_order_acquire, memory_order_relaxed))
			continue;
		signal->has_sample = true;
		hand_out(signal, armed, handler);
		armed->quiet_ticks = 0;
		armed->is_in_call = false;
		/* Release: pairs with the acquire of fgt_signal_take(). */
		atomic_store_explicit(&armed->slot->state, FGT_SIGNAL_EMPTY,
				      memory_order_release);
	}
}

const struct fgt_running fgt_running_signal = {
	.name = "signal",
	.timing = FGT_RUNNING_IN_EACH_PERIOD,
	.open = signal_open,
	.close = signal_close,
	.drain = signal_drain,
	.consider = signal_consider,
	.drop = signal_drop,
	.ask = signal_ask,
	.limit = signal_limit,
};
