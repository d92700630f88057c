/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of agent/capture/account: CPU time that no sample has shown. */
#include "agent/capture/look/look_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#define PERIOD 9900990u

static void use(struct fgt_cpu_use *use, uint64_t run_ns, uint64_t wait_ns)
{
	use->runtime_ns += run_ns;
	use->wait_ns += wait_ns;
	use->switches++;
}

static void ticks_are_shown_as_far_as_cpu_time_pays(void **state)
{
	struct fgt_account account = { 0 };
	struct fgt_cpu_use now = { 0 };
	unsigned int shown = 0;

	(void)state;
	/* A thread that is found running far more often than it runs. */
	for (int i = 0; i < 10000; i++) {
		use(&now, PERIOD / 10, PERIOD);
		fgt_account_add(&account, &now);
		shown += fgt_account_take_tick(&account, PERIOD);
		fgt_account_age(&account, PERIOD);
	}
	assert_in_range(shown, 999, 1005);
}

/* A thread that is found running at no tick, though it runs half its time. */
static void what_chance_does_not_explain_is_overdue(void **state)
{
	struct fgt_account account = { 0 };
	struct fgt_cpu_use now = { 0 };
	unsigned int shown = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		use(&now, PERIOD / 2, 0);
		fgt_account_add(&account, &now);
		if (i < 5)
			assert_false(fgt_account_is_overdue(&account, PERIOD));
		if (fgt_account_is_overdue(&account, PERIOD))
			shown += fgt_account_take_tick(&account, PERIOD);
		fgt_account_age(&account, PERIOD);
	}
	assert_in_range(shown, 496, 500);
}

static void what_is_due_stays_bounded(void **state)
{
	struct fgt_account account = { 0 };
	struct fgt_cpu_use now = { 0 };
	unsigned int shown = 0;

	(void)state;
	for (int i = 0; i < 100; i++) {
		use(&now, PERIOD, 0);
		fgt_account_add(&account, &now);
		fgt_account_age(&account, PERIOD);
	}
	for (int i = 0; i < 100; i++)
		shown += fgt_account_take_tick(&account, PERIOD);
	assert_in_range(shown, 16, 20);
}

static void waiting_is_shown_as_long_as_it_lasts(void **state)
{
	struct fgt_account account = { 0 };
	struct fgt_cpu_use now = { 0 };
	unsigned int running = 0, waiting = 0;

	(void)state;
	/* Always running or waiting for a CPU, for 30 % of the time the
	 * latter; the wait counts when it is over. */
	for (int i = 0; i < 3000; i++) {
		use(&now, PERIOD * 7 / 10, 0);
		if (i % 5 == 4)
			now.wait_ns += PERIOD * 3 / 2;
		fgt_account_add(&account, &now);
		if (fgt_account_take_wait(&account, PERIOD))
			waiting++;
		else
			running += fgt_account_take_tick(&account, PERIOD);
		fgt_account_age(&account, PERIOD);
	}
	assert_in_range(waiting, 895, 905);
	assert_in_range(running, 2095, 2105);
}

static void thread_that_never_waits_is_never_shown_waiting(void **state)
{
	struct fgt_account account = { 0 };
	struct fgt_cpu_use now = { 0 };

	(void)state;
	/* Its CPU time comes late, and in lumps. */
	for (int i = 0; i < 1000; i++) {
		if (i % 4 == 3)
			use(&now, 4 * PERIOD, 0);
		fgt_account_add(&account, &now);
		assert_false(fgt_account_take_wait(&account, PERIOD));
		fgt_account_take_tick(&account, PERIOD);
		fgt_account_age(&account, PERIOD);
	}
}

static void moved_ticks_change_no_sum(void **state)
{
	struct fgt_account account = { .due_ns = PERIOD,
				       .wait_due_ns = 2 * PERIOD };

	(void)state;
	assert_true(fgt_account_take_wait(&account, PERIOD));
	fgt_account_move_tick(&account, PERIOD, false);
	assert_int_equal(account.due_ns, 0);
	assert_int_equal(account.wait_due_ns, 2 * PERIOD);
	fgt_account_move_tick(&account, PERIOD, true);
	assert_int_equal(account.due_ns, PERIOD);
	assert_int_equal(account.wait_due_ns, PERIOD);
}

static void what_was_used_before_the_start_is_not_due(void **state)
{
	const struct fgt_cpu_use before = { 5000000000u, 70000000u, 12 };
	struct fgt_account account;

	(void)state;
	fgt_account_start(&account, &before);
	fgt_account_add(&account, &before);
	assert_int_equal(account.due_ns, 0);
	assert_int_equal(account.wait_due_ns, 0);
}

static void counters_that_jump_do_no_harm(void **state)
{
	struct fgt_account account = { 0 };
	struct fgt_cpu_use now = { UINT64_MAX, UINT64_MAX, 0 };
	struct fgt_cpu_use zero = { 0 };
	unsigned int shown = 0;

	(void)state;
	for (int i = 0; i < 100; i++) {
		fgt_account_add(&account, i % 2 ? &zero : &now);
		shown += fgt_account_take_wait(&account, PERIOD);
		fgt_account_age(&account, PERIOD);
	}
	assert_true(shown <= 100);
	/* A late tick is not made up for. */
	for (int i = 0; i < 200; i++)
		fgt_account_age(&account, PERIOD);
	assert_true(account.due_ns <= 16 * (int64_t)PERIOD);
	assert_true(account.wait_due_ns <= 16 * (int64_t)PERIOD);
}

static void
ticks_without_a_sample_are_runnable_if_the_wait_explains_it(void **state)
{
	const int64_t period = PERIOD;

	(void)state;
	/* By chance, each tick of a few fell into another short wait. */
	assert_int_equal(fgt_look_unpaid_ticks(8 * period, PERIOD, 5), 0);
	assert_int_equal(fgt_look_unpaid_ticks(-3 * period, PERIOD, 5), 0);
	/* Its samples are missing. */
	assert_int_equal(fgt_look_unpaid_ticks(-5 * period, PERIOD, 5), 2);
	assert_int_equal(fgt_look_unpaid_ticks(-40 * period, PERIOD, 5), 5);
	assert_int_equal(fgt_look_unpaid_ticks(-40 * period, PERIOD, 0), 0);
}

static void account_pays_for_waits_of_ticks_without_a_look(void **state)
{
	struct fgt_account account = { 0 };
	struct fgt_cpu_use now = { 0 };

	(void)state;
	assert_int_equal(fgt_account_take_waits(&account, PERIOD, 3), 0);
	use(&now, 0, 2 * PERIOD + PERIOD / 4);
	fgt_account_add(&account, &now);
	assert_int_equal(fgt_account_take_waits(&account, PERIOD, 5), 2);
	assert_int_equal(account.wait_due_ns, PERIOD / 4);
	use(&now, 0, 3 * PERIOD);
	fgt_account_add(&account, &now);
	assert_int_equal(fgt_account_take_waits(&account, PERIOD, 1), 1);
	/* What is left over is not lost. */
	assert_int_equal(account.wait_due_ns, 2 * PERIOD + PERIOD / 4);
}

/* Found woken at each tick, though it never waits: woken with the sampler. */
static void ticks_woken_with_the_sampler_are_no_waits(void **state)
{
	struct fgt_account account = { 0 };
	unsigned int waiting = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		waiting += fgt_account_take_woken(&account, PERIOD);
		fgt_account_age(&account, PERIOD);
	}
	assert_in_range(waiting, 3, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ticks_are_shown_as_far_as_cpu_time_pays),
		cmocka_unit_test(what_chance_does_not_explain_is_overdue),
		cmocka_unit_test(what_is_due_stays_bounded),
		cmocka_unit_test(waiting_is_shown_as_long_as_it_lasts),
		cmocka_unit_test(
			thread_that_never_waits_is_never_shown_waiting),
		cmocka_unit_test(moved_ticks_change_no_sum),
		cmocka_unit_test(ticks_woken_with_the_sampler_are_no_waits),
		cmocka_unit_test(what_was_used_before_the_start_is_not_due),
		cmocka_unit_test(counters_that_jump_do_no_harm),
		cmocka_unit_test(
			ticks_without_a_sample_are_runnable_if_the_wait_explains_it),
		cmocka_unit_test(
			account_pays_for_waits_of_ticks_without_a_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
