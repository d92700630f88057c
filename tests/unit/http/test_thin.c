/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices at a lower rate: what is left is a valid slice of the same duration.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/http/thin.h"
#include "ringbuf/slice/pace.h"
#include "tests/unit/ringbuf/slice_fixture.h"

static struct fgt_ring_slice *slice; /* 10 ticks at 100 Hz */
static struct fgt_why why;

static int setup(void **state)
{
	uint32_t thread, stack;

	(void)state;
	why.text[0] = '\0';
	slice = fixture_new(10);
	thread = fixture_thread(slice, 7, "main");
	stack = fixture_stack(slice, "main;work");
	fixture_run(slice, thread, 0, 3, stack, FGT_STATE_RUNNING);
	fixture_run(slice, thread, 3, 1, fixture_stack(slice, "main;read"),
		    FGT_STATE_SYSCALL_FIRST);
	fixture_run(slice, thread, 4, 6, stack, FGT_STATE_RUNNING);
	fixture_edge(slice, thread, 3, 100, 50);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fgt_ring_slice_free(slice);
	return 0;
}

static void every_second_tick_is_left(void **state)
{
	uint64_t second_ns = slice->tick_ns[2];

	(void)state;
	slice->effective_hz = 100;
	assert_int_equal(fgt_web_thin(slice, 50, &why), 0);
	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(slice->tick_count, 5);
	assert_int_equal(slice->tick_ns[1], second_ns);
	assert_int_equal(slice->period_ns, 2 * FIXTURE_PERIOD_NS);
	assert_true(slice->effective_hz == 50);
	/* The run of tick 3 alone is gone. */
	assert_int_equal(slice->run_count, 2);
	assert_int_equal(slice->runs[0].tick_count, 2);
	assert_int_equal(slice->runs[1].first_tick, 2);
	assert_int_equal(slice->runs[1].tick_count, 3);
	assert_int_equal(slice->edge_count, 0);
}

static void paces_keep_their_ticks(void **state)
{
	(void)state;
	assert_int_equal(fgt_pace_add(slice, 4, 2), 0);
	assert_int_equal(fgt_web_thin(slice, 50, &why), 0);
	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(fgt_pace_at(slice, 1), 1);
	assert_int_equal(fgt_pace_at(slice, 2), 2);
	/* 2 ticks of 20 ms, then 3 of 40 ms. */
	assert_int_equal(fgt_pace_weight(slice, 0, 5), 8);
}

static void rates_near_the_recorded_one_change_nothing(void **state)
{
	(void)state;
	assert_int_equal(fgt_web_thin(slice, 0, &why), 0);
	assert_int_equal(fgt_web_thin(slice, 100, &why), 0);
	assert_int_equal(slice->tick_count, 10);
	assert_int_equal(slice->edge_count, 1);
}

static void rates_just_below_a_part_are_that_part(void **state)
{
	(void)state;
	slice->period_ns = 9900990; /* 101 Hz */
	assert_int_equal(fgt_web_thin(slice, 100, &why), 0);
	assert_int_equal(fgt_web_thin(slice, 99, &why), 0);
	assert_int_equal(slice->tick_count, 10);
	assert_int_equal(fgt_web_thin(slice, 50, &why), 0);
	assert_int_equal(slice->tick_count, 5);
}

static void rate_between_two_parts_is_the_lower_one(void **state)
{
	(void)state;
	assert_int_equal(fgt_web_thin(slice, 48, &why), 0);
	assert_int_equal(slice->period_ns, 3 * FIXTURE_PERIOD_NS);
	assert_int_equal(slice->tick_count, 4);
}

static void higher_rate_is_refused(void **state)
{
	(void)state;
	assert_int_equal(fgt_web_thin(slice, 123, &why), -EINVAL);
	assert_string_equal(why.text,
			    "bad hz: \"123\": the stacks were recorded at 100 "
			    "Hz: ask for at most that, or raise sampling.hz");
}

static void too_few_ticks_are_no_data(void **state)
{
	(void)state;
	assert_int_equal(fgt_web_thin(slice, 1, &why), -ENODATA);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(every_second_tick_is_left),
		TEST(paces_keep_their_ticks),
		TEST(rates_near_the_recorded_one_change_nothing),
		TEST(rates_just_below_a_part_are_that_part),
		TEST(rate_between_two_parts_is_the_lower_one),
		TEST(higher_rate_is_refused),
		TEST(too_few_ticks_are_no_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
