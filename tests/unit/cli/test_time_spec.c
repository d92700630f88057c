/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time grammar, with given clocks and time zones. Runs in one thread.
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

#include "agent/cli/range/time_spec.h"

#define S UINT64_C(1000000000)

/* 2025-11-15T10:00:00Z, up for 1000 s. */
static const struct fgt_now now = { .mono_ns = 1000 * S,
				    .wall_ns = 1763200800 * S };

static uint64_t parse_at(const char *text, const struct fgt_now *at)
{
	struct fgt_why why = { "" };
	struct fgt_time time = { .ns = 7 };
	int r = fgt_time_read(text, at, &time, &why);

	if (r < 0)
		fail_msg("%s: %s", text, why.text);
	return fgt_time_is_wall(&time) ? fgt_wall_to_mono(NULL, 0, at, time.ns)
				       : time.ns;
}

static uint64_t parse(const char *text)
{
	return parse_at(text, &now);
}

static void refuse(const char *text, const char *part)
{
	struct fgt_why why = { "" };
	struct fgt_time time = { .ns = 7 };

	assert_int_equal(fgt_time_read(text, &now, &time, &why), -EINVAL);
	assert_int_equal(time.ns, 7);
	if (!strstr(why.text, part))
		fail_msg("'%s': '%s' lacks '%s'", text, why.text, part);
}

static void zone(const char *name)
{
	setenv("TZ", name, 1);
	tzset();
}

static void offsets_count_from_now(void **state)
{
	(void)state;
	assert_int_equal(parse("now"), 1000 * S);
	assert_int_equal(parse("-10s"), 990 * S);
	assert_int_equal(parse("-1500ms"), 998 * S + S / 2);
	assert_int_equal(parse("-2m"), 880 * S);
	assert_int_equal(parse("+5s"), 1005 * S);
	assert_int_equal(parse("+1h"), 4600 * S);
	assert_int_equal(parse("-250us"), 1000 * S - 250000);
	assert_int_equal(parse("-7ns"), 1000 * S - 7);
	assert_int_equal(parse("-0.5s"), 999 * S + S / 2);
	assert_int_equal(parse("-1.25m"), 925 * S);
	assert_int_equal(parse("-10"), 990 * S);
	assert_int_equal(parse("-0s"), 1000 * S);
}

static void before_boot_is_zero(void **state)
{
	(void)state;
	assert_int_equal(parse("-1001s"), 0);
	assert_int_equal(parse("-99999999999999999999999h"), 0);
	assert_int_equal(parse("2025-11-15T09:00:00Z"), 0);
	assert_int_equal(parse("1969-12-31T23:59:59Z"), 0);
	assert_int_equal(parse("0001-01-01T00:00:00Z"), 0);
	assert_int_equal(parse("0000-02-29T00:00:00Z"), 0);
}

static void no_sum_wraps_around(void **state)
{
	(void)state;
	assert_int_equal(parse("+99999999999999999999999h"), UINT64_MAX);
	assert_int_equal(parse("+18446744073709551615ns"), UINT64_MAX);
	assert_true(parse("9999-12-31T23:59:59.999999999Z") > UINT64_MAX / 2);
	assert_int_equal(parse("m:18446744073709551615"), UINT64_MAX);
	assert_int_equal(parse("m:99999999999999999999999"), UINT64_MAX);
}

static void monotonic_is_taken_as_it_is(void **state)
{
	(void)state;
	assert_int_equal(parse("m:0"), 0);
	assert_int_equal(parse("m:123456789"), 123456789);
	refuse("m:", "is not a time");
	refuse("m:-1", "is not a time");
	refuse("m:1.5", "is not a time");
	refuse("m:1s", "is not a time");
}

static void epoch_seconds_may_have_a_fraction(void **state)
{
	(void)state;
	assert_int_equal(parse("1763200800"), 1000 * S);
	assert_int_equal(parse("1763200790.25"), 990 * S + S / 4);
	assert_int_equal(parse("1763200790.000000001"), 990 * S + 1);
	assert_int_equal(parse("1763200790.0000000019"), 990 * S + 1);
	assert_int_equal(parse("1763200805.5"), 1005 * S + S / 2);
	refuse("1763200800250", "in seconds");
	refuse("99999999999999999999999999", "in seconds");
	refuse("10", "-10 for seconds ago");
	refuse("1763200790.", "is not a time");
}

static void rfc3339_knows_offsets_and_fractions(void **state)
{
	(void)state;
	assert_int_equal(parse("2025-11-15T10:00:00Z"), 1000 * S);
	assert_int_equal(parse("2025-11-15t09:59:59z"), 999 * S);
	assert_int_equal(parse("2025-11-15 09:59:59Z"), 999 * S);
	assert_int_equal(parse("2025-11-15T10:59:50+01:00"), 990 * S);
	assert_int_equal(parse("2025-11-15T04:29:50-05:30"), 990 * S);
	assert_int_equal(parse("2025-11-15T09:59:50.125Z"), 990 * S + S / 8);
	/* Midnight of the next day, on the other side of the line. */
	assert_int_equal(parse("2025-11-16T00:00:00+14:00"), 1000 * S);
	/* A leap second is the next second. */
	assert_int_equal(parse("2025-11-15T09:59:60Z"), 1000 * S);
}

static void calendar_agrees_with_timegm(void **state)
{
	(void)state;
	for (int day = 0; day < 366 * 200; day += 13) {
		const struct fgt_now far = { .mono_ns = UINT64_MAX / 2,
					     .wall_ns = UINT64_MAX / 2 };
		time_t seconds = (time_t)day * 86400 + 3723;
		struct tm broken;
		char text[32];

		gmtime_r(&seconds, &broken);
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &broken);
		assert_int_equal(parse_at(text, &far), (uint64_t)seconds * S);
	}
}

static void impossible_dates_are_refused(void **state)
{
	(void)state;
	refuse("2025-02-29T10:00:00Z", "is not a time");
	refuse("2025-13-01T10:00:00Z", "is not a time");
	refuse("2025-00-10T10:00:00Z", "is not a time");
	refuse("2025-11-00T10:00:00Z", "is not a time");
	refuse("2025-11-31T10:00:00Z", "is not a time");
	refuse("1900-02-29T10:00:00Z", "is not a time");
	refuse("2025-11-15T24:00:00Z", "is not a time");
	refuse("2025-11-15T10:60:00Z", "is not a time");
	refuse("2025-11-15T10:00:61Z", "is not a time");
	refuse("2025-11-15T10:00:00", "time zone");
	refuse("2025-11-15T10:00:00+25:00", "is not a time");
	refuse("2025-11-15T10:00:00+010", "is not a time");
	refuse("2025-11-15  10:00:00", "is not a time");
	refuse("2025-11-15 10:00:00 ", "is not a time");
	refuse("2025-11-15 10:00:00,", "is not a time");
	refuse("2025-11-15 24:00:00", "is not a time");
	refuse("2025-11-15T10:00:00Zx", "is not a time");
	refuse("2025-11-15", "is not a time");
}

static void local_time_is_its_most_recent_occurrence(void **state)
{
	(void)state;
	zone("UTC");
	assert_int_equal(parse("09:59:50"), 990 * S);
	assert_int_equal(parse("09:59:50.5"), 990 * S + S / 2);
	assert_int_equal(parse("10:00:00"), 1000 * S);
	/* A second ahead of now: yesterday, long before boot. */
	assert_int_equal(parse("10:00:01"), 0);
	assert_int_equal(parse("10:00:00.000000001"), 0);
	/* Without seconds: the minute's begin. */
	assert_int_equal(parse("09:59"), 940 * S);
	assert_int_equal(parse("10:00"), 1000 * S);
	assert_int_equal(parse("2025-11-15 09:59"), 940 * S);
	assert_int_equal(parse("2025-11-15T09:59Z"), 940 * S);
	refuse("09:59,5", "is not a time");
	refuse("09:59:", "is not a time");
	refuse("09:5", "14:03, 14:03:07.5");
	zone("Asia/Kolkata");
	assert_int_equal(parse("15:29:50"), 990 * S);
}

static void time_of_a_log_line_is_read_as_it_is_copied(void **state)
{
	(void)state;
	zone("UTC");
	assert_int_equal(parse("09:59:50,895"), 990 * S + 895 * (S / 1000));
	assert_int_equal(parse("2025-11-15 09:59:50"), 990 * S);
	assert_int_equal(parse("2025-11-15 09:59:50.5"), 990 * S + S / 2);
	assert_int_equal(parse("2025-11-15 09:59:50,5"), 990 * S + S / 2);
	assert_int_equal(parse("2025-11-15T09:59:50,125Z"), 990 * S + S / 8);
	zone("Asia/Kolkata");
	assert_int_equal(parse("2025-11-15 15:29:50,5"), 990 * S + S / 2);
	assert_int_equal(parse("2025-11-15 10:59:50,5+01:00"), 990 * S + S / 2);
	assert_int_equal(parse("2025-11-15 10:59:50 +01:00"), 990 * S);
	assert_int_equal(parse("2025-11-15 10:59:50 +0100"), 990 * S);
	assert_int_equal(parse("2025-11-15T10:59:50+0100"), 990 * S);
	assert_int_equal(parse("2025-11-15 09:59:50.5 Z"), 990 * S + S / 2);
	/* Local times of a date may lie ahead: slice waits for them. */
	assert_int_equal(parse("2025-11-15 15:30:05"), 1005 * S);
}

static void local_time_of_a_date_that_clocks_skipped_is_refused(void **state)
{
	(void)state;
	zone("Europe/Berlin");
	refuse("2025-03-30 02:30:00", "+02:00");
	refuse("2025-02-29 10:00:00", "is not a time");
}

static void yesterday_is_a_day_ago(void **state)
{
	/* 2025-11-15T00:00:05Z, up for two days. */
	const struct fgt_now after_midnight = { .mono_ns = 200000 * S,
						.wall_ns = 1763164805 * S };

	(void)state;
	zone("UTC");
	assert_int_equal(parse_at("23:59:55", &after_midnight), 199990 * S);
	assert_int_equal(parse_at("00:00:00", &after_midnight), 199995 * S);
	assert_int_equal(parse_at("00:00:06", &after_midnight),
			 (200000 - 86399) * S);
}

static void hour_that_comes_twice_is_the_later_one(void **state)
{
	/* Berlin, 2025-10-26: 02:30 CEST is 00:30Z, 02:30 CET is 01:30Z. */
	const struct fgt_now between = {
		.mono_ns = 1000000 * S, .wall_ns = 1761440400 * S
	}; /* 01:00Z */
	const struct fgt_now after = { .mono_ns = 1000000 * S,
				       .wall_ns = 1761444000 * S }; /* 02:00Z */

	(void)state;
	zone("Europe/Berlin");
	assert_int_equal(parse_at("02:30:00", &between), (1000000 - 1800) * S);
	assert_int_equal(parse_at("02:30:00", &after), (1000000 - 1800) * S);
	assert_int_equal(parse_at("01:30:00", &after),
			 (1000000 - 2 * 3600 - 1800) * S);
}

static void hour_that_was_left_out_is_of_the_day_before(void **state)
{
	/* Berlin, 2025-03-30: 02:00 CET became 03:00 CEST at 01:00Z. */
	const struct fgt_now after = { .mono_ns = 1000000 * S,
				       .wall_ns = 1743300000 * S }; /* 02:00Z */

	(void)state;
	zone("Europe/Berlin");
	/* 2025-03-29T02:30+01:00 is 24.5 h before. */
	assert_int_equal(parse_at("02:30:00", &after), (1000000 - 88200) * S);
	assert_int_equal(parse_at("03:30:00", &after), (1000000 - 1800) * S);
	assert_int_equal(parse_at("01:59:59", &after), (1000000 - 3601) * S);
}

static void garbage_is_refused_with_examples(void **state)
{
	static const char *const garbage[] = {
		"",	 "yesterday", "-",	"+",
		"-s",	 "--5s",      "-5x",	"-5 s",
		"5s",	 "NOW",	      "-.",	"-1.s",
		"-1e3s", "25:00:00",  "1:2:3",	"10:0",
		"nan",	 "-inf",      "-0x10s", "m",
		":",	 "10:00:60",  "-5sS",	" -5s",
		"-5s ",	 "\xff\xfe",  "-5\n",	"1763200790,5",
	};
	char endless[4096];

	(void)state;
	zone("UTC");
	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++)
		refuse(garbage[i], "is not a time; write -10s");
	memset(endless, '1', sizeof(endless) - 1);
	endless[sizeof(endless) - 1] = '\0';
	refuse(endless, "is not a time; write -10s");
}

static void wall_times_stay_on_their_clock(void **state)
{
	struct fgt_time time;

	(void)state;
	assert_int_equal(fgt_time_read("1763200790", &now, &time, NULL), 0);
	assert_true(fgt_time_is_wall(&time));
	assert_int_equal(time.ns, 1763200790 * S);
	assert_int_equal(fgt_time_read("-10s", &now, &time, NULL), 0);
	assert_false(fgt_time_is_wall(&time));
	assert_int_equal(time.ns, 990 * S);
}

static void durations_have_units(void **state)
{
	uint64_t ns = 0;

	(void)state;
	assert_int_equal(fgt_duration_parse("5s", &ns, NULL), 0);
	assert_int_equal(ns, 5 * S);
	assert_int_equal(fgt_duration_parse("10", &ns, NULL), 0);
	assert_int_equal(ns, 10 * S);
	assert_int_equal(fgt_duration_parse("0.5s", &ns, NULL), 0);
	assert_int_equal(ns, S / 2);
	assert_int_equal(fgt_duration_parse("1500ms", &ns, NULL), 0);
	assert_int_equal(ns, S + S / 2);
	assert_int_equal(fgt_duration_parse("2m", &ns, NULL), 0);
	assert_int_equal(ns, 120 * S);
}

static void bad_duration_is_refused(void **state)
{
	struct fgt_why why = { "" };
	uint64_t ns = 7;

	(void)state;
	assert_int_equal(fgt_duration_parse("0", &ns, &why), -EINVAL);
	assert_non_null(strstr(why.text, "more than 0"));
	assert_int_equal(fgt_duration_parse("0.0ms", &ns, &why), -EINVAL);
	assert_int_equal(fgt_duration_parse("-5s", &ns, &why), -EINVAL);
	assert_non_null(strstr(why.text, "5s, 1500ms"));
	assert_int_equal(fgt_duration_parse("", &ns, &why), -EINVAL);
	assert_int_equal(fgt_duration_parse("5 s", &ns, &why), -EINVAL);
	assert_int_equal(fgt_duration_parse("s", &ns, &why), -EINVAL);
	assert_int_equal(fgt_duration_parse("99999999999h", &ns, &why),
			 -ERANGE);
	assert_int_equal(ns, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offsets_count_from_now),
		cmocka_unit_test(before_boot_is_zero),
		cmocka_unit_test(no_sum_wraps_around),
		cmocka_unit_test(monotonic_is_taken_as_it_is),
		cmocka_unit_test(epoch_seconds_may_have_a_fraction),
		cmocka_unit_test(rfc3339_knows_offsets_and_fractions),
		cmocka_unit_test(calendar_agrees_with_timegm),
		cmocka_unit_test(impossible_dates_are_refused),
		cmocka_unit_test(local_time_is_its_most_recent_occurrence),
		cmocka_unit_test(time_of_a_log_line_is_read_as_it_is_copied),
		cmocka_unit_test(
			local_time_of_a_date_that_clocks_skipped_is_refused),
		cmocka_unit_test(yesterday_is_a_day_ago),
		cmocka_unit_test(hour_that_comes_twice_is_the_later_one),
		cmocka_unit_test(hour_that_was_left_out_is_of_the_day_before),
		cmocka_unit_test(garbage_is_refused_with_examples),
		cmocka_unit_test(wall_times_stay_on_their_clock),
		cmocka_unit_test(durations_have_units),
		cmocka_unit_test(bad_duration_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
