/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the scheduler's counts and its stack show of a thread that procfs calls
 * running: is it on a CPU, was it put off, or was it woken and stands where it
 * blocked?
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/capture/look/look_parts.h"

/* A thread, as the scheduler counts it. */
struct counted {
	struct fgt_standing standing;
	struct fgt_switch_counts now;
};

static void get_cpu(struct counted *thread)
{
	thread->now.gained++;
}

static void lose_cpu(struct counted *thread)
{
	thread->now.lost++;
}

static void block(struct counted *thread)
{
	thread->now.blocked++;
}

static bool look(struct counted *thread)
{
	return fgt_standing_take(&thread->standing, &thread->now);
}

static void thread_that_blocked_and_was_woken_stands(void **state)
{
	struct counted thread = { 0 };

	(void)state;
	get_cpu(&thread);
	assert_false(look(&thread));
	block(&thread);
	assert_true(look(&thread));
	/* … at each tick at which it still has no CPU. */
	assert_true(look(&thread));
	for (int i = 0; i < 5; i++) {
		get_cpu(&thread);
		block(&thread);
	}
	assert_true(look(&thread));
}

static void thread_that_got_a_cpu_after_its_block_does_not_stand(void **state)
{
	struct counted thread = { 0 };

	(void)state;
	get_cpu(&thread);
	block(&thread);
	assert_true(look(&thread));
	get_cpu(&thread);
	assert_false(look(&thread));
	assert_false(look(&thread));
}

static void thread_that_was_put_off_does_not_stand(void **state)
{
	struct counted thread = { 0 };

	(void)state;
	get_cpu(&thread);
	block(&thread);
	assert_true(look(&thread));
	get_cpu(&thread);
	lose_cpu(&thread);
	assert_false(look(&thread));
	get_cpu(&thread);
	lose_cpu(&thread);
	assert_false(look(&thread));
}

/* The kernel leaves out a gain now and then. */
static void counts_with_a_gap_go_on_with_what_is_least(void **state)
{
	struct counted thread = { 0 };

	(void)state;
	get_cpu(&thread);
	block(&thread);
	assert_true(look(&thread));
	block(&thread); /* its gain is not counted */
	assert_true(look(&thread));
	get_cpu(&thread);
	assert_false(look(&thread));
	block(&thread);
	assert_true(look(&thread));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thread_that_blocked_and_was_woken_stands),
		cmocka_unit_test(
			thread_that_got_a_cpu_after_its_block_does_not_stand),
		cmocka_unit_test(thread_that_was_put_off_does_not_stand),
		cmocka_unit_test(counts_with_a_gap_go_on_with_what_is_least),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
