/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers of rate limits, good and malformed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "upload/deliver/ratelimit.h"

#define NOW_S 784111777 /* Sun, 06 Nov 1994 08:49:37 GMT */

struct header_case {
	const char *header;
	unsigned int seconds;
};

static const struct header_case RETRY_AFTER[] = {
	{ "", 60 },
	{ "0", 1 },
	{ "1", 1 },
	{ "120", 120 },
	{ "  120  ", 120 },
	{ "2.5", 3 },
	{ "86400", 86400 },
	{ "86401", 86400 },
	{ "999999999999999999999999999999", 86400 },
	{ "-1", 60 },
	{ "-999999999999999999999", 60 },
	{ "NaN", 60 },
	{ "inf", 60 },
	{ "0x10", 60 },
	{ "1e9", 60 },
	{ "12 monkeys", 60 },
	{ "soon", 60 },
	{ "Sun, 06 Nov 1994 08:51:17 GMT", 100 },
	{ "Sun, 06 Nov 1994 08:49:38 GMT", 1 },
	{ "Sun, 06 Nov 1994 08:49:37 GMT", 60 },
	{ "Sun, 06 Nov 1984 08:49:37 GMT", 60 },
	{ "Sun, 06 Nov 2094 08:49:37 GMT", 86400 },
	{ "Sun, 06 Now 1994 08:51:17 GMT", 60 },
	{ "Sun, 06 anF 1994 08:51:17 GMT", 60 },
	{ "Sun, 06 Nov 1994 08:51:17 CET", 60 },
	{ "Sun, 06 Nov 1994 25:51:17 GMT", 60 },
	{ "Sun, 66 Nov 1994 08:51:17 GMT", 60 },
	{ "Sun, 06 Nov 1994", 60 },
	{ "Sunday, 06-Nov-94 08:51:17 GMT", 60 },
};

/* Seconds for transactions, profiles, chunks. */
static const struct {
	const char *header;
	uint32_t seconds[FGT_CATEGORY_COUNT];
} SENTRY[] = {
	{ "", { 0, 0, 0 } },
	{ "60::organization", { 60, 60, 60 } },
	{ "60:;:organization", { 60, 60, 60 } },
	{ "60:profile:organization", { 0, 60, 0 } },
	{ "60:profile_chunk:organization", { 0, 0, 60 } },
	{ "60:profile_duration:organization", { 0, 0, 60 } },
	{ "60:profile_chunk_ui;profile_duration_ui:key", { 0, 0, 60 } },
	{ "60:transaction;profile:project:quota", { 60, 60, 0 } },
	{ "60:error;default:organization", { 0, 0, 0 } },
	{ "60:;error:organization", { 0, 0, 0 } },
	{ "60:error;profile:organization", { 0, 60, 0 } },
	{ "60:error:organization, 120:profile:key", { 0, 120, 0 } },
	{ "120:profile:key,60:transaction:key", { 60, 120, 0 } },
	{ "120:profile:key,60::key", { 60, 120, 60 } },
	{ "2700:metric_bucket:organization:quota:custom", { 0, 0, 0 } },
	{ "60:transaction_processed;profile_indexed:key", { 0, 0, 0 } },
	{ "12.3:profile:x", { 0, 13, 0 } },
	{ "-5:profile:x", { 0, 0, 0 } },
	{ "0:profile:x", { 0, 0, 0 } },
	{ "999999999999:profile:x", { 0, 86400, 0 } },
	{ "garbage, 30:profile:x", { 0, 30, 0 } },
	{ "nan:profile:x", { 0, 0, 0 } },
	{ "60", { 0, 0, 0 } },
	{ "60:profiler:x", { 0, 0, 0 } },
	{ ":::,,,:;:;", { 0, 0, 0 } },
	{ "60: profile ; x:y", { 0, 60, 0 } },
};

/* Fault N3. */
static void retry_after_is_read_and_bounded(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(RETRY_AFTER) / sizeof(*RETRY_AFTER);
	     i++) {
		unsigned int seconds =
			fgt_ratelimit_retry_after(RETRY_AFTER[i].header, NOW_S);

		if (seconds != RETRY_AFTER[i].seconds)
			fail_msg("\"%s\" gave %u", RETRY_AFTER[i].header,
				 seconds);
	}
}

static void longest_limit_of_each_category_counts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(SENTRY) / sizeof(*SENTRY); i++) {
		struct fgt_ratelimits limits = { { 0 } };

		fgt_ratelimits_read(&limits, SENTRY[i].header);
		if (memcmp(limits.seconds, SENTRY[i].seconds,
			   sizeof(limits.seconds)))
			fail_msg("\"%s\" gave %u, %u, %u", SENTRY[i].header,
				 limits.seconds[0], limits.seconds[1],
				 limits.seconds[2]);
	}
}

static void pauses_of_several_answers_add_up(void **state)
{
	const uint64_t second = UINT64_C(1000000000);
	struct fgt_ratelimits limits = { { 0 } }, other = { { 0 } };
	struct fgt_pauses pauses = { { 0 } };

	(void)state;
	fgt_ratelimits_read(&limits, "10:profile_chunk:key");
	fgt_pauses_extend(&pauses, &limits, 5 * second);
	fgt_ratelimits_read(&other, "2:profile_chunk;transaction:key");
	fgt_pauses_extend(&pauses, &other, 6 * second);
	assert_int_equal(fgt_pauses_mask(&pauses, 7 * second),
			 1 << FGT_CATEGORY_CHUNK |
				 1 << FGT_CATEGORY_TRANSACTION);
	assert_int_equal(fgt_pauses_mask(&pauses, 8 * second),
			 1 << FGT_CATEGORY_CHUNK);
	assert_int_equal(fgt_pauses_mask(&pauses, 15 * second), 0);
	fgt_ratelimits_merge(&other, &limits);
	assert_int_equal(other.seconds[FGT_CATEGORY_CHUNK], 10);
	assert_int_equal(fgt_ratelimits_mask(&other),
			 1 << FGT_CATEGORY_CHUNK |
				 1 << FGT_CATEGORY_TRANSACTION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(retry_after_is_read_and_bounded),
		cmocka_unit_test(longest_limit_of_each_category_counts),
		cmocka_unit_test(pauses_of_several_answers_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
