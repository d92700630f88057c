/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instants of a range as messages write them. Runs in one thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/cli/range/range.h"

#define S  UINT64_C(1000000000)
#define MS UINT64_C(1000000)

/* 2025-11-15T10:00:00Z, up for 1000 s: instants 29.8 s and 0.02 s ago. */
static void write_both(enum fgt_time_form form, const char *zone, char *first,
		       char *last, size_t size)
{
	const struct fgt_range range = { .has_from = true,
					 .from = { .form = form } };
	const struct fgt_now now = { .mono_ns = 1000 * S,
				     .wall_ns = 1763200800 * S };

	setenv("TZ", zone, 1);
	tzset();
	fgt_range_write(&range, &now, now.mono_ns - 29800 * MS,
			now.wall_ns - 29800 * MS, first, size);
	fgt_range_write(&range, &now, now.mono_ns - 20 * MS,
			now.wall_ns - 20 * MS, last, size);
}

static void instant_is_written_on_the_clock_that_was_asked(void **state)
{
	static const struct {
		enum fgt_time_form form;
		const char *zone, *first, *last;
	} rows[] = {
		{ FGT_TIME_RELATIVE, "UTC", "-29.8s", "now" },
		{ FGT_TIME_MONOTONIC, "UTC", "m:970200000000",
		  "m:999980000000" },
		{ FGT_TIME_LOCAL, "Asia/Kolkata", "15:29:30.200",
		  "15:29:59.980" },
		/* Midnight has passed since. */
		{ FGT_TIME_LOCAL, "XXX-14:00:15", "2025-11-15 23:59:45.200",
		  "00:00:14.980" },
		{ FGT_TIME_ZONED, "Asia/Kolkata", "2025-11-15T09:59:30.200Z",
		  "2025-11-15T09:59:59.980Z" },
		{ FGT_TIME_EPOCH, "UTC", "1763200770.200", "1763200799.980" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char first[FGT_TIME_TEXT_SIZE], last[FGT_TIME_TEXT_SIZE];

		write_both(rows[i].form, rows[i].zone, first, last,
			   sizeof(first));
		assert_string_equal(first, rows[i].first);
		assert_string_equal(last, rows[i].last);
	}
}

static void range_without_a_beginning_has_the_form_of_its_end(void **state)
{
	struct fgt_range range = { .last_ns = S };

	(void)state;
	assert_int_equal(fgt_range_form(&range), FGT_TIME_RELATIVE);
	range.has_to = true;
	range.to.form = FGT_TIME_EPOCH;
	assert_int_equal(fgt_range_form(&range), FGT_TIME_EPOCH);
	range.has_from = true;
	range.from.form = FGT_TIME_LOCAL;
	assert_int_equal(fgt_range_form(&range), FGT_TIME_LOCAL);
}

static void refuse_from(uint64_t from_ns, const char *reason)
{
	const struct fgt_range range = {
		.has_from = true,
		.from = { .form = FGT_TIME_MONOTONIC, .ns = from_ns },
	};
	const struct fgt_now now = { .mono_ns = 1000 * S,
				     .wall_ns = 1763200800 * S };
	struct fgt_why why = { "" };
	uint64_t from, to;

	assert_int_equal(
		fgt_range_to_mono(&range, NULL, &now, &from, &to, &why),
		-EINVAL);
	assert_non_null(strstr(why.text, reason));
}

/* A later --to would help within the hour that the agent may wait. */
static void begin_far_ahead_is_out_of_range(void **state)
{
	(void)state;
	refuse_from(1005 * S, "5.000 s in the future: add a later --to");
	refuse_from(4599 * S, "add a later --to");
	refuse_from(4601 * S, "--from is out of range");
	refuse_from(UINT64_MAX, "--from is out of range");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(begin_far_ahead_is_out_of_range),
		cmocka_unit_test(
			instant_is_written_on_the_clock_that_was_asked),
		cmocka_unit_test(
			range_without_a_beginning_has_the_form_of_its_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
