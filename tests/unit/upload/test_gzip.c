/* SPDX-License-Identifier: Apache-2.0 */
/* The compressing sink, read back by zlib. */
#include "upload/format/parts/gzip.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/slice_fixture.h"

static size_t inflate_all(const struct fixture_buffer *packed, int window_bits,
			  char *plain, size_t size)
{
	z_stream stream = { 0 };

	assert_int_equal(inflateInit2(&stream, window_bits), Z_OK);
	stream.next_in = (unsigned char *)packed->bytes;
	stream.avail_in = (uInt)packed->len;
	stream.next_out = (unsigned char *)plain;
	stream.avail_out = (uInt)size;
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	assert_int_equal(stream.avail_in, 0);
	inflateEnd(&stream);
	return size - stream.avail_out;
}

static void
round_trip_of(int (*new_of)(const struct fgt_sink *, struct fgt_gzip **),
	      int window_bits, const char *text, size_t len, size_t step)
{
	FGT_AUTO(fgt_gzip_free) struct fgt_gzip *gzip = NULL;
	struct fixture_buffer packed;
	struct fgt_sink target = fixture_buffer_sink(&packed);
	char *plain = malloc(len + 1);

	assert_non_null(plain);
	assert_int_equal(new_of(&target, &gzip), 0);
	for (size_t at = 0; at < len; at += step)
		assert_int_equal(
			fgt_sink_write(fgt_gzip_sink(gzip), text + at,
				       len - at < step ? len - at : step),
			0);
	assert_int_equal(fgt_gzip_finish(gzip), 0);
	assert_int_equal(inflate_all(&packed, window_bits, plain, len + 1),
			 len);
	assert_memory_equal(plain, text, len);
	free(plain);
	fixture_buffer_done(&packed);
}

/* 16: gzip's framing only; without it zlib's only. */
static void round_trip(const char *text, size_t len, size_t step)
{
	round_trip_of(fgt_gzip_new, 15 + 16, text, len, step);
	round_trip_of(fgt_gzip_new_zlib, 15, text, len, step);
}

static void any_cut_of_the_input_reads_back(void **state)
{
	static char text[300000];
	uint32_t random = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++) {
		random = random * 1664525 + 1013904223;
		text[i] = i % 3 ? (char)(random >> 24) : 'a';
	}
	round_trip(text, 0, 1);
	round_trip(text, 1, 1);
	round_trip(text, 5000, 1);
	round_trip(text, sizeof(text), 4096);
	round_trip(text, sizeof(text), sizeof(text));
}

static int refuse(void *context, const void *bytes, size_t len)
{
	(void)context;
	(void)bytes;
	(void)len;
	return -ECONNRESET;
}

static void error_of_the_target_comes_back(void **state)
{
	FGT_AUTO(fgt_gzip_free) struct fgt_gzip *gzip = NULL;
	struct fgt_sink target = { .write = refuse, .context = NULL };

	(void)state;
	assert_int_equal(fgt_gzip_new(&target, &gzip), 0);
	fgt_sink_write(fgt_gzip_sink(gzip), "text", 4);
	assert_int_equal(fgt_gzip_finish(gzip), -ECONNRESET);
	assert_int_equal(fgt_gzip_finish(gzip), -ECONNRESET);
}

static void half_built_and_absent_objects_can_be_freed(void **state)
{
	struct fgt_sink target = { .write = refuse, .context = NULL };
	struct fgt_gzip *gzip;

	(void)state;
	fgt_gzip_free(NULL);
	assert_int_equal(fgt_gzip_new(&target, &gzip), 0);
	fgt_gzip_free(gzip);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_cut_of_the_input_reads_back),
		cmocka_unit_test(error_of_the_target_comes_back),
		cmocka_unit_test(half_built_and_absent_objects_can_be_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
