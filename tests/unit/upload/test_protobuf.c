/* SPDX-License-Identifier: Apache-2.0 */
/* The protobuf writer: bytes of each kind of field, and misuse. */
#include "upload/format/parts/protobuf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/slice_fixture.h"

static void finish(struct fgt_protobuf *protobuf, struct fixture_buffer *buffer,
		   const char *expected, size_t len)
{
	assert_int_equal(fgt_protobuf_finish(protobuf), 0);
	fgt_protobuf_done(protobuf);
	assert_int_equal(buffer->len, len);
	if (len)
		assert_memory_equal(buffer->bytes, expected, len);
	fixture_buffer_done(buffer);
}

#define BYTES(text) text, sizeof(text) - 1

static void numbers_are_varints(void **state)
{
	struct fgt_protobuf protobuf;
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	(void)state;
	fgt_protobuf_init(&protobuf, &sink);
	fgt_protobuf_put_uint(&protobuf, 1, 150);
	fgt_protobuf_put_uint(&protobuf, 2, 0); /* the default */
	fgt_protobuf_put_uint(&protobuf, 3, 127);
	fgt_protobuf_put_uint(&protobuf, 16, 128);
	fgt_protobuf_put_uint(&protobuf, 4, UINT64_MAX);
	finish(&protobuf, &buffer,
	       BYTES("\x08\x96\x01"
		     "\x18\x7f"
		     "\x80\x01\x80\x01"
		     "\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
}

static void fields_know_their_length(void **state)
{
	struct fgt_protobuf protobuf;
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	(void)state;
	fgt_protobuf_init(&protobuf, &sink);
	fgt_protobuf_begin(&protobuf, 2);
	fgt_protobuf_put_uint(&protobuf, 1, 1);
	fgt_protobuf_begin(&protobuf, 3);
	fgt_protobuf_put_packed(&protobuf, 0);
	fgt_protobuf_put_packed(&protobuf, 300);
	fgt_protobuf_end(&protobuf);
	fgt_protobuf_begin(&protobuf, 4);
	fgt_protobuf_end(&protobuf);
	fgt_protobuf_put_uint(&protobuf, 5, 5);
	fgt_protobuf_end(&protobuf);
	fgt_protobuf_begin(&protobuf, 2); /* not what was there before */
	fgt_protobuf_end(&protobuf);
	finish(&protobuf, &buffer,
	       BYTES("\x12\x0b"
		     "\x08\x01"
		     "\x1a\x03\x00\xac\x02"
		     "\x22\x00"
		     "\x28\x05"
		     "\x12\x00"));
}

static void strings_become_utf8_and_may_be_empty(void **state)
{
	struct fgt_protobuf protobuf;
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	(void)state;
	fgt_protobuf_init(&protobuf, &sink);
	fgt_protobuf_put_string(&protobuf, 6, "");
	fgt_protobuf_put_string(&protobuf, 6, "a\xff\xc3\xa4");
	finish(&protobuf, &buffer,
	       BYTES("\x32\x00"
		     "\x32\x06"
		     "a\xef\xbf\xbd\xc3\xa4"));
}

static void eight_bytes_and_raw_bytes_are_written_even_if_zero(void **state)
{
	struct fgt_protobuf protobuf;
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	(void)state;
	fgt_protobuf_init(&protobuf, &sink);
	fgt_protobuf_put_fixed64(&protobuf, 1, 0x0123456789abcdef);
	fgt_protobuf_put_fixed64(&protobuf, 47, 0);
	fgt_protobuf_put_double(&protobuf, 2, -0.5);
	fgt_protobuf_put_bytes(&protobuf, 3, "\xff\0", 2);
	fgt_protobuf_put_bytes(&protobuf, 4, NULL, 0);
	finish(&protobuf, &buffer,
	       BYTES("\x09\xef\xcd\xab\x89\x67\x45\x23\x01"
		     "\xf9\x02\0\0\0\0\0\0\0\0"
		     "\x11\0\0\0\0\0\0\xe0\xbf"
		     "\x1a\x02\xff\0"
		     "\x22\0"));
}

/* For what is too large to be kept. */
static void field_whose_length_is_known_need_not_end(void **state)
{
	struct fgt_protobuf protobuf;
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	(void)state;
	fgt_protobuf_init(&protobuf, &sink);
	fgt_protobuf_put_head(&protobuf, 1, 302);
	fgt_protobuf_put_head(&protobuf, 2, 0);
	fgt_protobuf_begin(&protobuf, 5);
	fgt_protobuf_put_packed64(&protobuf, 0x0123456789abcdef);
	fgt_protobuf_end(&protobuf);
	finish(&protobuf, &buffer,
	       BYTES("\x0a\xae\x02"
		     "\x12\x00"
		     "\x2a\x08\xef\xcd\xab\x89\x67\x45\x23\x01"));
}

static void large_fields_come_out_whole(void **state)
{
	struct fgt_protobuf protobuf;
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	(void)state;
	fgt_protobuf_init(&protobuf, &sink);
	fgt_protobuf_begin(&protobuf, 1);
	for (uint32_t i = 0; i < 100000; i++)
		fgt_protobuf_put_packed(&protobuf, i & 127);
	fgt_protobuf_end(&protobuf);
	assert_int_equal(fgt_protobuf_finish(&protobuf), 0);
	fgt_protobuf_done(&protobuf);
	assert_int_equal(buffer.len, 4 + 100000);
	assert_memory_equal(buffer.bytes, "\x0a\xa0\x8d\x06\x00\x01\x02", 7);
	assert_int_equal(buffer.bytes[buffer.len - 1], 99999 & 127);
	fixture_buffer_done(&buffer);
}

static void wrong_nesting_is_reported_at_the_end(void **state)
{
	struct fgt_protobuf protobuf;
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	(void)state;
	fgt_protobuf_init(&protobuf, &sink);
	fgt_protobuf_end(&protobuf);
	assert_int_equal(fgt_protobuf_finish(&protobuf), -EINVAL);
	fgt_protobuf_init(&protobuf, &sink);
	fgt_protobuf_begin(&protobuf, 1);
	assert_int_equal(fgt_protobuf_finish(&protobuf), -EINVAL);
	fgt_protobuf_init(&protobuf, &sink);
	for (int i = 0; i <= FGT_PROTOBUF_DEPTH_MAX; i++)
		fgt_protobuf_begin(&protobuf, 1);
	for (int i = 0; i <= FGT_PROTOBUF_DEPTH_MAX; i++)
		fgt_protobuf_end(&protobuf);
	assert_int_equal(fgt_protobuf_finish(&protobuf), -EINVAL);
	fgt_protobuf_done(&protobuf);
	assert_int_equal(buffer.len, 0);
	fixture_buffer_done(&buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_varints),
		cmocka_unit_test(fields_know_their_length),
		cmocka_unit_test(strings_become_utf8_and_may_be_empty),
		cmocka_unit_test(
			eight_bytes_and_raw_bytes_are_written_even_if_zero),
		cmocka_unit_test(field_whose_length_is_known_need_not_end),
		cmocka_unit_test(large_fields_come_out_whole),
		cmocka_unit_test(wrong_nesting_is_reported_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
