/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices on their way to a client: all bytes, early ends, errors.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/http/stream.h"
#include "tests/unit/ringbuf/slice_fixture.h"

#define TICKS 20000

/* Each tick another state, so that a trace is far longer than a pipe. */
static struct fgt_ring_slice *long_slice(void)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t thread = fixture_thread(slice, 7, "main");
	uint32_t stack = fixture_stack(slice, "main;work");

	for (uint32_t i = 0; i < TICKS; i++)
		fixture_run(slice, thread, i, 1, stack,
			    i % 2 ? FGT_STATE_RUNNING
				  : FGT_STATE_SYSCALL_FIRST);
	return slice;
}

static void stream_has_what_the_encoder_writes(void **state)
{
	const struct fgt_format_options options = {
		.state_frames = FGT_STATE_FRAMES_ROOT
	};
	FGT_AUTO(fgt_web_stream_close) struct fgt_web_stream *stream = NULL;
	struct fgt_ring_slice *slice = long_slice();
	struct fgt_memory_sink whole;
	size_t len = 0;
	char bytes[1000];
	ssize_t n;

	(void)state;
	fgt_memory_sink_init(&whole, 64 << 20);
	assert_int_equal(
		fgt_format_write(slice, FGT_KIND_CHROME, &options, &whole.sink),
		0);
	assert_int_equal(fgt_web_stream_open(slice, FGT_KIND_CHROME,
					     FGT_STATE_FRAMES_ROOT, false,
					     &stream),
			 0);
	while ((n = fgt_web_stream_read(stream, bytes, sizeof(bytes))) > 0) {
		assert_true(len + (size_t)n <= whole.len_bytes);
		assert_memory_equal(bytes, whole.bytes + len, (size_t)n);
		len += (size_t)n;
	}
	assert_int_equal(n, 0);
	assert_int_equal(len, whole.len_bytes);
	assert_int_equal(fgt_web_stream_read(stream, bytes, sizeof(bytes)), 0);
	fgt_memory_sink_done(&whole);
}

/* The encoder is in the middle: it ends, and no signal ends this program. */
static void client_that_goes_ends_the_encoder(void **state)
{
	struct fgt_web_stream *stream = NULL;
	char bytes[100];

	(void)state;
	assert_int_equal(fgt_web_stream_open(long_slice(), FGT_KIND_CHROME,
					     FGT_STATE_FRAMES_ROOT, false,
					     &stream),
			 0);
	assert_int_equal(fgt_web_stream_read(stream, bytes, sizeof(bytes)),
			 sizeof(bytes));
	fgt_web_stream_close(stream);
}

static void error_before_the_first_byte_is_returned(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2);
	struct fgt_web_stream *stream = NULL;

	(void)state;
	fixture_run(slice, fixture_thread(slice, 7, "main"), 0, 1,
		    fixture_stack(slice, "main"), FGT_STATE_RUNNING);
	/* No thread with two samples. */
	assert_int_equal(fgt_web_stream_open(slice, FGT_KIND_SENTRY_CHUNK,
					     FGT_STATE_FRAMES_ROOT, false,
					     &stream),
			 -ENODATA);
	assert_null(stream);
}

static void gzip_is_one_of_gzip(void **state)
{
	FGT_AUTO(fgt_web_stream_close) struct fgt_web_stream *stream = NULL;
	unsigned char bytes[2];

	(void)state;
	assert_int_equal(fgt_web_stream_open(long_slice(), FGT_KIND_FOLDED,
					     FGT_STATE_FRAMES_ROOT, true,
					     &stream),
			 0);
	assert_int_equal(fgt_web_stream_read(stream, bytes, 2), 2);
	assert_int_equal(bytes[0], 0x1f);
	assert_int_equal(bytes[1], 0x8b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stream_has_what_the_encoder_writes),
		cmocka_unit_test(client_that_goes_ends_the_encoder),
		cmocka_unit_test(error_before_the_first_byte_is_returned),
		cmocka_unit_test(gzip_is_one_of_gzip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
