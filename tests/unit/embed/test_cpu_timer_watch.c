/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers on the CPU time of this very process, and the signals that give way
 * to them.
 */
#include "agent/embed/signal/signal_watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"
#include "ringbuf/base/owner.h"
#include "tests/unit/embed/signal_kit.h"

#define TICK_NS	  1000000u
#define SECOND_NS 1000000000u
#define CALM_NS	  2000000000u /* as they are remembered */

/* It is set, and does not fire. */
static void set(int which, bool is_set)
{
	const struct itimerval timer = { .it_value = { is_set * 10000, 0 } };

	assert_int_equal(setitimer(which, &timer, NULL), 0);
}

static void both_kinds_are_seen(void **state)
{
	static const int kinds[] = { ITIMER_PROF, ITIMER_VIRTUAL };
	uint64_t now_ns = SECOND_NS;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct fgt_cpu_timer_watch watch = { .seen_ns = 0 };

		assert_false(fgt_cpu_timer_watch_ask(&watch, now_ns));
		set(kinds[i], true);
		assert_true(fgt_cpu_timer_watch_ask(&watch, now_ns));
		set(kinds[i], false);
		/* One that fires once is about to be set again. */
		now_ns += CALM_NS - 1;
		assert_true(fgt_cpu_timer_watch_ask(&watch, now_ns));
		assert_false(fgt_cpu_timer_watch_ask(&watch, now_ns + 1));
	}
}

static void a_timer_on_real_time_is_none(void **state)
{
	struct fgt_cpu_timer_watch watch = { .seen_ns = 0 };

	(void)state;
	set(ITIMER_REAL, true);
	assert_false(fgt_cpu_timer_watch_ask(&watch, SECOND_NS));
	set(ITIMER_REAL, false);
}

static bool is_seen_with(clockid_t clock, struct sigevent *event)
{
	struct fgt_cpu_timer_watch watch = { .seen_ns = 0 };
	timer_t timer;
	bool is_seen;

	assert_int_equal(timer_create(clock, event, &timer), 0);
	is_seen = fgt_cpu_timer_watch_ask(&watch, SECOND_NS);
	timer_delete(timer);
	assert_int_equal(is_seen, watch.seen_ns != 0);
	return is_seen;
}

static void timers_that_signal_the_process_are_seen(void **state)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIGPROF };

	(void)state;
	if (access("/proc/self/timers", R_OK) < 0)
		skip();
	assert_true(is_seen_with(CLOCK_PROCESS_CPUTIME_ID, &event));
	assert_true(is_seen_with(CLOCK_THREAD_CPUTIME_ID, &event));
	assert_false(is_seen_with(CLOCK_MONOTONIC, &event));
	event.sigev_notify = SIGEV_THREAD_ID;
	event._sigev_un._tid = gettid();
	assert_false(is_seen_with(CLOCK_PROCESS_CPUTIME_ID, &event));
}

/* Wherever it lies in a list that is longer than what is read at once. */
static void one_of_many_is_found(void **state)
{
	static const char other[] = "ID: 7\nsignal: 23/00007f0000000000\n"
				    "notify: signal/tid.12\nClockID: -94\n";
	static const char wanted[] = "ID: 7\nsignal: 27/0000000000000000\n"
				     "notify: signal/pid.12\nClockID: -6\n";

	(void)state;
	for (int before = 0; before < 200; before++) {
		FGT_AUTO(fgt_fd_close)
		int fd = memfd_create("timers", MFD_CLOEXEC);

		for (int i = 0; i < before; i++)
			assert_int_equal(write(fd, other, strlen(other)),
					 strlen(other));
		lseek(fd, 0, SEEK_SET);
		assert_int_equal(fgt_cpu_timer_find(&fd, 0), 0);
		assert_int_equal(write(fd, wanted, strlen(wanted)),
				 strlen(wanted));
		lseek(fd, 0, SEEK_SET);
		assert_int_equal(fgt_cpu_timer_find(&fd, 0), 1);
	}
}

/* No thread would be sampled for as long as reading all of them takes. */
static void not_all_of_too_many_are_read(void **state)
{
	static const char other[] = "ID: 7\nsignal: 23/00007f0000000000\n"
				    "notify: signal/tid.12\nClockID: -94\n";
	FGT_AUTO(fgt_fd_close)
	int fd = memfd_create("timers", MFD_CLOEXEC);

	(void)state;
	for (int i = 0; i < 2000; i++)
		assert_int_equal(write(fd, other, strlen(other)),
				 strlen(other));
	lseek(fd, 0, SEEK_SET);
	assert_int_equal(fgt_cpu_timer_find(&fd, 0), -E2BIG);
	assert_true(lseek(fd, 0, SEEK_CUR) <= 65536);
	/* Our own are no reason to give up. */
	lseek(fd, 0, SEEK_SET);
	assert_int_equal(fgt_cpu_timer_find(&fd, 1500), 0);
	close(fd);
	assert_int_equal(fgt_cpu_timer_find(&fd, 0), -EBADF);
	assert_int_equal(fd, -1);
}

static void what_cannot_be_read_now_is_as_it_was(void **state)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIGPROF };
	struct fgt_cpu_timer_watch watch = { .seen_ns = 0 };
	struct rlimit before, none;
	uint64_t now_ns = SECOND_NS;
	bool is_seen[3];
	timer_t timer;

	(void)state;
	if (access("/proc/self/timers", R_OK) < 0)
		skip();
	assert_int_equal(timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer),
			 0);
	assert_true(fgt_cpu_timer_watch_ask(&watch, now_ns));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ 0, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (int i = 0; i < 3; i++)
		is_seen[i] = fgt_cpu_timer_watch_ask(&watch, now_ns += CALM_NS);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	timer_delete(timer);
	assert_true(is_seen[0] && is_seen[1] && is_seen[2]);
	assert_false(fgt_cpu_timer_watch_ask(&watch, now_ns + CALM_NS));
}

/* Busy for some ticks: does it have a timer then? */
static bool gets_timer(void *signal, struct fgt_thread *thread,
		       uint64_t *now_ns)
{
	struct fgt_running_use use = { .period_ns = TICK_NS,
				       .event_ns = TICK_NS,
				       .runtime_ns = TICK_NS };

	for (int i = 0; i < 4; i++) {
		use.now_ns = *now_ns += TICK_NS;
		fgt_running_signal.consider(signal, thread, &use);
	}
	return thread->active->source;
}

static void signals_give_way_and_come_back(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_active_thread active = { .syscall_fd = -1 };
	struct fgt_thread thread = { .tid = gettid(), .active = &active };
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	const char *why;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	set(ITIMER_PROF, true);
	/* No other thread can get what is for the only one. */
	assert_null(fgt_running_signal.limit(signal, 1, now_ns));
	assert_true(gets_timer(signal, &thread, &now_ns));
	why = fgt_running_signal.limit(signal, 2, now_ns);
	assert_non_null(why);
	assert_non_null(strstr(why, "setitimer"));
	assert_null(active.source);
	assert_false(gets_timer(signal, &thread, &now_ns));
	set(ITIMER_PROF, false);
	assert_non_null(fgt_running_signal.limit(signal, 2, now_ns));
	now_ns += CALM_NS;
	assert_null(fgt_running_signal.limit(signal, 2, now_ns));
	assert_true(gets_timer(signal, &thread, &now_ns));
	/* The timer counts where it came while no thread was signalled, too. */
	fgt_running_signal.drop(signal, &thread);
	set(ITIMER_PROF, true);
	assert_null(fgt_running_signal.limit(signal, 2, now_ns));
	assert_false(gets_timer(signal, &thread, &now_ns));
	assert_non_null(fgt_running_signal.limit(signal, 2, now_ns));
	set(ITIMER_PROF, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_kinds_are_seen),
		cmocka_unit_test(a_timer_on_real_time_is_none),
		cmocka_unit_test(timers_that_signal_the_process_are_seen),
		cmocka_unit_test(one_of_many_is_found),
		cmocka_unit_test(not_all_of_too_many_are_read),
		cmocka_unit_test(what_cannot_be_read_now_is_as_it_was),
		cmocka_unit_test(signals_give_way_and_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
