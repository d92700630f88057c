/* SPDX-License-Identifier: Apache-2.0 */
#include "ringbuf/base/thread.h"

#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#define STACK_BYTES ((size_t)256 << 10)

struct seen {
	bool has_unblocked;
	size_t stack_bytes;
};

static void *look(void *context)
{
	struct seen *seen = context;
	pthread_attr_t attributes;
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	/* glibc keeps 32 and 33 for itself. */
	for (int number = 1; number < 32; number++)
		if (number != SIGKILL && number != SIGSTOP)
			seen->has_unblocked |= !sigismember(&mask, number);
	if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
		pthread_attr_getstacksize(&attributes, &seen->stack_bytes);
		pthread_attr_destroy(&attributes);
	}
	return NULL;
}

static struct seen run(size_t stack_bytes)
{
	struct seen seen = { false };
	pthread_t thread;

	assert_int_equal(fgt_thread_start(stack_bytes, look, &seen, &thread),
			 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return seen;
}

static void *post(void *ended)
{
	sem_post(ended);
	return NULL;
}

static void thread_without_a_name_is_detached(void **state)
{
	sem_t ended;

	(void)state;
	assert_int_equal(sem_init(&ended, 0, 0), 0);
	assert_int_equal(fgt_thread_start(STACK_BYTES, post, &ended, NULL), 0);
	assert_int_equal(sem_wait(&ended), 0);
}

static void thread_gets_no_signal_and_its_starter_all(void **state)
{
	sigset_t mask;

	(void)state;
	assert_false(run(0).has_unblocked);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	assert_false(sigismember(&mask, SIGTERM));
}

static void stack_is_as_large_as_wanted(void **state)
{
	(void)state;
	assert_in_range(run(STACK_BYTES).stack_bytes, STACK_BYTES,
			2 * STACK_BYTES);
	assert_true(run(0).stack_bytes > 2 * STACK_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thread_gets_no_signal_and_its_starter_all),
		cmocka_unit_test(stack_is_as_large_as_wanted),
		cmocka_unit_test(thread_without_a_name_is_detached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
