/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many descriptors are kept open in a process that records itself.
 */
#include "agent/capture/threads/fd_budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ringbuf/base/fd.h"

#define LIMIT 256

static void the_program_keeps_most_of_what_is_free(void **state)
{
	static struct fgt_fd_budget budget;
	size_t with_many, with_few, with_none;
	struct rlimit before, few;
	int fds[LIMIT], count = 0;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){ LIMIT, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	fgt_fd_budget_init_modest(&budget);
	with_many = budget.limit;
	while (fgt_fd_apart_count_free(41) > 40)
		fds[count++] = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	fgt_fd_budget_init_modest(&budget);
	with_few = budget.limit;
	while (fgt_fd_apart_count_free(1))
		fds[count++] = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	fgt_fd_budget_forgo(&budget);
	fgt_fd_budget_claim(&budget);
	with_none = budget.limit;
	while (count > 0)
		close(fds[--count]);
	assert_true(budget.is_tight);
	fgt_fd_budget_claim(&budget);
	assert_false(budget.is_tight);
	assert_int_equal(budget.limit, LIMIT / 8);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(with_many, LIMIT / 8);
	assert_int_equal(with_few, 10);
	assert_int_equal(with_none, 0);
}

/* Each has another remedy. */
static void shortage_of_descriptors_is_noted(void **state)
{
	static struct fgt_fd_budget budget;

	(void)state;
	fgt_fd_budget_init_modest(&budget);
	fgt_fd_budget_note(&budget, -ESRCH);
	fgt_fd_budget_note(&budget, 1);
	assert_false(budget.is_short);
	fgt_fd_budget_note(&budget, -ENFILE);
	assert_true(budget.is_short && budget.is_system_short);
	fgt_fd_budget_note(&budget, -EMFILE);
	assert_true(budget.is_short && !budget.is_system_short);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_program_keeps_most_of_what_is_free),
		cmocka_unit_test(shortage_of_descriptors_is_noted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
