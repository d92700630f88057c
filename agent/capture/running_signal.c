/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers on the CPU time of threads, and the slots that their signals fill.
 * Runs in the sampler's thread; must not signal a thread that blocks the
 * signal, that is near the end of its stack, or whose system calls somebody
 * filters.
 */
#include "agent/capture/running_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/capture/io_uring_watch.h"
#include "agent/capture/running_signal_slot.h"
#include "agent/capture/signal_choice.h"
#include "agent/capture/signal_permission.h"
#include "agent/capture/thread_stack.h"

#define WORTH_SHARE 50u /* of a period, used in one tick */
#define CHECK_NS    500000000u
#define RETRY_NS    1000000000u
/* Of a thread that blocks the signal: many do for a moment only, in
 * pthread_create(3), and many for good. Of one whose stack has no room, too. */
#define RETRY_FIRST_NS	20000000u
#define RETRY_DOUBLINGS 6u
/* Who waits for signals has them unblocked until it is on a CPU again. */
#define LOOKS_MIN	2u
#define LOOKS_TAKER_MIN 6u
#define RETRY_ASLEEP_NS 50000000u /* it may be found running then */
#define PERIOD_MIN_NS	1000000u
/* Of CPU time between two signals: on a busy machine ticks of the kernel may
 * miss a thread for a while, but not for so long. */
#define STALE_NS	 50000000
#define OURS_NS		 40000000u /* as long as samples come */
#define CLOSE_TRIES	 1000
#define CLOSE_PAUSE_NS	 100000
#define SIGEV_TO_THREAD	 4 /* SIGEV_THREAD_ID */
#define PER_THREAD_CLOCK 6u /* CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED */

struct fgt_thread_signal {
	struct fgt_thread *thread;
	struct fgt_signal_slot *slot;
	int timer;
	uint64_t period_ns;
	struct fgt_thread_room room;
	uint64_t checked_ns;
	bool is_proven; /* its handler ran */
	uint32_t index; /* in armed */
};

struct fgt_running_signal {
	int number;
	uint64_t period_ns; /* of CPU time, between two signals of a thread */
	const char *lost; /* nobody is signalled any more, and why; or NULL */
	char refused[240]; /* some threads are not for long, and why; or "" */
	uint64_t ours_ns; /* when the signal was last seen to be ours */
	bool has_sample; /* at the last tick */
	unsigned long own_filters;
	struct fgt_thread_layout layout;
	bool is_layout_known;
	struct fgt_io_uring_watch io_uring;
	struct fgt_thread_signal *armed[FGT_SIGNAL_SLOTS_MAX];
	uint32_t armed_count;
	uint32_t next_slot; /* where to look for a free one */
};

/* One in a process; its slots stay mapped for good. */
static atomic_flag is_taken = ATOMIC_FLAG_INIT;

/* ---- The signal -------------------------------------------------------- */

/* In the child of a fork: it has none of our timers, and may begin anew. */
static void leave_to_child(void)
{
	fgt_signal_slots_forget();
	atomic_flag_clear(&is_taken);
	fgt_signal_choice_give_back();
}

/*
 * The kernel looks at such timers at its own ticks. Those that are due between
 * two ticks would show the beginnings of runs too often: what is due at the
 * end of one waits for the next. So each tick that finds the thread on a CPU
 * shall count, where ticks are not too many.
 */
static uint64_t choose_period(void)
{
	struct timespec tick;
	uint64_t ns = 0;

	if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0)
		ns = (uint64_t)tick.tv_nsec / 4;
	return ns < PERIOD_MIN_NS ? PERIOD_MIN_NS : ns;
}

int fgt_running_signal_open(struct fgt_running_signal **ret_signal,
			    struct fgt_why *why)
{
	struct fgt_running_signal *signal;
	int rc;

	if (atomic_flag_test_and_set(&is_taken))
		return fgt_why_set(why, -EBUSY,
				   "this process is sampled already");
	signal = calloc(1, sizeof(*signal));
	rc = signal ? fgt_signal_slots_map() : -ENOMEM;
	if (rc > 0)
		rc = -pthread_atfork(NULL, NULL, leave_to_child);
	if (rc == 0) {
		fgt_signal_table.pid = getpid();
		signal->own_filters = fgt_signal_permission_filters();
		signal->period_ns = choose_period();
		rc = fgt_signal_choice_take(&signal->number);
	}
	if (rc < 0) {
		free(signal);
		atomic_flag_clear(&is_taken);
		return fgt_why_set(why, rc,
				   rc == -ENOSPC
					   ? "the program handles SIGURG and "
					     "SIGWINCH itself: running threads "
					     "have no stacks; an agent samples "
					     "it from outside"
					   : "running threads have no stacks: "
					     "%s",
				   strerror(-rc));
	}
	*ret_signal = signal;
	return 0;
}

void fgt_running_signal_close(struct fgt_running_signal *signal)
{
	const struct timespec pause = { .tv_nsec = CLOSE_PAUSE_NS };

	if (!signal)
		return;
	while (signal->armed_count)
		fgt_running_signal_drop(signal, signal->armed[0]->thread);
	fgt_signal_choice_give_back();
	/* A handler may be put off its CPU; its slot stays in any case. */
	for (int i = 0; i < CLOSE_TRIES && fgt_signal_slots_are_written(); i++)
		nanosleep(&pause, NULL);
	free(signal);
	atomic_flag_clear(&is_taken);
}

static void lose(struct fgt_running_signal *signal, const char *why)
{
	signal->lost = why;
	while (signal->armed_count)
		fgt_running_signal_drop(signal, signal->armed[0]->thread);
}

static void lose_to_io_uring(struct fgt_running_signal *signal)
{
	lose(signal, "the program uses io_uring, and a signal would end its "
		     "waits: running threads keep the stacks that they had; an "
		     "agent samples it from outside");
}

/* A handler that ran was ours; but whoever takes its place may call it. */
static bool is_still_ours(struct fgt_running_signal *signal, uint64_t now_ns)
{
	bool has_sample = signal->has_sample;

	signal->has_sample = false;
	if (has_sample && now_ns - signal->ours_ns < OURS_NS)
		return true;
	signal->ours_ns = now_ns;
	return fgt_signal_choice_is_ours(signal->number);
}

const char *fgt_running_signal_check(struct fgt_running_signal *signal,
				     uint64_t now_ns)
{
	if (signal->lost)
		return signal->lost;
	if (!is_still_ours(signal, now_ns))
		lose(signal, "the program has taken the signal that sampled "
			     "it: running threads keep the stacks that they "
			     "had; an agent samples it from outside");
	else if (signal->armed_count &&
		 fgt_io_uring_watch_follow(&signal->io_uring, now_ns))
		lose_to_io_uring(signal);
	if (!signal->lost && signal->refused[0])
		return signal->refused;
	return signal->lost;
}

/* ---- Timers ------------------------------------------------------------ */

static int start_timer(struct fgt_thread_signal *armed)
{
	uint64_t ns = armed->period_ns;
	const struct itimerspec timer = {
		.it_value = { (time_t)(ns / 1000000000u),
			      (long)(ns % 1000000000u) },
		.it_interval = { (time_t)(ns / 1000000000u),
				 (long)(ns % 1000000000u) },
	};

	return syscall(SYS_timer_settime, armed->timer, 0, &timer, NULL) < 0
		       ? -errno
		       : 0;
}

static int make_timer(struct fgt_thread_signal *armed, int number)
{
	int32_t tid = armed->thread->tid;
	struct sigevent event = { .sigev_notify = SIGEV_TO_THREAD,
				  .sigev_signo = number };
	unsigned int clock = (~(unsigned int)tid << 3) | PER_THREAD_CLOCK;
	int rc;

	event.sigev_value.sival_ptr = fgt_signal_slot_value(armed->slot);
	event._sigev_un._tid = tid;
	if (syscall(SYS_timer_create, (clockid_t)clock, &event, &armed->timer) <
	    0)
		return -errno;
	rc = start_timer(armed);
	if (rc < 0)
		syscall(SYS_timer_delete, armed->timer);
	return rc;
}

/* A slot, if its stack has room for a handler. -ENOSPC. */
static int find_room(struct fgt_running_signal *signal,
		     struct fgt_thread_signal *armed, uint64_t now_ns)
{
	int32_t tid = armed->thread->tid;

	armed->room.low =
		fgt_thread_stack_low(&signal->layout, tid, &armed->room.high);
	if (!fgt_thread_has_room(&signal->layout, &armed->room, armed->thread,
				 now_ns))
		return -ENOSPC;
	armed->slot = fgt_signal_slot_get(&signal->next_slot, tid,
					  armed->room.low, armed->room.high);
	return armed->slot ? 0 : -ENOSPC;
}

/*
 * Does it leave our signal unblocked? Who waits for signals does while it
 * waits, and is still seen so when it is woken and waits for a CPU: that has
 * to be seen twice, with work in between, and more often of who is known to
 * wait so, without ever seeing it blocked. -EACCES; -EPERM never; -EAGAIN it
 * sleeps in a call that may change that; -EINPROGRESS not often enough so far.
 */
static int ask_permission(const struct fgt_running_signal *signal,
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

static int arm(struct fgt_running_signal *signal, struct fgt_thread *thread,
	       const struct fgt_perf_use *use)
{
	struct fgt_thread_signal *armed;
	int rc;

	if (!signal->is_layout_known)
		fgt_thread_layout_learn(&signal->layout);
	signal->is_layout_known = true;
	if (signal->armed_count == FGT_SIGNAL_SLOTS_MAX)
		return -ENOSPC;
	armed = calloc(1, sizeof(*armed));
	if (!armed)
		return -ENOMEM;
	*armed = (struct fgt_thread_signal){
		.thread = thread,
		.period_ns = signal->period_ns,
		.checked_ns = use->now_ns,
		.index = signal->armed_count,
	};
	rc = ask_permission(signal, thread);
	if (rc == 0 && fgt_io_uring_watch_ask(&signal->io_uring, use->now_ns)) {
		lose_to_io_uring(signal);
		rc = -EPERM;
	}
	if (rc == 0)
		rc = find_room(signal, armed, use->now_ns);
	if (rc == 0)
		rc = make_timer(armed, signal->number);
	if (rc < 0) {
		fgt_signal_slot_put(armed->slot);
		free(armed);
		return rc;
	}
	signal->armed[signal->armed_count++] = armed;
	thread->active->signal = armed;
	return 0;
}

void fgt_running_signal_drop(struct fgt_running_signal *signal,
			     struct fgt_thread *thread)
{
	struct fgt_thread_signal *armed = FGT_TAKE(thread->active->signal);
	struct fgt_thread_signal *last;

	if (!armed)
		return;
	syscall(SYS_timer_delete, armed->timer);
	fgt_signal_slot_put(armed->slot);
	last = signal->armed[--signal->armed_count];
	signal->armed[armed->index] = last;
	last->index = armed->index;
	free(armed);
}

/*
 * Still as it was when it got its timer? What it ran since it was last asked
 * may have changed that, and until the handler has run nothing is proven.
 * -EACCES, -EPERM, -ENOSPC, -ESRCH, -EINPROGRESS.
 */
static int check_fitness(struct fgt_running_signal *signal,
			 struct fgt_thread *thread,
			 const struct fgt_perf_use *use)
{
	struct fgt_thread_signal *armed = thread->active->signal;
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

static void adapt(struct fgt_thread *thread)
{
	struct fgt_thread_signal *armed = thread->active->signal;
	uint32_t bytes = fgt_thread_read_bytes(thread);

	if (bytes > FGT_SIGNAL_STACK_BYTES)
		bytes = FGT_SIGNAL_STACK_BYTES;
	if (bytes > FGT_SIGNAL_FIRST_BYTES)
		atomic_store_explicit(&armed->slot->want_bytes, bytes,
				      memory_order_relaxed);
}

/* When it is worth asking again. */
static uint64_t choose_pause(struct fgt_thread *thread, int rc)
{
	if (rc == -EAGAIN)
		return RETRY_ASLEEP_NS;
	if ((rc != -EACCES && rc != -ENOSPC) ||
	    thread->signal_refusals == RETRY_DOUBLINGS)
		return RETRY_NS;
	return RETRY_FIRST_NS << thread->signal_refusals++;
}

/* Not of one that is refused for a moment. */
static void note_refusal(struct fgt_running_signal *signal,
			 const struct fgt_thread *thread, int rc)
{
	char *text = signal->refused;
	size_t size = sizeof(signal->refused);

	if (thread->signal_refusals < RETRY_DOUBLINGS || *text)
		return;
	if (rc == -EACCES)
		snprintf(text, size,
			 "threads that block SIG%s have no stacks while they "
			 "run: unblock it in them, or let an agent sample the "
			 "program",
			 sigabbrev_np(signal->number));
	else if (rc == -ENOSPC && signal->armed_count < FGT_SIGNAL_SLOTS_MAX)
		snprintf(
			text, size,
			"threads that are near the end of their stack, or "
			"whose stack is locked in memory (mlockall), have no "
			"stacks while they run: give them larger ones that are "
			"not locked, or let an agent sample the program");
}

void fgt_running_signal_consider(struct fgt_running_signal *signal,
				 struct fgt_thread *thread,
				 const struct fgt_perf_use *use)
{
	int rc;

	if (signal->lost)
		return;
	if (thread->active->signal) {
		rc = check_fitness(signal, thread, use);
		if (rc == 0) {
			adapt(thread);
			return;
		}
		fgt_running_signal_drop(signal, thread);
		thread->active->perf_retry_ns =
			use->now_ns + choose_pause(thread, rc);
	}
	if (use->runtime_ns < use->event_ns / WORTH_SHARE ||
	    use->now_ns < thread->active->perf_retry_ns)
		return;
	rc = arm(signal, thread, use);
	if (rc == 0 || rc == -EINPROGRESS)
		return;
	note_refusal(signal, thread, rc);
	thread->active->perf_retry_ns = use->now_ns + choose_pause(thread, rc);
}

/* ---- Samples ----------------------------------------------------------- */

/* The signal that told of it has to be the last. */
static void refuse_foreign(struct fgt_running_signal *signal,
			   struct fgt_thread *thread)
{
	thread->is_fragile = true;
	if (signal->refused[0])
		return;
	snprintf(signal->refused, sizeof(signal->refused),
		 "threads that switch stacks themselves (coroutines) have no "
		 "stacks while they run, as nobody knows what room these have "
		 "for a signal: give them an alternate one (sigaltstack), or "
		 "let an agent sample the program");
}

static void hand_out(struct fgt_running_signal *signal,
		     struct fgt_thread_signal *armed,
		     const struct fgt_perf_handler *handler)
{
	const struct fgt_signal_slot *slot = armed->slot;
	const struct fgt_perf_sample sample = {
		.pid = fgt_signal_table.pid,
		.tid = slot->found_tid,
		.has_regs = true,
		.regs = slot->regs,
		.stack = slot->stack,
		.stack_len = slot->len_bytes,
		.stack_asked = atomic_load_explicit(&slot->want_bytes,
						    memory_order_relaxed),
	};

	if (slot->found_tid != armed->thread->tid)
		return;
	armed->is_proven = true;
	if (slot->is_foreign)
		refuse_foreign(signal, armed->thread);
	armed->thread->open_looks = LOOKS_TAKER_MIN;
	armed->thread->signal_refusals = 0;
	/* Blocked meanwhile: it speaks of the call that let it through. */
	if (slot->overrun * (int64_t)armed->period_ns > STALE_NS)
		return;
	if (handler->is_wanted(handler->context, sample.pid))
		handler->sample(handler->context, &sample);
}

void fgt_running_signal_drain(struct fgt_running_signal *signal,
			      const struct fgt_perf_handler *handler)
{
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
		/* Release: pairs with the acquire of fgt_signal_take(). */
		atomic_store_explicit(&armed->slot->state, FGT_SIGNAL_EMPTY,
				      memory_order_release);
	}
}
