/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler on the threads of real processes: busy, blocked, short-lived.
 * Run by root, everything runs a second time as an ordinary user.
 */
#include "live_target.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void *be_locked_out(void *argument)
{
	pthread_mutex_lock(&held);
	return argument;
}

static void act_mixed(void)
{
	pthread_mutex_lock(&held);
	start_thread("busy", be_busy);
	start_thread("asleep", be_asleep);
	start_thread("waiting", be_waiting);
	start_thread("locked", be_locked_out);
	pause();
}

static void act_pause(void)
{
	pause();
}

static void act_busy(void)
{
	be_busy(NULL);
}

static void *burn_and_end(void *argument)
{
	pthread_setname_np(pthread_self(), "mayfly");
	burn_ms(25);
	return argument;
}

static void act_churn(void)
{
	for (;;) {
		pthread_t thread;

		pthread_create(&thread, NULL, burn_and_end, NULL);
		pthread_join(thread, NULL);
	}
}

static void act_end_first_thread(void)
{
	start_thread("survivor", be_asleep);
	pthread_exit(NULL);
}

static void busy_and_blocked_threads_are_told_apart(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_slice *slice;
	unsigned int truncated = 0;
	uint64_t from_ns;

	start_child(fixture, act_mixed);
	attach(fixture);
	from_ns = now_ns() + 200000000u;
	sleep_ms(1100);
	cut(fixture, from_ns);
	slice = fixture->slice;
	assert_int_equal(slice->thread_count, 5);
	assert_true(share(slice, "busy", "running") > 90);
	assert_true(share(slice, "asleep", "clock_nanosleep") +
			    share(slice, "asleep", "running") >
		    99);
	assert_true(share(slice, "asleep", "clock_nanosleep") > 60);
	assert_true(share(slice, "waiting", "epoll_wait") == 100);
	assert_true(share(slice, "locked", "futex") == 100);
	assert_true(share(slice, "test_sampler", "pause") == 100);
	for (uint32_t i = 0; i < slice->run_count; i++) {
		assert_int_not_equal(slice->runs[i].stack, FGT_NODE_NONE);
		truncated += is_truncated(slice, slice->runs[i].stack);
	}
	assert_true(truncated * 100 <= slice->run_count);
}

static void threads_that_never_used_a_cpu_are_seen(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target_status status;

	start_child(fixture, act_pause);
	attach(fixture);
	sleep_ms(300);
	cut(fixture, 0);
	assert_int_equal(fixture->slice->thread_count, 1);
	assert_true(share(fixture->slice, NULL, "pause") > 90);
	fgt_target_get_status(fixture->target, &status);
	assert_true(status.is_alive);
	assert_int_equal(status.threads, 1);
	/* Read once; then its run simply went on. */
	assert_in_range(status.samples_blocked, 1, 4);
}

static void short_lived_threads_leave_the_table(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target_status status;

	start_child(fixture, act_churn);
	attach(fixture);
	sleep_ms(900);
	cut(fixture, 0);
	fgt_target_get_status(fixture->target, &status);
	assert_in_range(status.threads, 1, 4);
	assert_true(count_threads(fixture->slice, "mayfly") > 8);
	assert_true(share(fixture->slice, "mayfly", "running") > 20);
}

static void the_first_thread_may_end_before_the_others(void **state)
{
	struct fixture *fixture = *state;
	uint64_t from_ns;

	start_child(fixture, act_end_first_thread);
	attach(fixture);
	from_ns = now_ns() + 50000000u;
	sleep_ms(400);
	cut(fixture, from_ns);
	assert_true(fgt_target_is_alive(fixture->target));
	assert_int_equal(fixture->slice->thread_count, 1);
	assert_true(share(fixture->slice, "survivor", "clock_nanosleep") > 60);
}

static void the_rate_can_be_changed(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target_status before, after;

	start_child(fixture, act_busy);
	attach(fixture);
	fgt_sampler_set_hz(fixture->sampler, 500);
	sleep_ms(200);
	fgt_target_get_status(fixture->target, &before);
	sleep_ms(600);
	fgt_target_get_status(fixture->target, &after);
	assert_in_range(after.ticks + after.missed_ticks - before.ticks -
				before.missed_ticks,
			240, 400);
	assert_true(after.samples_running > before.samples_running);
}

static unsigned int *failures; /* shared with the child */

static void *wait_and_measure(void *argument)
{
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);

	for (;;) {
		struct timespec pause = { .tv_nsec = 12000000 };
		uint64_t begin = now_ns();

		if (epoll_wait(fd, &event, 1, 25) != 0 ||
		    now_ns() - begin < 24900000)
			__atomic_fetch_add(failures, 1, __ATOMIC_RELAXED);
		begin = now_ns();
		if (nanosleep(&pause, NULL) != 0 || now_ns() - begin < 12000000)
			__atomic_fetch_add(failures, 1, __ATOMIC_RELAXED);
		burn_ms(4);
		__atomic_fetch_add(failures + 1, 1, __ATOMIC_RELAXED);
	}
	return argument;
}

static void act_measure(void)
{
	for (int i = 0; i < 4; i++)
		start_thread("measure", wait_and_measure);
	pause();
}

static void blocking_calls_last_as_long_as_asked(void **state)
{
	struct fixture *fixture = *state;

	__atomic_store_n(failures, 0, __ATOMIC_RELAXED);
	__atomic_store_n(failures + 1, 0, __ATOMIC_RELAXED);
	start_child(fixture, act_measure);
	attach(fixture);
	sleep_ms(1100);
	assert_int_equal(__atomic_load_n(failures, __ATOMIC_RELAXED), 0);
	assert_true(__atomic_load_n(failures + 1, __ATOMIC_RELAXED) > 20);
}

static int run_group(const char *user)
{
	const struct CMUnitTest tests[] = {
		LIVE(busy_and_blocked_threads_are_told_apart),
		LIVE(threads_that_never_used_a_cpu_are_seen),
		LIVE(short_lived_threads_leave_the_table),
		LIVE(the_first_thread_may_end_before_the_others),
		LIVE(the_rate_can_be_changed),
		LIVE(blocking_calls_last_as_long_as_asked),
	};

	print_message("threads, %s\n", user);
	return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}

int main(void)
{
	failures = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (failures == MAP_FAILED)
		return 1;
	return run_twice(run_group);
}
