/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers of rate limits, good and malformed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

static const struct header_case SENTRY[] = {
	{ "", 0 },
	{ "60::organization", 60 },
	{ "60:profile:organization", 60 },
	{ "60:transaction;profile:project:quota", 60 },
	{ "60:error;default:organization", 0 },
	{ "60:error:organization, 120:profile:key", 120 },
	{ "120:profile:key,60:transaction:key", 120 },
	{ "2700:metric_bucket:organization:quota:custom", 0 },
	{ "12.3:profile:x", 13 },
	{ "-5:profile:x", 0 },
	{ "0:profile:x", 0 },
	{ "999999999999:profile:x", 86400 },
	{ "garbage, 30:profile:x", 30 },
	{ "nan:profile:x", 0 },
	{ "60", 0 },
	{ "60:profiler:x", 0 },
	{ ":::,,,:;:;", 0 },
	{ "60: profile ; x:y", 60 },
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

static void longest_limit_that_applies_counts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(SENTRY) / sizeof(*SENTRY); i++) {
		unsigned int seconds = fgt_ratelimit_sentry(SENTRY[i].header);

		if (seconds != SENTRY[i].seconds)
			fail_msg("\"%s\" gave %u", SENTRY[i].header, seconds);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(retry_after_is_read_and_bounded),
		cmocka_unit_test(longest_limit_that_applies_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
