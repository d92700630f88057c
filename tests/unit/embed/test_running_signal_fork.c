/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers and signals in the child of a fork.
 */
#include "tests/unit/embed/signal_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"

#define PERIOD_NS 9900990u

/* One look is not enough. */
static void consider_twice(void *signal, struct fgt_thread *thread,
			   const struct fgt_running_use *use)
{
	fgt_running_signal.consider(signal, thread, use);
	fgt_running_signal.consider(signal, thread, use);
}

/* It inherits neither timers nor the mark that they are taken. */
static void the_child_of_a_fork_begins_again(void **state)
{
	FGT_AUTO(kit_signal_close) void *signal = NULL;
	struct fgt_active_thread active = { .syscall_fd = -1 };
	struct fgt_thread thread = { .tid = gettid(), .active = &active };
	const struct fgt_running_use use = {
		.now_ns = fgt_clock_ns(CLOCK_MONOTONIC),
		.period_ns = PERIOD_NS,
		.event_ns = PERIOD_NS,
		.runtime_ns = PERIOD_NS,
	};
	int status;
	pid_t child;

	(void)state;
	assert_int_equal(kit_signal_open(&signal, NULL), 0);
	consider_twice(signal, &thread, &use);
	assert_non_null(active.source);
	child = fork();
	if (child == 0) {
		void *own = NULL;
		struct fgt_active_thread fresh = { .syscall_fd = -1 };
		struct fgt_thread mine = { .tid = gettid(), .active = &fresh };

		if (kit_signal_open(&own, NULL) < 0)
			_exit(1);
		consider_twice(own, &mine, &use);
		_exit(fresh.source ? 0 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	fgt_running_signal.drop(signal, &thread);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_child_of_a_fork_begins_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
