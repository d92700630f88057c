/* SPDX-License-Identifier: Apache-2.0 */
/* Holders of locks on files, by texts of /proc/locks, and that table itself. */
#include "agent/capture/threads/file_lock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "agent/capture/threads/lock_table.h"

#define TICK_NS	  UINT64_C(10000000)
#define SECOND_NS UINT64_C(1000000000)
#define TRIES_MAX 1000
#define TRY_US	  10000

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

static void descriptor_has_the_lock_of_who_took_it(void **state)
{
	static const char fdinfo[] =
		"pos:\t0\nflags:\t0100002\nmnt_id:\t28\nino:\t7\n"
		"lock:\t1: POSIX  ADVISORY  WRITE 12 fe:00:7 0 EOF\n"
		"lock:\t2: FLOCK  ADVISORY  WRITE 10 fe:00:7 0 EOF\n";

	(void)state;
	assert_true(fgt_file_lock_is_flock_of(fdinfo, 10));
	assert_false(fgt_file_lock_is_flock_of(fdinfo, 11));
	assert_false(fgt_file_lock_is_flock_of(fdinfo, 12));
	assert_false(fgt_file_lock_is_flock_of("pos:\t0\nlock:\t1", 10));
}

static const char *await_table(uint64_t tick_ns, uint64_t since_ns)
{
	const char *table = NULL;
	bool is_whole;

	for (int i = 0; !table && i < TRIES_MAX; i++) {
		table = fgt_lock_table_get(tick_ns, since_ns, &is_whole);
		if (!table)
			usleep(TRY_US);
	}
	return table;
}

/* Who asked for a table gets it, though others want a newer one. */
static void table_is_read_aside(void **state)
{
	const uint64_t tick_ns = SECOND_NS;
	FILE *file = tmpfile();
	char wanted[64];
	const char *table;
	bool is_whole;

	(void)state;
	assert_non_null(file);
	assert_int_equal(flock(fileno(file), LOCK_EX), 0);
	snprintf(wanted, sizeof(wanted), "FLOCK  ADVISORY  WRITE %d ",
		 getpid());
	assert_null(fgt_lock_table_get(tick_ns, tick_ns, &is_whole));
	table = await_table(tick_ns + 2 * TICK_NS, tick_ns);
	assert_non_null(table);
	assert_non_null(strstr(table, wanted));
	fclose(file);
	assert_null(fgt_lock_table_get(tick_ns + 3 * TICK_NS, tick_ns + TICK_NS,
				       &is_whole));
	assert_null(fgt_lock_table_get(tick_ns + SECOND_NS, tick_ns + TICK_NS,
				       &is_whole));
	assert_non_null(
		fgt_lock_table_get(tick_ns + SECOND_NS, tick_ns, &is_whole));
	table = await_table(tick_ns + SECOND_NS + TICK_NS, tick_ns + TICK_NS);
	assert_non_null(table);
	assert_null(strstr(table, wanted));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holder_of_file_is_named),
		cmocka_unit_test(processes_that_wait_for_each_other_are_found),
		cmocka_unit_test(descriptor_has_the_lock_of_who_took_it),
		cmocka_unit_test(table_is_read_aside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
