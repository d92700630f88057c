/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids of traces: made, and read from headers of untrusted clients.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/lib/transactions/trace_id.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN  "b7ad6b7169203331"

static void both_formats_of_header_are_read(void **state)
{
	static const char *const right[] = {
		TRACE "-" SPAN,
		TRACE "-" SPAN "-0",
		TRACE "-" SPAN "-1",
		"00-" TRACE "-" SPAN "-00",
		"00-" TRACE "-" SPAN "-01",
		"00-" TRACE "-" SPAN "-ff",
		"01-" TRACE "-" SPAN "-01",
		"cc-" TRACE "-" SPAN "-01-what-the-future-brings",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		char trace_id[33] = "", span_id[17] = "";

		assert_int_equal(
			fgt_trace_id_parse(right[i], trace_id, span_id), 0);
		assert_string_equal(trace_id, TRACE);
		assert_string_equal(span_id, SPAN);
	}
}

static void malformed_headers_change_nothing(void **state)
{
	static const char *const wrong[] = {
		"",
		"-",
		"00-",
		TRACE,
		TRACE "-",
		SPAN "-" TRACE,
		TRACE "-" SPAN "-",
		TRACE "-" SPAN "-2",
		TRACE "-" SPAN "-11",
		TRACE "-" SPAN "0",
		TRACE "-" SPAN " ",
		" " TRACE "-" SPAN,
		TRACE "_" SPAN,
		"0AF7651916CD43DD8448EB211C80319C-" SPAN,
		"00000000000000000000000000000000-" SPAN,
		TRACE "-0000000000000000",
		"00-" TRACE "-" SPAN,
		"00-" TRACE "-" SPAN "-",
		"00-" TRACE "-" SPAN "-0",
		"00-" TRACE "-" SPAN "-0g",
		"00-" TRACE "-" SPAN "-01-",
		"00-" TRACE "-" SPAN "-011",
		"00-" TRACE "-0000000000000000-01",
		"00-00000000000000000000000000000000-" SPAN "-01",
		"0-" TRACE "-" SPAN "-01",
		"ff-" TRACE "-" SPAN "-01",
		"zz-" TRACE "-" SPAN "-01",
		"01-" TRACE "-" SPAN "-01x",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char trace_id[33] = "kept", span_id[17] = "kept";

		if (fgt_trace_id_parse(wrong[i], trace_id, span_id) != -EINVAL)
			fail_msg("'%s' was taken", wrong[i]);
		assert_string_equal(trace_id, "kept");
		assert_string_equal(span_id, "kept");
	}
}

/* The sanitizer detects reads beyond the NUL of a prefix. */
static void prefix_is_not_read_beyond_its_end(void **state)
{
	const char *header = "00-" TRACE "-" SPAN "-01";
	char trace_id[33], span_id[17];

	(void)state;
	for (size_t len = 0; len < strlen(header); len++) {
		char *copy = strndup(header, len);

		assert_non_null(copy);
		assert_int_equal(fgt_trace_id_parse(copy, trace_id, span_id),
				 -EINVAL);
		free(copy);
	}
}

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, 17);
}

static void ids_are_hex_and_unique(void **state)
{
	enum {
		COUNT = 100000
	};
	char(*ids)[17] = calloc(COUNT, sizeof(*ids));

	(void)state;
	assert_non_null(ids);
	fgt_trace_id_seed();
	for (int i = 0; i < COUNT; i++) {
		fgt_trace_id_make(ids[i], 16);
		assert_int_equal(strspn(ids[i], "0123456789abcdef"), 16);
		assert_int_not_equal(ids[i][0], '0');
	}
	qsort(ids, COUNT, sizeof(*ids), compare);
	for (int i = 1; i < COUNT; i++)
		assert_string_not_equal(ids[i - 1], ids[i]);
	free(ids);
}

/* 10 000 draws: 4 standard deviations of a tenth are 120. */
static void shares_of_made_ids_are_even(void **state)
{
	unsigned int tenths[10] = { 0 };
	char id[33];

	(void)state;
	fgt_trace_id_seed();
	for (int i = 0; i < 10000; i++) {
		double share;

		fgt_trace_id_make(id, 32);
		share = fgt_trace_id_share(id);
		assert_true(share >= 0 && share < 1);
		tenths[(int)(share * 10)]++;
	}
	for (int i = 0; i < 10; i++)
		assert_in_range(tenths[i], 850, 1150);
}

static void share_is_of_the_last_56_bits(void **state)
{
	(void)state;
	assert_true(fgt_trace_id_share("ffffffffffffffffff"
				       "00000000000000") == 0);
	assert_true(fgt_trace_id_share("000000000000000000"
				       "80000000000000") == 0.5);
	assert_true(fgt_trace_id_share("000000000000000000"
				       "ffffffffffffff") < 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_formats_of_header_are_read),
		cmocka_unit_test(malformed_headers_change_nothing),
		cmocka_unit_test(prefix_is_not_read_beyond_its_end),
		cmocka_unit_test(ids_are_hex_and_unique),
		cmocka_unit_test(shares_of_made_ids_are_even),
		cmocka_unit_test(share_is_of_the_last_56_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
