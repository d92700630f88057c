/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library makes of an agent's frames, true or not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "agent/protocol/answer.h"

#define PARSE(text, answer)                                                    \
	fgt_answer_parse((const uint8_t *)(text), sizeof(text) - 1, answer)

static void slice_head_is_understood(void **state)
{
	struct fgt_answer answer;

	(void)state;
	assert_int_equal(PARSE("\x86\xa2ok\xc3\xa7"
			       "from_ns\x05\xa5"
			       "to_ns\xcd\x01\x00\xa5"
			       "ticks\x03\xa7threads\x02\xa3pid\x01",
			       &answer),
			 0);
	assert_true(answer.has_ok && answer.is_ok);
	assert_int_equal(answer.from_ns, 5);
	assert_int_equal(answer.to_ns, 256);
	assert_int_equal(answer.ticks, 3);
	assert_int_equal(answer.threads, 2);
}

static void error_is_understood_and_printable(void **state)
{
	struct fgt_answer answer;

	(void)state;
	assert_int_equal(PARSE("\x83\xa2ok\xc2\xa5"
			       "error\xd0\xc3\xa3why\xa4n\no\x1b",
			       &answer),
			 0);
	assert_true(answer.has_ok && !answer.is_ok);
	assert_int_equal(answer.error, -61);
	assert_string_equal(answer.why, "n?o?");
}

static void data_and_end_are_understood(void **state)
{
	struct fgt_answer answer;

	(void)state;
	assert_int_equal(PARSE("\x81\xa4"
			       "data\xc4\x02zy",
			       &answer),
			 0);
	assert_int_equal(answer.data_len, 2);
	assert_memory_equal(answer.data, "zy", 2);
	assert_false(answer.is_end);
	assert_int_equal(PARSE("\x82\xa3"
			       "end\xc3\xa3len\x07",
			       &answer),
			 0);
	assert_true(answer.is_end);
	assert_int_equal(answer.len, 7);
	assert_false(answer.has_ok);
}

static void unknown_keys_of_any_kind_are_skipped(void **state)
{
	struct fgt_answer answer;

	(void)state;
	assert_int_equal(PARSE("\x83\xa1x\x92\x81\xa1y\xc0\xd4\x01\x02\xa2ok"
			       "\xc3\xa1z\xca\x00\x00\x00\x00",
			       &answer),
			 0);
	assert_true(answer.is_ok);
}

static void nonsense_is_refused(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} zoo[] = {
		{ "", 0 },
		{ "\xc1", 1 },
		{ "\x01", 1 }, /* no map */
		{ "\x81\xa2ok", 4 }, /* truncated */
		{ "\x81\xa2ok\xc3\x00", 6 }, /* a byte too many */
		{ "\x81\xa2ok\x01", 5 }, /* no bool */
		{ "\x81\xa5"
		  "error\x01",
		  8 }, /* an error that is none */
		{ "\x81\xa5ticks\xff", 8 }, /* negative */
		{ "\x81\x01\xc3", 3 }, /* key is a number */
		{ "\xdf\x7f\xff\xff\xff", 5 }, /* a bomb */
		{ "\x81\xa4"
		  "data\xc6\xff\xff\xff\xff",
		  11 },
		{ "\x81\xa2hz\xcb\x7f\xf8\0\0\0\0\0\0", 13 }, /* NaN */
		{ "\x81\xa2hz\xcb\xbf\xf0\0\0\0\0\0\0", 13 }, /* -1 */
	};
	struct fgt_answer answer;

	(void)state;
	for (size_t i = 0; i < sizeof(zoo) / sizeof(zoo[0]); i++)
		assert_int_equal(fgt_answer_parse((const uint8_t *)zoo[i].bytes,
						  zoo[i].len, &answer),
				 -EBADMSG);
}

static void long_text_is_cut(void **state)
{
	uint8_t bytes[1024] = "\x81\xa3why\xda\x03\xe8"; /* 1000 bytes */
	struct fgt_answer answer;

	(void)state;
	memset(bytes + 8, 'x', 1000);
	assert_int_equal(fgt_answer_parse(bytes, 1008, &answer), 0);
	assert_int_equal(strlen(answer.why), sizeof(answer.why) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slice_head_is_understood),
		cmocka_unit_test(error_is_understood_and_printable),
		cmocka_unit_test(data_and_end_are_understood),
		cmocka_unit_test(unknown_keys_of_any_kind_are_skipped),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(long_text_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
