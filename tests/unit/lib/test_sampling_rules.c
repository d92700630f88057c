/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which transactions are kept: rules, gap and cap, with times of the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "agent/lib/transactions/sampling_rules.h"

#define SECOND UINT64_C(1000000000)
#define HOUR   (3600 * SECOND)

static const struct fgt_sampling_rules ALL = {
	.sample_rate = 1,
	.min_gap_ns = FGT_SAMPLING_NO_GAP_LIMIT,
	.max_per_hour = FGT_SAMPLING_NO_HOUR_LIMIT,
};

static struct fgt_sampling_facts lasted(uint64_t duration_ns)
{
	return (struct fgt_sampling_facts){ .begin_ns = 5 * SECOND,
					    .end_ns = 5 * SECOND + duration_ns,
					    .share = 0.5 };
}

static void short_transaction_is_not_wanted(void **state)
{
	struct fgt_sampling_rules rules = ALL;
	struct fgt_sampling_facts facts;

	(void)state;
	rules.min_duration_ns = 200000000;
	facts = lasted(199999999);
	assert_false(fgt_sampling_is_wanted(&rules, &facts));
	facts = lasted(200000000);
	assert_true(fgt_sampling_is_wanted(&rules, &facts));
}

static void rate_compares_the_share_of_the_trace(void **state)
{
	struct fgt_sampling_rules rules = ALL;
	struct fgt_sampling_facts facts = lasted(0);

	(void)state;
	rules.sample_rate = 0.25;
	facts.share = 0.2499;
	assert_true(fgt_sampling_is_wanted(&rules, &facts));
	facts.share = 0.25;
	assert_false(fgt_sampling_is_wanted(&rules, &facts));
	rules.sample_rate = 1;
	facts.share = 0.99999;
	assert_true(fgt_sampling_is_wanted(&rules, &facts));
	rules.sample_rate = -1;
	facts.share = 0;
	assert_false(fgt_sampling_is_wanted(&rules, &facts));
}

static void error_is_kept_only_with_keep_errors(void **state)
{
	struct fgt_sampling_rules rules = ALL;
	struct fgt_sampling_facts facts = lasted(1);

	(void)state;
	facts.is_error = true;
	rules.sample_rate = -1;
	rules.min_duration_ns = SECOND;
	assert_false(fgt_sampling_is_wanted(&rules, &facts));
	rules.is_error_kept = true;
	assert_true(fgt_sampling_is_wanted(&rules, &facts));
	facts.is_error = false;
	assert_false(fgt_sampling_is_wanted(&rules, &facts));
}

static void kept_transactions_are_a_gap_apart(void **state)
{
	struct fgt_sampling_rules rules = ALL;
	struct fgt_sampling_limit limit;

	(void)state;
	fgt_sampling_limit_init(&limit);
	rules.min_gap_ns = SECOND;
	assert_true(fgt_sampling_limit_take(&limit, &rules, 10 * SECOND));
	assert_false(fgt_sampling_limit_take(&limit, &rules, 11 * SECOND - 1));
	/* A transaction that is not kept does not count. */
	assert_true(fgt_sampling_limit_take(&limit, &rules, 11 * SECOND));
	assert_false(fgt_sampling_limit_take(&limit, &rules, 11 * SECOND));
	rules.min_gap_ns = FGT_SAMPLING_NO_GAP_LIMIT;
	assert_true(fgt_sampling_limit_take(&limit, &rules, 12 * SECOND));
	assert_true(fgt_sampling_limit_take(&limit, &rules, 12 * SECOND));
}

/* Stopped, and started again with other rules. */
static void gap_of_former_rules_is_over_with_them(void **state)
{
	struct fgt_sampling_rules rules = ALL;
	struct fgt_sampling_limit limit;

	(void)state;
	fgt_sampling_limit_init(&limit);
	rules.min_gap_ns = HOUR;
	assert_true(fgt_sampling_limit_take(&limit, &rules, 10 * SECOND));
	rules.min_gap_ns = SECOND;
	fgt_sampling_limit_begin(&limit, &rules, 10 * SECOND);
	assert_false(fgt_sampling_limit_take(&limit, &rules, 11 * SECOND - 1));
	assert_true(fgt_sampling_limit_take(&limit, &rules, 11 * SECOND));
	rules.min_gap_ns = FGT_SAMPLING_NO_GAP_LIMIT;
	fgt_sampling_limit_begin(&limit, &rules, 11 * SECOND);
	assert_true(fgt_sampling_limit_take(&limit, &rules, 11 * SECOND));
}

/* At any step of a simulated day: at most the cap in 60 minutes. */
static void no_hour_has_more_than_the_cap(void **state)
{
	enum {
		CAP = 7,
		KEPT_MAX = 4096
	};
	struct fgt_sampling_rules rules = ALL;
	struct fgt_sampling_limit limit;
	static uint64_t kept[KEPT_MAX];
	uint64_t now_ns = 40 * HOUR + 7;
	size_t count = 0;

	(void)state;
	fgt_sampling_limit_init(&limit);
	rules.max_per_hour = CAP;
	for (uint32_t i = 0; i < 200000 && count < KEPT_MAX; i++) {
		/* Bursts, then pauses of up to 17 minutes. */
		now_ns += i % 97 ? (i * 2654435761u) % SECOND
				 : (i * 2654435761u) % 1000 * SECOND;
		if (fgt_sampling_limit_take(&limit, &rules, now_ns))
			kept[count++] = now_ns;
	}
	assert_true(count > 10 * CAP);
	for (size_t i = CAP; i < count; i++)
		assert_true(kept[i] - kept[i - CAP] >= HOUR);
}

static void cap_is_reached_and_free_again_after_an_hour(void **state)
{
	struct fgt_sampling_rules rules = ALL;
	struct fgt_sampling_limit limit;

	(void)state;
	fgt_sampling_limit_init(&limit);
	rules.max_per_hour = 120;
	for (int i = 0; i < 10000; i++)
		assert_int_equal(fgt_sampling_limit_take(&limit, &rules, HOUR),
				 i < 120);
	assert_false(fgt_sampling_limit_take(&limit, &rules, 2 * HOUR - 1));
	assert_true(fgt_sampling_limit_take(&limit, &rules,
					    2 * HOUR + 61 * SECOND));
}

struct rival {
	pthread_t thread;
	struct fgt_sampling_limit *limit;
	struct fgt_sampling_rules rules;
	unsigned int kept;
};

static void *take_many(void *context)
{
	struct rival *rival = context;

	for (int i = 0; i < 20000; i++)
		rival->kept += fgt_sampling_limit_take(rival->limit,
						       &rival->rules, HOUR);
	return NULL;
}

static void threads_share_the_cap(void **state)
{
	struct fgt_sampling_limit limit;
	struct rival rivals[4];
	unsigned int kept = 0;

	(void)state;
	fgt_sampling_limit_init(&limit);
	for (int i = 0; i < 4; i++) {
		rivals[i] = (struct rival){ .limit = &limit, .rules = ALL };
		rivals[i].rules.max_per_hour = 1000;
		assert_int_equal(pthread_create(&rivals[i].thread, NULL,
						take_many, &rivals[i]),
				 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(rivals[i].thread, NULL);
		kept += rivals[i].kept;
	}
	assert_int_equal(kept, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_transaction_is_not_wanted),
		cmocka_unit_test(rate_compares_the_share_of_the_trace),
		cmocka_unit_test(error_is_kept_only_with_keep_errors),
		cmocka_unit_test(kept_transactions_are_a_gap_apart),
		cmocka_unit_test(gap_of_former_rules_is_over_with_them),
		cmocka_unit_test(no_hour_has_more_than_the_cap),
		cmocka_unit_test(cap_is_reached_and_free_again_after_an_hour),
		cmocka_unit_test(threads_share_the_cap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
