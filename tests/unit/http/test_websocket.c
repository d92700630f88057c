/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Websocket frames: those of RFC 6455, and hostile ones (fault H10).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/http/websocket/websocket.h"

static struct fgt_ws_input input;
static struct fgt_ws_frame frame;

static void put(const void *bytes, size_t len)
{
	assert_true(input.len + len <= sizeof(input.bytes));
	memcpy(input.bytes + input.len, bytes, len);
	input.len += len;
}

static int take(const char *bytes, size_t len)
{
	memset(&input, 0, sizeof(input));
	put(bytes, len);
	return fgt_ws_take(&input, &frame);
}

#define TAKE(bytes) take(bytes, sizeof(bytes) - 1)

static void key_of_the_rfc_is_accepted(void **state)
{
	char accept[FGT_WS_ACCEPT_SIZE];

	(void)state;
	assert_int_equal(fgt_ws_accept("dGhlIHNhbXBsZSBub25jZQ==", accept), 0);
	assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	assert_int_equal(fgt_ws_accept("", accept), -EINVAL);
	assert_int_equal(fgt_ws_accept("dGhlIHNhbXBsZSBub25jZQ=", accept),
			 -EINVAL);
	assert_int_equal(fgt_ws_accept("dGhlIHNhbXBsZSBub25jZSEh", accept),
			 -EINVAL);
	assert_int_equal(fgt_ws_accept("!!!!!!!!!!!!!!!!!!!!!!==", accept),
			 -EINVAL);
}

static void heads_have_the_shortest_length(void **state)
{
	uint8_t head[FGT_WS_HEAD_MAX];

	(void)state;
	assert_int_equal(fgt_ws_head(FGT_WS_TEXT, 5, head), 2);
	assert_memory_equal(head, "\x81\x05", 2);
	assert_int_equal(fgt_ws_head(FGT_WS_TEXT, 125, head), 2);
	assert_int_equal(fgt_ws_head(FGT_WS_TEXT, 256, head), 4);
	assert_memory_equal(head, "\x81\x7e\x01\x00", 4);
	assert_int_equal(fgt_ws_head(FGT_WS_TEXT, 65536, head), 10);
	assert_memory_equal(head, "\x81\x7f\0\0\0\0\0\x01\0\0", 10);
	fgt_ws_close_frame(FGT_WS_PROTOCOL, head);
	assert_memory_equal(head, "\x88\x02\x03\xea", 4);
}

static void masked_text_of_the_rfc_is_read(void **state)
{
	static const char hello[] = "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51"
				    "\x58";

	(void)state;
	for (size_t len = 0; len < sizeof(hello) - 1; len++)
		assert_int_equal(take(hello, len), 0);
	assert_int_equal(TAKE(hello), 1);
	assert_int_equal(frame.opcode, FGT_WS_TEXT);
	assert_int_equal(frame.len, 5);
	assert_memory_equal(frame.bytes, "Hello", 5);
	put(hello, sizeof(hello) - 1);
	assert_int_equal(fgt_ws_take(&input, &frame), 1);
	assert_memory_equal(frame.bytes, "Hello", 5);
	assert_int_equal(fgt_ws_take(&input, &frame), 0);
	assert_int_equal(input.len, 0);
}

static void hostile_frames_are_refused(void **state)
{
	(void)state;
	/* Not masked, a reserved bit, unknown kinds. */
	assert_int_equal(TAKE("\x81\x05Hello"), FGT_WS_PROTOCOL);
	assert_int_equal(TAKE("\xc1\x85...."), FGT_WS_PROTOCOL);
	assert_int_equal(TAKE("\x83\x80...."), FGT_WS_PROTOCOL);
	assert_int_equal(TAKE("\x8b\x80...."), FGT_WS_PROTOCOL);
	/* Control frames in parts, or too long. */
	assert_int_equal(TAKE("\x09\x80...."), FGT_WS_PROTOCOL);
	assert_int_equal(TAKE("\x89\xfe\x00\x7e"), FGT_WS_PROTOCOL);
	/* 2^63 bytes, 4097 bytes. */
	assert_int_equal(TAKE("\x82\xff\x80\0\0\0\0\0\0\0...."),
			 FGT_WS_TOO_LARGE);
	assert_int_equal(TAKE("\x82\xfe\x10\x01...."), FGT_WS_TOO_LARGE);
	assert_int_equal(TAKE("\x81\x81\0\0\0\0\xff"), FGT_WS_NO_TEXT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_of_the_rfc_is_accepted),
		cmocka_unit_test(heads_have_the_shortest_length),
		cmocka_unit_test(masked_text_of_the_rfc_is_read),
		cmocka_unit_test(hostile_frames_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
