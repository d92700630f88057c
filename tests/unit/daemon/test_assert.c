/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions hold in every build: NDEBUG is defined here on purpose.
 */
#ifndef NDEBUG
#define NDEBUG
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/daemon/loop/assert.h"
#include "agent/daemon/loop/loop.h"

/* Runs the function in a child; its stderr and how it ended. */
static int run_apart(void (*function)(void), char *ret_text, size_t capacity)
{
	const struct rlimit no_core = { 0 };
	int ends[2], status;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGABRT, SIG_DFL);
		dup2(ends[1], 2);
		close(ends[0]);
		close(ends[1]);
		function();
		_exit(0);
	}
	close(ends[1]);
	while ((n = read(ends[0], ret_text + len, capacity - 1 - len)) > 0)
		len += (size_t)n;
	ret_text[len] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void assert_wrong(void)
{
	FGT_ASSERT(1 + 1 == 3);
}

static void assert_right(void)
{
	FGT_ASSERT(1 + 1 == 2);
}

static void *arm(void *argument)
{
	struct fgt_timer timer = { 0 };

	fgt_loop_arm(argument, &timer, 1);
	return NULL;
}

static void arm_elsewhere(void *context, uint32_t events)
{
	pthread_t thread;

	(void)events;
	pthread_create(&thread, NULL, arm, context);
	pthread_join(thread, NULL);
}

static void change_loop_from_another_thread(void)
{
	struct fgt_watch watch = { .ready = arm_elsewhere };
	int ends[2];

	if (pipe(ends) < 0 || write(ends[1], "x", 1) != 1 ||
	    fgt_loop_new((struct fgt_loop **)&watch.context) < 0)
		return;
	watch.fd = ends[0];
	fgt_loop_watch(watch.context, &watch, 1 /* EPOLLIN */);
	fgt_loop_run(watch.context);
}

static void failed_assertion_prints_its_place_and_aborts(void **state)
{
	char text[512];
	int status = run_apart(assert_wrong, text, sizeof(text));

	(void)state;
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	assert_non_null(strstr(text, "fgtrace-agent: test_assert.c:"));
	assert_non_null(strstr(text, ": assertion failed: 1 + 1 == 3\n"));
}

static void assertion_that_holds_does_nothing(void **state)
{
	char text[512];

	(void)state;
	assert_int_equal(run_apart(assert_right, text, sizeof(text)), 0);
	assert_string_equal(text, "");
}

static void loop_aborts_when_another_thread_changes_it(void **state)
{
	char text[512];
	int status =
		run_apart(change_loop_from_another_thread, text, sizeof(text));

	(void)state;
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	assert_non_null(strstr(text, "may_change(loop)"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failed_assertion_prints_its_place_and_aborts),
		cmocka_unit_test(assertion_that_holds_does_nothing),
		cmocka_unit_test(loop_aborts_when_another_thread_changes_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
