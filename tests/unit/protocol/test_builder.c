/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer of frames: what is built reads back, errors stick. Runs in one
 * thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/protocol/protocol.h"
#include "tests/unit/protocol/frame_kit.h"

static void every_type_reads_back(void **state)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	const uint8_t *bytes;
	const char *text;
	int64_t number;
	uint64_t big;
	double real;
	size_t len;
	bool flag;

	(void)state;
	assert_int_equal(fgt_builder_new(&builder), 0);
	fgt_builder_int(builder, "int", INT64_MIN);
	fgt_builder_int(builder, "positive", 5);
	fgt_builder_uint(builder, "uint", UINT64_MAX);
	fgt_builder_double(builder, "double", 0.25);
	fgt_builder_bool(builder, "bool", true);
	fgt_builder_string(builder, "empty", "");
	fgt_builder_string(builder, "string", "a\"b\n\xff");
	fgt_builder_string(builder, "next", "z");
	fgt_builder_bin(builder, "bin", "\0\1\2\3", 4);
	message = finish(builder);

	assert_int_equal(fgt_message_get_int(message, "int", &number), 0);
	assert_true(number == INT64_MIN);
	assert_int_equal(fgt_message_get_int(message, "positive", &number), 0);
	assert_true(number == 5);
	assert_int_equal(fgt_message_get_uint(message, "uint", &big), 0);
	assert_true(big == UINT64_MAX);
	assert_int_equal(fgt_message_get_double(message, "double", &real), 0);
	assert_true(real == 0.25);
	assert_int_equal(fgt_message_get_bool(message, "bool", &flag), 0);
	assert_true(flag);
	assert_int_equal(fgt_message_get_string(message, "empty", &text), 0);
	assert_string_equal(text, "");
	assert_int_equal(fgt_message_get_string(message, "string", &text), 0);
	assert_string_equal(text, "a\"b\n\xff");
	assert_int_equal(fgt_message_get_string(message, "next", &text), 0);
	assert_string_equal(text, "z");
	assert_int_equal(fgt_message_get_bin(message, "bin", &bytes, &len), 0);
	assert_int_equal(len, 4);
	assert_memory_equal(bytes, "\0\1\2\3", 4);
}

static void request_begins_with_version_and_verb(void **state)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	const char *verb;
	int64_t version;

	(void)state;
	assert_int_equal(fgt_builder_new_request("register", &builder), 0);
	message = finish(builder);
	assert_int_equal(fgt_message_get_int(message, "v", &version), 0);
	assert_int_equal(version, FGT_PROTOCOL_VERSION);
	assert_int_equal(fgt_message_get_string(message, "verb", &verb), 0);
	assert_string_equal(verb, "register");
}

static void numbers_of_every_size_read_back(void **state)
{
	static const uint64_t numbers[] = {
		0,
		127,
		128,
		255,
		256,
		65535,
		65536,
		UINT32_MAX,
		1ull << 32,
		1ull << 63,
		31,
		UINT64_MAX,
		UINT32_MAX + 1ull,
		INT64_MAX,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
		FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
		const int64_t below = -(int64_t)(numbers[i] >> 1) - 1;
		uint64_t value;
		int64_t negative;
		double real;

		assert_int_equal(fgt_builder_new(&builder), 0);
		fgt_builder_uint(builder, "n", numbers[i]);
		fgt_builder_int(builder, "i", below);
		message = finish(builder);
		assert_int_equal(fgt_message_get_uint(message, "n", &value), 0);
		assert_true(value == numbers[i]);
		assert_int_equal(fgt_message_get_int(message, "i", &negative),
				 0);
		assert_true(negative == below);
		assert_int_equal(fgt_message_get_double(message, "n", &real),
				 0);
		assert_true(real == (double)numbers[i]);
		assert_int_equal(fgt_message_get_double(message, "i", &real),
				 0);
		assert_true(real == (double)below);
	}
}

static void strings_of_every_length_read_back(void **state)
{
	static char text[65538];

	(void)state;
	for (size_t len = 0; len < sizeof(text);
	     len += len < 300 || len > 65530 ? 1 : 65000) {
		FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
		FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
		const char *got;
		bool flag;

		memset(text, 'a', len);
		text[len] = 0;
		assert_int_equal(fgt_builder_new(&builder), 0);
		fgt_builder_string(builder, "text", text);
		fgt_builder_string(builder, "none", NULL);
		fgt_builder_bool(builder, "last", true);
		message = finish(builder);
		assert_int_equal(fgt_message_get_string(message, "text", &got),
				 0);
		assert_string_equal(got, text);
		assert_int_equal(fgt_message_get_string(message, "none", &got),
				 -ENOENT);
		assert_int_equal(fgt_message_get_bool(message, "last", &flag),
				 0);
	}
}

static void bytes_read_back_up_to_the_limit(void **state)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	const size_t len = FGT_PROTOCOL_REPLY_MAX - 5 - 5 - 5;
	FGT_AUTO(free) void *data = malloc(len);
	const uint8_t *bytes;
	size_t got_len;

	(void)state;
	memset(data, 7, len);
	assert_int_equal(fgt_builder_new(&builder), 0);
	fgt_builder_bin(builder, "data", data, len);
	message = finish(builder);
	assert_int_equal(fgt_message_get_bin(message, "data", &bytes, &got_len),
			 0);
	assert_int_equal(got_len, len);
	assert_memory_equal(bytes, data, len);
	fgt_builder_bool(builder, "x", true);
	assert_int_equal(fgt_builder_finish(builder, &bytes, &got_len),
			 -EMSGSIZE);
}

static void frame_beyond_the_limit_is_an_error_that_sticks(void **state)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	const uint8_t *bytes;
	size_t len;

	(void)state;
	assert_int_equal(fgt_builder_new(&builder), 0);
	fgt_builder_bin(builder, "data", "", SIZE_MAX);
	fgt_builder_string(builder, "more", "text");
	assert_int_equal(fgt_builder_finish(builder, &bytes, &len), -EMSGSIZE);
}

static void finished_builder_can_be_finished_again(void **state)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	const uint8_t *bytes;
	size_t first, second;

	(void)state;
	assert_int_equal(fgt_builder_new_request("bye", &builder), 0);
	assert_int_equal(fgt_builder_finish(builder, &bytes, &first), 0);
	assert_int_equal(fgt_builder_finish(builder, &bytes, &second), 0);
	assert_int_equal(first, second);
	fgt_message_free(finish(builder));
}

static void builder_errors_stick(void **state)
{
	const uint8_t *frame;
	size_t len;

	(void)state;
	for (int fault = 0; fault < 6; fault++) {
		FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

		assert_int_equal(fgt_builder_new(&builder), 0);
		if (fault == 0)
			fgt_builder_int(builder, NULL, 1);
		if (fault == 1)
			fgt_builder_map_end(builder);
		if (fault == 2)
			fgt_builder_array_end(builder);
		if (fault == 3)
			fgt_builder_array_begin(builder, "open");
		for (int i = 0; fault == 4 && i < 20; i++)
			fgt_builder_map_begin(builder, "deeper");
		for (int i = 0; fault == 5 && i <= FGT_PROTOCOL_KEYS_MAX; i++)
			fgt_builder_int(builder, "key", 1);
		if (fault == 0)
			fgt_builder_int(builder, "later", 1);
		assert_int_equal(fgt_builder_finish(builder, &frame, &len),
				 -EINVAL);
	}
}

static void frame_without_memory_is_an_error_reply(void **state)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	struct fgt_why why;
	size_t len;
	const uint8_t *frame = fgt_builder_no_memory(&len);

	(void)state;
	assert_int_equal(frame[3], len - FGT_PROTOCOL_LENGTH_BYTES);
	assert_int_equal(fgt_message_decode(frame + FGT_PROTOCOL_LENGTH_BYTES,
					    len - FGT_PROTOCOL_LENGTH_BYTES,
					    &message),
			 0);
	assert_int_equal(fgt_message_check_reply(message, &why), -ENOMEM);
	assert_string_equal(why.text, "the agent is " FGT_NO_MEMORY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_reads_back),
		cmocka_unit_test(request_begins_with_version_and_verb),
		cmocka_unit_test(numbers_of_every_size_read_back),
		cmocka_unit_test(strings_of_every_length_read_back),
		cmocka_unit_test(bytes_read_back_up_to_the_limit),
		cmocka_unit_test(
			frame_beyond_the_limit_is_an_error_that_sticks),
		cmocka_unit_test(finished_builder_can_be_finished_again),
		cmocka_unit_test(builder_errors_stick),
		cmocka_unit_test(frame_without_memory_is_an_error_reply),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
