/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A started command ends when it ends, whichever process stops it meanwhile.
 */
#include "agent/cli/verbs/child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static void wait_for_stop(pid_t pid)
{
	siginfo_t info;

	assert_int_equal(
		waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT | __WALL),
		0);
	assert_int_equal(info.si_code, CLD_TRAPPED);
}

static void a_command_that_a_tracer_stops_has_not_ended(void **state)
{
	char name[] = "sleep", seconds[] = "60";
	char *command[] = { name, seconds, NULL };
	struct fgt_child child;
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(fgt_child_new(command, &child, &why), 0);
	assert_int_equal(fgt_child_exec(&child, command[0], &why), 0);
	assert_int_equal(ptrace(PTRACE_SEIZE, child.pid, NULL, NULL), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(
			ptrace(PTRACE_INTERRUPT, child.pid, NULL, NULL), 0);
		wait_for_stop(child.pid);
		assert_false(fgt_child_has_ended(&child));
		assert_int_equal(ptrace(PTRACE_CONT, child.pid, NULL, NULL), 0);
	}
	assert_int_equal(kill(child.pid, SIGKILL), 0);
	assert_int_equal(fgt_child_wait(&child), 128 + SIGKILL);
	assert_true(fgt_child_has_ended(&child));
	fgt_child_done(&child);
}

static void its_status_is_passed_on(void **state)
{
	char name[] = "sh", flag[] = "-c", text[] = "exit 42";
	char *command[] = { name, flag, text, NULL };
	struct fgt_child child;
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(fgt_child_new(command, &child, &why), 0);
	assert_int_equal(fgt_child_exec(&child, command[0], &why), 0);
	assert_int_equal(fgt_child_wait(&child), 42);
	assert_int_equal(fgt_child_wait(&child), 42);
	fgt_child_done(&child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_command_that_a_tracer_stops_has_not_ended),
		cmocka_unit_test(its_status_is_passed_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
