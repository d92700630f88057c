/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of a test in a child: limits, rights and filters are those of a process.
 * cmocka.h comes before it.
 */
#ifndef FGT_TESTS_UNIT_EMBED_CHILD_KIT_H
#define FGT_TESTS_UNIT_EMBED_CHILD_KIT_H

#include <sys/wait.h>
#include <unistd.h>

#define SKIPPED 77 /* what run returns where this machine cannot do it */

/* Fails unless run returns 0 in a child; skips the test for SKIPPED. */
static inline void check_child(int (*run)(void))
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(run());
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		skip();
	assert_int_equal(status, 0);
}

#endif
