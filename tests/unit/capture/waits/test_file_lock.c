/* SPDX-License-Identifier: Apache-2.0 */
/* Holders of locks on files, by texts of /proc/locks. */
#include "agent/capture/threads/file_lock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void holder_of_file_is_named(void **state)
{
	static const struct {
		const char *locks;
		int32_t pid;
		bool is_flock;
		int32_t holder;
	} cases[] = {
		{ "", 20, true, 0 },
		{ "1: FLOCK  ADVISORY  WRITE 10 fe:00:7 0 EOF\n"
		  "1: -> FLOCK  ADVISORY  WRITE 20 fe:00:7 0 EOF\n"
		  "2: POSIX  ADVISORY  WRITE 11 fe:00:8 0 EOF\n"
		  "2: -> POSIX  ADVISORY  READ 20 fe:00:8 0 EOF\n",
		  20, true, 10 },
		{ "2: POSIX  ADVISORY  WRITE 11 fe:00:8 0 EOF\n"
		  "2: -> POSIX  ADVISORY  READ 20 fe:00:8 0 EOF\n",
		  20, false, 11 },
		/* Of an open file. */
		{ "1: OFDLCK ADVISORY  WRITE -1 fe:00:7 0 EOF\n"
		  "1: -> POSIX  ADVISORY  WRITE 20 fe:00:7 0 EOF\n",
		  20, false, 0 },
		/* Of two threads. */
		{ "1: FLOCK  ADVISORY  WRITE 10 fe:00:7 0 EOF\n"
		  "1: -> FLOCK  ADVISORY  WRITE 20 fe:00:7 0 EOF\n"
		  "2: FLOCK  ADVISORY  WRITE 11 fe:00:8 0 EOF\n"
		  "2: -> FLOCK  ADVISORY  WRITE 20 fe:00:8 0 EOF\n",
		  20, true, 0 },
		/* Cut: of 201, perhaps. */
		{ "1: FLOCK  ADVISORY  WRITE 10 fe:00:7 0 EOF\n"
		  "1: -> FLOCK  ADVISORY  WRITE 20",
		  20, true, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_int_equal(fgt_file_lock_holder(cases[i].locks,
						      cases[i].pid,
						      cases[i].is_flock),
				 cases[i].holder);
}

static void processes_that_wait_for_each_other_are_found(void **state)
{
	static const char locks[] =
		"1: FLOCK  ADVISORY  WRITE 10 fe:00:7 0 EOF\n"
		"1: -> FLOCK  ADVISORY  WRITE 20 fe:00:7 0 EOF\n"
		"1: -> FLOCK  ADVISORY  WRITE 40 fe:00:7 0 EOF\n"
		"2: POSIX  ADVISORY  WRITE 20 fe:00:8 0 EOF\n"
		"2: -> POSIX  ADVISORY  WRITE 30 fe:00:8 0 EOF\n"
		"3: FLOCK  ADVISORY  WRITE 30 fe:00:9 0 EOF\n"
		"3: -> FLOCK  ADVISORY  WRITE 10 fe:00:9 0 EOF\n";

	(void)state;
	assert_true(fgt_file_lock_leads_to(locks, 10, 20));
	assert_true(fgt_file_lock_leads_to(locks, 30, 10));
	/* It waits for them, they do not wait for it. */
	assert_false(fgt_file_lock_leads_to(locks, 10, 40));
	assert_false(fgt_file_lock_leads_to(locks, 50, 10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holder_of_file_is_named),
		cmocka_unit_test(processes_that_wait_for_each_other_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
