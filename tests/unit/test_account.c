/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of CPU time that no tick has shown: simulated threads, whose
 * shares must come out right whatever samples come.
 */
#include "agent/capture/account.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#define PERIOD 9900990u
#define TICKS  20000

static void use(struct fgt_cpu_use *use, uint64_t run_ns, uint64_t wait_ns)
{
	use->runtime_ns += run_ns;
	use->wait_ns += wait_ns;
	use->switches++;
}

static void a_thread_without_samples_gets_its_share_of_ticks(void **state)
{
	struct fgt_account account = { .due_ns = 0 };
	struct fgt_cpu_use now = { 0 };
	unsigned int shown = 0;

	(void)state;
	srand(7);
	for (int i = 0; i < TICKS; i++) {
		use(&now, (uint64_t)rand() % (PERIOD * 6 / 10), 0);
		fgt_account_add(&account, &now);
		shown += fgt_account_take_tick(&account, PERIOD, false, false);
		fgt_account_age(&account, PERIOD);
	}
	/* 30 % on average, and never off by more than what is still due. */
	assert_in_range(shown, now.runtime_ns / PERIOD - 3,
			now.runtime_ns / PERIOD + 3);
}

/* Samples come once per period of CPU time; some tick boundaries get two. */
static void samples_and_guesses_together_do_not_exceed_the_share(void **state)
{
	struct fgt_account account = { .due_ns = 0 };
	struct fgt_cpu_use now = { 0 };
	uint64_t next_sample = PERIOD / 3;
	unsigned int shown = 0;
	bool was_shown = false;

	(void)state;
	srand(11);
	for (int i = 0; i < TICKS; i++) {
		bool is_shown = false;

		use(&now, (uint64_t)rand() % (PERIOD * 8 / 10), 0);
		fgt_account_add(&account, &now);
		while (now.runtime_ns >= next_sample) {
			next_sample += PERIOD;
			is_shown |= fgt_account_take_sample(&account, PERIOD);
		}
		if (!is_shown && was_shown && rand() % 2 == 0) {
			/* Found running, goes on as it was. */
			fgt_account_lend(&account, PERIOD);
			is_shown = true;
		} else if (!is_shown) {
			is_shown = fgt_account_take_tick(&account, PERIOD, true,
							 false);
			if (!is_shown)
				fgt_account_settle(&account);
		}
		shown += is_shown;
		was_shown = is_shown;
		fgt_account_age(&account, PERIOD);
	}
	assert_in_range(shown, now.runtime_ns / PERIOD * 97 / 100,
			now.runtime_ns / PERIOD * 103 / 100);
}

static void time_spent_waiting_for_a_cpu_pays_for_lent_ticks(void **state)
{
	struct fgt_account account = { .due_ns = 0 };
	struct fgt_cpu_use now = { 0 };
	unsigned int shown = 0;

	(void)state;
	/* Runs 4 ms, waits 5 ticks, runs again: it is runnable all the time. */
	for (int i = 0; i < 2000; i++) {
		bool has_run = i % 5 == 0;

		if (has_run)
			use(&now, 4000000, 4 * PERIOD + 5900990);
		fgt_account_add(&account, &now);
		if (has_run && fgt_account_take_sample(&account, PERIOD)) {
			shown++;
		} else {
			fgt_account_lend(&account, PERIOD);
			shown++;
		}
		fgt_account_age(&account, PERIOD);
	}
	assert_int_equal(shown, 2000);
}

static void cpu_time_that_no_sample_showed_is_told_apart(void **state)
{
	struct fgt_account account = { .due_ns = 0 };
	struct fgt_cpu_use now = { 0 };
	unsigned int hidden = 0;

	(void)state;
	/* Three of four periods are spent in the kernel. */
	for (int i = 0; i < 4000; i++) {
		use(&now, PERIOD, 0);
		fgt_account_add(&account, &now);
		if (i % 4 == 0)
			fgt_account_take_sample(&account, PERIOD);
		else if (fgt_account_take_tick(&account, PERIOD, true, false))
			hidden += fgt_account_take_hidden(&account, PERIOD);
		fgt_account_age(&account, PERIOD);
	}
	assert_in_range(hidden, 2950, 3000);
}

static void what_was_used_before_the_start_is_not_due(void **state)
{
	const struct fgt_cpu_use before = { 5000000000u, 70000000u, 12 };
	struct fgt_account account;

	(void)state;
	fgt_account_start(&account, &before);
	fgt_account_add(&account, &before);
	assert_int_equal(account.due_ns, 0);
	assert_false(fgt_account_take_tick(&account, PERIOD, false, true));
}

static void counters_that_jump_do_no_harm(void **state)
{
	struct fgt_account account = { .due_ns = 0 };
	struct fgt_cpu_use now = { UINT64_MAX, UINT64_MAX, 0 };
	struct fgt_cpu_use zero = { 0 };
	unsigned int shown = 0;

	(void)state;
	for (int i = 0; i < 100; i++) {
		fgt_account_add(&account, i % 2 ? &zero : &now);
		shown += fgt_account_take_tick(&account, PERIOD, false, false);
		fgt_account_lend(&account, PERIOD);
		fgt_account_age(&account, PERIOD);
	}
	assert_true(shown <= 100);
	/* A late tick is not made up for. */
	for (int i = 0; i < 200; i++)
		fgt_account_age(&account, PERIOD);
	assert_true(account.due_ns <= 2 * (int64_t)PERIOD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_thread_without_samples_gets_its_share_of_ticks),
		cmocka_unit_test(
			samples_and_guesses_together_do_not_exceed_the_share),
		cmocka_unit_test(
			time_spent_waiting_for_a_cpu_pays_for_lent_ticks),
		cmocka_unit_test(cpu_time_that_no_sample_showed_is_told_apart),
		cmocka_unit_test(what_was_used_before_the_start_is_not_due),
		cmocka_unit_test(counters_that_jump_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
