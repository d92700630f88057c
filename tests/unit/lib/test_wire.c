/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that the library writes, read with the daemon's own decoder.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "agent/protocol/protocol.h"
#include "agent/protocol/wire.h"

static struct fgt_message *decode(struct fgt_wire *wire)
{
	struct fgt_message *message = NULL;
	const uint8_t *bytes;
	size_t len;

	assert_int_equal(fgt_wire_finish(wire, &bytes, &len), 0);
	assert_int_equal((size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 |
				 (size_t)bytes[2] << 8 | bytes[3],
			 len - 4);
	assert_int_equal(fgt_message_decode(bytes + 4, len - 4, &message), 0);
	return message;
}

static void version_and_verb_come_first(void **state)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	struct fgt_wire wire;
	const char *verb;
	int64_t version;

	(void)state;
	fgt_wire_init(&wire, "register");
	message = decode(&wire);
	assert_int_equal(fgt_message_get_int(message, "v", &version), 0);
	assert_int_equal(version, FGT_PROTOCOL_VERSION);
	assert_int_equal(fgt_message_get_string(message, "verb", &verb), 0);
	assert_string_equal(verb, "register");
	fgt_wire_done(&wire);
}

static void numbers_of_every_size_arrive(void **state)
{
	static const uint64_t numbers[] = { 0,		127,	   128,
					    255,	65536,	   UINT32_MAX,
					    1ull << 63, UINT64_MAX };

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
		struct fgt_wire wire;
		uint64_t value;
		int64_t negative;

		fgt_wire_init(&wire, "x");
		fgt_wire_uint(&wire, "n", numbers[i]);
		fgt_wire_int(&wire, "i", -(int64_t)(numbers[i] >> 1) - 1);
		message = decode(&wire);
		assert_int_equal(fgt_message_get_uint(message, "n", &value), 0);
		assert_true(value == numbers[i]);
		assert_int_equal(fgt_message_get_int(message, "i", &negative),
				 0);
		assert_true(negative == -(int64_t)(numbers[i] >> 1) - 1);
		fgt_wire_done(&wire);
	}
}

static void texts_of_every_length_arrive(void **state)
{
	char text[301];

	(void)state;
	for (size_t len = 0; len <= 300; len++) {
		FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
		struct fgt_wire wire;
		const char *got;

		memset(text, 'a', sizeof(text));
		text[len] = 0;
		fgt_wire_init(&wire, "x");
		fgt_wire_text(&wire, "text", text);
		fgt_wire_text(&wire, "none", NULL);
		message = decode(&wire);
		assert_int_equal(fgt_message_get_string(message, "text", &got),
				 0);
		assert_string_equal(got, text);
		assert_int_equal(fgt_message_get_string(message, "none", &got),
				 -ENOENT);
		fgt_wire_done(&wire);
	}
}

static void lists_of_maps_arrive(void **state)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	const struct fgt_message *element;
	struct fgt_wire wire;
	size_t count;
	const char *text;
	int64_t tid;

	(void)state;
	fgt_wire_init(&wire, "deliver");
	fgt_wire_array(&wire, "tags", 2);
	for (int i = 0; i < 2; i++) {
		fgt_wire_map(&wire, 2);
		fgt_wire_text(&wire, "key", "k");
		fgt_wire_text(&wire, "value", i ? "second" : "first");
	}
	fgt_wire_array(&wire, "tids", 1);
	fgt_wire_map(&wire, 1);
	fgt_wire_int(&wire, "tid", 4711);
	fgt_wire_array(&wire, "empty", 0);
	fgt_wire_bool(&wire, "last", true);
	message = decode(&wire);
	assert_int_equal(fgt_message_get_array(message, "tags", &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(
		fgt_message_get_array_map(message, "tags", 1, &element), 0);
	assert_int_equal(fgt_message_get_string(element, "value", &text), 0);
	assert_string_equal(text, "second");
	assert_int_equal(
		fgt_message_get_array_map(message, "tids", 0, &element), 0);
	assert_int_equal(fgt_message_get_int(element, "tid", &tid), 0);
	assert_int_equal(tid, 4711);
	assert_int_equal(fgt_message_get_array(message, "empty", &count), 0);
	assert_int_equal(count, 0);
	fgt_wire_done(&wire);
}

static void bytes_arrive_up_to_the_limit(void **state)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	const size_t len = (size_t)15 << 20;
	FGT_AUTO(free) void *data = malloc(len);
	const uint8_t *bytes;
	struct fgt_wire wire;
	size_t got_len;

	(void)state;
	memset(data, 7, len);
	fgt_wire_init(&wire, "deliver");
	fgt_wire_bin(&wire, "data", data, len);
	message = decode(&wire);
	assert_int_equal(fgt_message_get_bin(message, "data", &bytes, &got_len),
			 0);
	assert_int_equal(got_len, len);
	assert_memory_equal(bytes, data, len);
	fgt_wire_done(&wire);
}

static void frame_beyond_the_limit_is_an_error_that_sticks(void **state)
{
	const uint8_t *bytes;
	struct fgt_wire wire;
	size_t len;

	(void)state;
	fgt_wire_init(&wire, "deliver");
	fgt_wire_bin(&wire, "data", "", SIZE_MAX);
	fgt_wire_text(&wire, "more", "text");
	assert_int_equal(fgt_wire_finish(&wire, &bytes, &len), -EMSGSIZE);
	fgt_wire_done(&wire);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_and_verb_come_first),
		cmocka_unit_test(numbers_of_every_size_arrive),
		cmocka_unit_test(texts_of_every_length_arrive),
		cmocka_unit_test(lists_of_maps_arrive),
		cmocka_unit_test(bytes_arrive_up_to_the_limit),
		cmocka_unit_test(
			frame_beyond_the_limit_is_an_error_that_sticks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
