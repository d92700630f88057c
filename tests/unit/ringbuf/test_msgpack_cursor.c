/* SPDX-License-Identifier: Apache-2.0 */
/* Reading msgpack in place: values, ranges, errors that stick; the check. */
#include "ringbuf/base/msgpack_cursor.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A cursor over a literal without its NUL. */
#define CURSOR(literal) cursor_over(literal, sizeof(literal) - 1)

static struct fgt_msgpack_cursor cursor_over(const char *bytes, size_t len)
{
	struct fgt_msgpack_cursor cursor;

	fgt_msgpack_cursor_init(&cursor, (const uint8_t *)bytes, len);
	return cursor;
}

static void integers_of_every_width_are_read(void **state)
{
	struct fgt_msgpack_cursor c =
		CURSOR("\x00\x7f\xcc\xff\xcd\xff\xfe\xce\xff\xff\xff\xfd"
		       "\xcf\xff\xff\xff\xff\xff\xff\xff\xfc"
		       "\xe0\xff\xd0\x80\xd1\x80\x00\xd2\x80\x00\x00\x00"
		       "\xd3\x80\x00\x00\x00\x00\x00\x00\x00\xd0\x05");

	(void)state;
	assert_int_equal(fgt_msgpack_read_uint(&c, 0), 0);
	assert_int_equal(fgt_msgpack_read_uint(&c, 127), 127);
	assert_int_equal(fgt_msgpack_read_uint(&c, 255), 255);
	assert_int_equal(fgt_msgpack_read_uint(&c, UINT64_MAX), 0xfffe);
	assert_int_equal(fgt_msgpack_read_uint(&c, UINT64_MAX), 0xfffffffd);
	assert_true(fgt_msgpack_read_uint(&c, UINT64_MAX) == UINT64_MAX - 3);
	assert_int_equal(fgt_msgpack_read_int(&c, -32, 0), -32);
	assert_int_equal(fgt_msgpack_read_int(&c, -1, 0), -1);
	assert_int_equal(fgt_msgpack_read_int(&c, INT64_MIN, 0), -128);
	assert_int_equal(fgt_msgpack_read_int(&c, INT64_MIN, 0), -32768);
	assert_int_equal(fgt_msgpack_read_int(&c, INT64_MIN, 0), INT32_MIN);
	assert_true(fgt_msgpack_read_int(&c, INT64_MIN, 0) == INT64_MIN);
	/* Positive in a signed type is unsigned enough. */
	assert_int_equal(fgt_msgpack_read_uint(&c, 5), 5);
	assert_int_equal(c.error, 0);
	assert_int_equal(fgt_msgpack_cursor_left(&c), 0);
}

static void assert_refused(struct fgt_msgpack_cursor *c)
{
	assert_int_equal(c->error, -EBADMSG);
	assert_int_equal(fgt_msgpack_cursor_left(c), 0);
}

static void values_out_of_range_are_refused(void **state)
{
	struct fgt_msgpack_cursor c = CURSOR("\x06");

	(void)state;
	assert_int_equal(fgt_msgpack_read_uint(&c, 5), 0);
	assert_refused(&c);
	c = CURSOR("\xff");
	assert_int_equal(fgt_msgpack_read_uint(&c, UINT64_MAX), 0);
	assert_refused(&c);
	c = CURSOR("\xcf\xff\xff\xff\xff\xff\xff\xff\xff");
	assert_int_equal(fgt_msgpack_read_int(&c, INT64_MIN, INT64_MAX), 0);
	assert_refused(&c);
	c = CURSOR("\x04");
	assert_int_equal(fgt_msgpack_read_int(&c, 5, 9), 0);
	assert_refused(&c);
	c = CURSOR("\xa1x");
	assert_int_equal(fgt_msgpack_read_uint(&c, UINT64_MAX), 0);
	assert_refused(&c);
}

static void first_error_sticks_with_its_place(void **state)
{
	struct fgt_msgpack_cursor c = CURSOR("\x01\x02\xc3\x04\x05");

	(void)state;
	assert_int_equal(fgt_msgpack_read_uint(&c, 9), 1);
	assert_int_equal(fgt_msgpack_read_uint(&c, 9), 2);
	assert_int_equal(fgt_msgpack_read_uint(&c, 9), 0);
	assert_int_equal(fgt_msgpack_read_uint(&c, 9), 0);
	assert_int_equal(fgt_msgpack_read_str(&c).len, 0);
	assert_int_equal(fgt_msgpack_read_array(&c), 0);
	assert_refused(&c);
	assert_int_equal(c.error_at, 3);
}

static void texts_and_other_scalars_are_read(void **state)
{
	struct fgt_msgpack_cursor c =
		CURSOR("\xa3"
		       "abc\xd9\x01x\xda\0\x01y\xdb\0\0\0\x01z\xc4\x02\0\x01"
		       "\xc3\xc2\xca\x3f\x80\0\0\xcb\xbf\xf8\0\0\0\0\0\0");
	struct fgt_msgpack_text text = fgt_msgpack_read_str(&c);

	(void)state;
	assert_true(fgt_msgpack_text_is(text, "abc"));
	assert_false(fgt_msgpack_text_is(text, "ab"));
	assert_false(fgt_msgpack_text_is(text, "abcd"));
	assert_true(fgt_msgpack_text_is(fgt_msgpack_read_str(&c), "x"));
	assert_true(fgt_msgpack_text_is(fgt_msgpack_read_str(&c), "y"));
	assert_true(fgt_msgpack_text_is(fgt_msgpack_read_str(&c), "z"));
	assert_int_equal(fgt_msgpack_read_bin(&c).len, 2);
	assert_true(fgt_msgpack_read_bool(&c));
	assert_false(fgt_msgpack_read_bool(&c));
	assert_true(fgt_msgpack_read_double(&c) == 1.0);
	assert_true(fgt_msgpack_read_double(&c) == -1.5);
	assert_int_equal(c.error, 0);
	c = CURSOR("\xc4\x01x");
	fgt_msgpack_read_str(&c); /* bin is not str */
	assert_refused(&c);
}

static void counts_never_exceed_the_bytes_left(void **state)
{
	struct fgt_msgpack_cursor c = CURSOR("\x92\x01\x02");

	(void)state;
	assert_int_equal(fgt_msgpack_read_array(&c), 2);
	c = CURSOR("\x93\x01\x02");
	assert_int_equal(fgt_msgpack_read_array(&c), 0);
	assert_refused(&c);
	c = CURSOR("\x82\x01\x02\x03");
	assert_int_equal(fgt_msgpack_read_map(&c), 0);
	assert_refused(&c);
	c = CURSOR("\xdf\x80\x00\x00\x01\x01\x02\x03"); /* × 2 overflows */
	assert_int_equal(fgt_msgpack_read_map(&c), 0);
	assert_refused(&c);
	c = CURSOR("\xdb\xff\xff\xff\xffxyz");
	assert_int_equal(fgt_msgpack_read_str(&c).len, 0);
	assert_refused(&c);
}

static void skip_steps_over_one_object_of_any_kind(void **state)
{
	static const char object[] =
		"\x8a\x01\x92\xc0\xc3\x02\xa1x\x03\xc4\x01x\x04\xc7\x01\x05x"
		"\x05\xca"
		"1234"
		"\x06\xcf"
		"12345678"
		"\x07\xd3"
		"12345678"
		"\x08\xd5\x05"
		"12"
		"\x09\xdd\0\0\0\x01\x90\x0a\xd9\x01x";
	struct fgt_msgpack_cursor c = cursor_over(object, sizeof(object));

	(void)state;
	fgt_msgpack_skip(&c);
	assert_int_equal(c.error, 0);
	/* The literal's NUL is the object that follows. */
	assert_int_equal(fgt_msgpack_cursor_left(&c), 1);
	for (size_t len = 0; len < sizeof(object) - 1; len++) {
		char *copy = malloc(len + 1);

		memcpy(copy, object, len);
		c = cursor_over(copy, len);
		fgt_msgpack_skip(&c);
		assert_refused(&c);
		free(copy);
	}
	c = CURSOR("\xc1");
	fgt_msgpack_skip(&c);
	assert_refused(&c);
}

static int check(const char *bytes, size_t len, unsigned int max_depth)
{
	return fgt_msgpack_check((const uint8_t *)bytes, len, max_depth);
}

/* One object of each type, whole. */
static const struct {
	const char *bytes;
	size_t len;
} whole[] = {
	{ "\x7f", 1 },
	{ "\xe0", 1 },
	{ "\xc0", 1 },
	{ "\xc2", 1 },
	{ "\xc3", 1 },
	{ "\xa3"
	  "abc",
	  4 },
	{ "\xc4\x01"
	  "a",
	  3 },
	{ "\xc5\x00\x01"
	  "a",
	  4 },
	{ "\xc6\0\0\0\x01"
	  "a",
	  6 },
	{ "\xc7\x01\x05"
	  "a",
	  4 },
	{ "\xc8\x00\x01\x05"
	  "a",
	  5 },
	{ "\xc9\0\0\0\x01\x05"
	  "a",
	  7 },
	{ "\xca"
	  "1234",
	  5 },
	{ "\xcb"
	  "12345678",
	  9 },
	{ "\xcc"
	  "1",
	  2 },
	{ "\xcd"
	  "12",
	  3 },
	{ "\xce"
	  "1234",
	  5 },
	{ "\xcf"
	  "12345678",
	  9 },
	{ "\xd0"
	  "1",
	  2 },
	{ "\xd1"
	  "12",
	  3 },
	{ "\xd2"
	  "1234",
	  5 },
	{ "\xd3"
	  "12345678",
	  9 },
	{ "\xd4\x05"
	  "1",
	  3 },
	{ "\xd5\x05"
	  "12",
	  4 },
	{ "\xd6\x05"
	  "1234",
	  6 },
	{ "\xd7\x05"
	  "12345678",
	  10 },
	{ "\xd8\x05"
	  "1234567812345678",
	  18 },
	{ "\xd9\x01"
	  "a",
	  3 },
	{ "\xda\0\x01"
	  "a",
	  4 },
	{ "\xdb\0\0\0\x01"
	  "a",
	  6 },
	{ "\xdc\0\x01\x05", 4 },
	{ "\xdd\0\0\0\x01\x05", 6 },
	{ "\xde\0\x01\x05\x06", 5 },
	{ "\xdf\0\0\0\x01\x05\x06", 7 },
	{ "\x81\x01\x02", 3 },
	{ "\x92\x01\x02", 3 },
	{ "\x90", 1 },
};

static void check_takes_each_type(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
		assert_int_equal(check(whole[i].bytes, whole[i].len, 4), 0);
		for (size_t len = 0; len < whole[i].len; len++)
			assert_int_equal(check(whole[i].bytes, len, 4),
					 -EBADMSG);
		assert_int_equal(check(whole[i].bytes, whole[i].len + 1, 4),
				 -EBADMSG);
	}
}

static void check_refuses_depth_and_the_unused_type(void **state)
{
	char deep[1000];

	(void)state;
	assert_int_equal(check("\xc1", 1, 4), -EBADMSG);
	assert_int_equal(check("\x91\xc1", 2, 4), -EBADMSG);
	assert_int_equal(check("\x05", 1, 0), 0);
	assert_int_equal(check("\x91\x05", 2, 0), -EBADMSG);
	assert_int_equal(check("\x91\x91\x05", 3, 2), 0);
	assert_int_equal(check("\x91\x91\x91\x05", 4, 2), -EBADMSG);
	memset(deep, 0x91, sizeof(deep));
	deep[sizeof(deep) - 1] = 0;
	assert_int_equal(check(deep, sizeof(deep), 100000), -EBADMSG);
	/* Siblings do not add up to depth. */
	assert_int_equal(check("\x93\x91\x01\x91\x02\x90", 6, 2), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(integers_of_every_width_are_read),
		cmocka_unit_test(values_out_of_range_are_refused),
		cmocka_unit_test(first_error_sticks_with_its_place),
		cmocka_unit_test(texts_and_other_scalars_are_read),
		cmocka_unit_test(counts_never_exceed_the_bytes_left),
		cmocka_unit_test(skip_steps_over_one_object_of_any_kind),
		cmocka_unit_test(check_takes_each_type),
		cmocka_unit_test(check_refuses_depth_and_the_unused_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
