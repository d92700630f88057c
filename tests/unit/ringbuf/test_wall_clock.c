/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wall time to monotonic time through anchors, with clocks that were set
 * meanwhile. Runs in one thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ringbuf/slice/wall_clock.h"

#define S    UINT64_C(1000000000)
#define HOUR (3600 * S)
#define WALL (1763200000 * S)

/* One anchor a second from 100 s on; the wall clock jumps by `step` at 105
 * s. */
static void make_anchors(struct fgt_anchor anchors[10], int64_t step,
			 struct fgt_now *ret_now)
{
	for (uint64_t i = 0; i < 10; i++) {
		anchors[i].mono_ns = (100 + i) * S;
		anchors[i].wall_ns = WALL + i * S;
		if (i >= 5)
			anchors[i].wall_ns += (uint64_t)step;
	}
	ret_now->mono_ns = 110 * S;
	ret_now->wall_ns = WALL + 10 * S + (uint64_t)step;
}

static void steady_clock_maps_one_to_one(void **state)
{
	struct fgt_anchor anchors[10];
	struct fgt_now now;

	(void)state;
	make_anchors(anchors, 0, &now);
	for (uint64_t ms = 0; ms < 12000; ms += 37)
		assert_int_equal(fgt_wall_to_mono(anchors, 10, &now,
						  WALL + ms * 1000000),
				 100 * S + ms * 1000000);
	assert_int_equal(fgt_wall_to_mono(anchors, 10, &now, WALL - 50 * S),
			 50 * S);
	assert_int_equal(fgt_wall_to_mono(anchors, 10, &now, 0), 0);
	assert_int_equal(fgt_wall_to_mono(NULL, 0, &now, WALL + 4 * S),
			 104 * S);
	assert_false(fgt_wall_has_stepped(anchors, 10, &now));
}

/* Fault T1. */
static void time_before_a_step_forward_is_found(void **state)
{
	struct fgt_anchor anchors[10];
	struct fgt_now now;

	(void)state;
	make_anchors(anchors, (int64_t)HOUR, &now);
	assert_true(fgt_wall_has_stepped(anchors, 10, &now));
	/* What the clock showed at 102 s, though now it would be an hour
	 * ago. */
	assert_int_equal(fgt_wall_to_mono(anchors, 10, &now, WALL + 2 * S),
			 102 * S);
	assert_int_equal(
		fgt_wall_to_mono(anchors, 10, &now, WALL + HOUR + 7 * S),
		107 * S);
	/* Never shown: the instant of the step. */
	assert_int_equal(fgt_wall_to_mono(anchors, 10, &now, WALL + 1800 * S),
			 105 * S);
	/* Still to come. */
	assert_int_equal(
		fgt_wall_to_mono(anchors, 10, &now, WALL + HOUR + 15 * S),
		115 * S);
}

static void time_before_a_step_back_is_found(void **state)
{
	struct fgt_anchor anchors[10];
	struct fgt_now now;

	(void)state;
	make_anchors(anchors, -(int64_t)HOUR, &now);
	assert_true(fgt_wall_has_stepped(anchors, 10, &now));
	/* Not an hour in the future: it was shown at 102 s. */
	assert_int_equal(fgt_wall_to_mono(anchors, 10, &now, WALL + 2 * S),
			 102 * S);
	assert_int_equal(
		fgt_wall_to_mono(anchors, 10, &now, WALL - HOUR + 7 * S),
		107 * S);
}

static void time_shown_twice_is_the_later_one(void **state)
{
	struct fgt_anchor anchors[10];
	struct fgt_now now;

	(void)state;
	/* Back by 3 s at 105 s: WALL + 3 s was shown at 103 s and 106 s. */
	make_anchors(anchors, -3 * (int64_t)S, &now);
	assert_int_equal(fgt_wall_to_mono(anchors, 10, &now, WALL + 3 * S),
			 106 * S);
	assert_int_equal(fgt_wall_to_mono(anchors, 10, &now, WALL + 1 * S),
			 101 * S);
}

static void insane_anchors_do_no_harm(void **state)
{
	const struct fgt_anchor anchors[] = {
		{ .mono_ns = UINT64_MAX, .wall_ns = 0 },
		{ .mono_ns = 0, .wall_ns = UINT64_MAX },
		{ .mono_ns = 5, .wall_ns = 5 },
	};
	const struct fgt_now now = { .mono_ns = 1, .wall_ns = 1 };

	(void)state;
	for (uint64_t wall = 1; wall; wall <<= 1) {
		(void)fgt_wall_to_mono(anchors, 3, &now, wall);
		(void)fgt_wall_to_mono(anchors, 3, &now, wall - 1);
	}
	(void)fgt_wall_has_stepped(anchors, 3, &now);
}

static void both_clocks_are_read_together(void **state)
{
	struct fgt_now first, second;

	(void)state;
	fgt_now_read(&first);
	fgt_now_read(&second);
	assert_true(second.mono_ns >= first.mono_ns);
	assert_true(first.wall_ns > WALL / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steady_clock_maps_one_to_one),
		cmocka_unit_test(time_before_a_step_forward_is_found),
		cmocka_unit_test(time_before_a_step_back_is_found),
		cmocka_unit_test(time_shown_twice_is_the_later_one),
		cmocka_unit_test(insane_anchors_do_no_harm),
		cmocka_unit_test(both_clocks_are_read_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
