/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of the control socket: what is built reads back, what is malformed
 * is refused. Runs in one thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "agent/protocol/protocol.h"

#define DECODE(bytes, ret)                                                     \
	fgt_message_decode((const uint8_t *)(bytes), sizeof(bytes) - 1, (ret))

static struct fgt_message *finish(struct fgt_builder *builder)
{
	struct fgt_message *message = NULL;
	const uint8_t *frame;
	size_t len;

	assert_int_equal(fgt_builder_finish(builder, &frame, &len), 0);
	assert_int_equal(len - 4, (size_t)frame[0] << 24 | frame[1] << 16 |
					  frame[2] << 8 | frame[3]);
	assert_int_equal(fgt_message_decode(frame + 4, len - 4, &message), 0);
	return message;
}

static int append(void *context, const void *bytes, size_t len)
{
	strncat(context, bytes, len);
	return 0;
}

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

static void getters_refuse_other_types(void **state)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	const uint8_t *bytes;
	const char *text;
	int64_t number;
	uint64_t big;
	double real;
	size_t len;
	bool flag;

	(void)state;
	/* {"a": -1, "b": 2^63, "c": nil} */
	assert_int_equal(DECODE("\x83\xa1"
				"a\xff\xa1"
				"b\xcf\x80\0\0\0\0\0\0\0\xa1"
				"c\xc0",
				&message),
			 0);
	assert_int_equal(fgt_message_get_uint(message, "a", &big), -EINVAL);
	assert_int_equal(fgt_message_get_int(message, "b", &number), -EINVAL);
	assert_int_equal(fgt_message_get_string(message, "a", &text), -EINVAL);
	assert_int_equal(fgt_message_get_bool(message, "a", &flag), -EINVAL);
	assert_int_equal(fgt_message_get_double(message, "c", &real), -EINVAL);
	assert_int_equal(fgt_message_get_bin(message, "a", &bytes, &len),
			 -EINVAL);
	assert_int_equal(fgt_message_get_array(message, "a", &len), -EINVAL);
	assert_int_equal(fgt_message_get_int(message, "x", &number), -ENOENT);
	assert_int_equal(fgt_message_get_int(message, "", &number), -ENOENT);
}

static void arrays_of_maps_nest(void **state)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	const struct fgt_message *element;
	char json[200] = "";
	const struct fgt_sink sink = { append, json };
	int64_t pid;
	size_t count;

	(void)state;
	assert_int_equal(fgt_builder_new(&builder), 0);
	fgt_builder_array_begin(builder, "targets");
	for (int i = 1; i <= 2; i++) {
		fgt_builder_map_begin(builder, NULL);
		fgt_builder_int(builder, "pid", i);
		fgt_builder_map_end(builder);
	}
	fgt_builder_int(builder, NULL, 7);
	fgt_builder_array_end(builder);
	fgt_builder_map_begin(builder, "ring");
	fgt_builder_double(builder, "nan", NAN);
	fgt_builder_bin(builder, "bin", "abcd", 4);
	fgt_builder_map_end(builder);
	message = finish(builder);

	assert_int_equal(fgt_message_get_array(message, "targets", &count), 0);
	assert_int_equal(count, 3);
	assert_int_equal(
		fgt_message_get_array_map(message, "targets", 1, &element), 0);
	assert_int_equal(fgt_message_get_int(element, "pid", &pid), 0);
	assert_int_equal(pid, 2);
	assert_int_equal(
		fgt_message_get_array_map(message, "targets", 2, &element),
		-EINVAL);
	assert_int_equal(
		fgt_message_get_array_map(message, "targets", 3, &element),
		-ENOENT);
	assert_int_equal(fgt_message_to_json(message, &sink), 0);
	assert_string_equal(json,
			    "{\"targets\":[{\"pid\":1},{\"pid\":2},7],"
			    "\"ring\":{\"nan\":null,\"bin\":\"YWJjZA==\"}}");
}

static void json_is_one_line_of_utf8(void **state)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	char json[200] = "";
	const struct fgt_sink sink = { append, json };

	(void)state;
	assert_int_equal(fgt_builder_new(&builder), 0);
	fgt_builder_string(builder, "a",
			   "\n\x1b[\"\\\xc3\xa9\xe2\x82"
			   "\xed\xa0\x80\xff");
	message = finish(builder);
	assert_int_equal(fgt_message_to_json(message, &sink), 0);
	assert_string_equal(json, "{\"a\":\"\\u000a\\u001b[\\\"\\\\\xc3\xa9"
				  "\ufffd\ufffd\ufffd\ufffd\ufffd"
				  "\ufffd\"}");
}

static void builder_errors_stick(void **state)
{
	const uint8_t *frame;
	size_t len;

	(void)state;
	for (int fault = 0; fault < 5; fault++) {
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
		if (fault == 0)
			fgt_builder_int(builder, "later", 1);
		assert_int_equal(fgt_builder_finish(builder, &frame, &len),
				 -EINVAL);
	}
}

static void malformed_frames_are_refused(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} zoo[] = {
#define ZOO(text) { text, sizeof(text) - 1 }
		ZOO(""),
		ZOO("\xc1"),
		ZOO("\xdd\x05\xf5\xe1\x00"), /* the five-byte bomb */
		ZOO("\xdf\x05\xf5\xe1\x00"), /* the same as a map */
		ZOO("\x01"), /* not a map */
		ZOO("\x90"), /* an array */
		ZOO("\x81\xa1"), /* truncated key */
		ZOO("\x81\xa1"
		    "a"), /* no value */
		ZOO("\x81\x01\x01"), /* key is a number */
		ZOO("\x81\xa0\x01"), /* key is empty */
		ZOO("\x82\xa1"
		    "a\x01\xa1"
		    "a\x02"), /* twice the same key */
		ZOO("\x80\x00"), /* trailing byte */
		ZOO("\x81\xa1"
		    "a\xa3x\0y"), /* NUL in a string */
		ZOO("\x81\xa2"
		    "a\0\x01"), /* NUL in a key */
		ZOO("\x81\xa1"
		    "a\xd4\x01\x01"), /* ext type */
		ZOO("\x81\xa1"
		    "a\xdb\xff\xff\xff\xff"), /* huge string */
		ZOO("\x81\xa1"
		    "a\xc6\x7f\xff\xff\xff"
		    "b"), /* huge bin */
#undef ZOO
	};

	(void)state;
	for (size_t i = 0; i < sizeof(zoo) / sizeof(zoo[0]); i++) {
		struct fgt_message *message = NULL;

		assert_int_equal(
			fgt_message_decode((const uint8_t *)zoo[i].bytes,
					   zoo[i].len, &message),
			-EBADMSG);
		assert_null(message);
	}
}

static void depth_and_keys_are_bounded(void **state)
{
	uint8_t deep[3 + 20];
	uint8_t wide[3 + 4 * (FGT_PROTOCOL_KEYS_MAX + 1)] = { 0xde };
	struct fgt_message *message = NULL;
	size_t len = 3;

	(void)state;
	memset(deep, 0x91, sizeof(deep));
	memcpy(deep,
	       "\x81\xa1"
	       "a",
	       3);
	deep[sizeof(deep) - 1] = 0x90;
	assert_int_equal(fgt_message_decode(deep, sizeof(deep), &message),
			 -EBADMSG);
	for (int i = 0; i <= FGT_PROTOCOL_KEYS_MAX; i++) {
		const uint8_t pair[4] = { 0xa2, (uint8_t)('A' + i / 16),
					  (uint8_t)('A' + i % 16), 1 };

		memcpy(wide + len, pair, sizeof(pair));
		len += sizeof(pair);
	}
	wide[1] = (FGT_PROTOCOL_KEYS_MAX + 1) >> 8;
	wide[2] = (FGT_PROTOCOL_KEYS_MAX + 1) & 255;
	assert_int_equal(fgt_message_decode(wide, len, &message), -EBADMSG);
	wide[1] = FGT_PROTOCOL_KEYS_MAX >> 8;
	wide[2] = FGT_PROTOCOL_KEYS_MAX & 255;
	assert_int_equal(fgt_message_decode(wide, len - 4, &message), 0);
	fgt_message_free(message);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_reads_back),
		cmocka_unit_test(getters_refuse_other_types),
		cmocka_unit_test(arrays_of_maps_nest),
		cmocka_unit_test(json_is_one_line_of_utf8),
		cmocka_unit_test(builder_errors_stick),
		cmocka_unit_test(malformed_frames_are_refused),
		cmocka_unit_test(depth_and_keys_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
