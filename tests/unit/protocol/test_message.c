/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of frames: every form of msgpack is read or refused; replies are
 * checked. Runs in one thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/protocol/message.h"
#include "agent/protocol/protocol.h"
#include "tests/unit/protocol/frame_kit.h"

#define DECODE(bytes, ret)                                                     \
	fgt_message_decode((const uint8_t *)(bytes), sizeof(bytes) - 1, (ret))

static int append(void *context, const void *bytes, size_t len)
{
	strncat(context, bytes, len);
	return 0;
}

static void getters_refuse_other_types(void **state)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	struct fgt_message_array array;
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
	assert_int_equal(fgt_message_get_array(message, "a", &array), -EINVAL);
	assert_int_equal(fgt_message_get_int(message, "x", &number), -ENOENT);
	assert_int_equal(fgt_message_get_int(message, "", &number), -ENOENT);
}

static void arrays_of_maps_nest(void **state)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	struct fgt_message_array array;
	struct fgt_message element;
	char json[200] = "";
	const struct fgt_sink sink = { append, json };
	const char *name;
	const uint8_t *bytes;
	size_t len;
	int64_t pid;

	(void)state;
	assert_int_equal(fgt_builder_new(&builder), 0);
	fgt_builder_array_begin(builder, "targets");
	fgt_builder_int(builder, NULL, 7);
	for (int i = 1; i <= 2; i++) {
		fgt_builder_map_begin(builder, NULL);
		fgt_builder_int(builder, "pid", i);
		fgt_builder_string(builder, "name", i == 1 ? "first" : "");
		fgt_builder_map_end(builder);
	}
	fgt_builder_array_end(builder);
	fgt_builder_array_begin(builder, "empty");
	fgt_builder_array_end(builder);
	fgt_builder_map_begin(builder, "ring");
	fgt_builder_double(builder, "nan", NAN);
	fgt_builder_bin(builder, "bin", "abcd", 4);
	fgt_builder_map_end(builder);
	message = finish(builder);

	assert_int_equal(fgt_message_get_array(message, "empty", &array), 0);
	assert_int_equal(array.count, 0);
	assert_int_equal(fgt_message_next(&array, &element), -ENOENT);
	assert_int_equal(fgt_message_get_map(message, "targets", &element),
			 -EINVAL);
	assert_int_equal(fgt_message_get_map(message, "none", &element),
			 -ENOENT);
	assert_int_equal(fgt_message_get_map(message, "ring", &element), 0);
	assert_int_equal(fgt_message_get_bin(&element, "bin", &bytes, &len), 0);
	assert_int_equal(len, 4);
	assert_int_equal(fgt_message_get_array(message, "targets", &array), 0);
	assert_int_equal(array.count, 3);
	assert_int_equal(fgt_message_next(&array, &element), -EINVAL);
	for (int i = 1; i <= 2; i++) {
		assert_int_equal(fgt_message_next(&array, &element), 0);
		assert_int_equal(fgt_message_get_int(&element, "pid", &pid), 0);
		assert_int_equal(pid, i);
		assert_int_equal(
			fgt_message_get_string(&element, "name", &name), 0);
		assert_string_equal(name, i == 1 ? "first" : "");
	}
	assert_int_equal(fgt_message_next(&array, &element), -ENOENT);
	assert_int_equal(fgt_message_to_json(message, &sink), 0);
	assert_string_equal(json,
			    "{\"targets\":[7,{\"pid\":1,\"name\":\"first\"},"
			    "{\"pid\":2,\"name\":\"\"}],\"empty\":[],"
			    "\"ring\":{\"nan\":null,\"bin\":\"YWJjZA==\"}}");
}

/* Every form of msgpack, of which the builder writes only some. */
static void every_form_of_a_sender_is_read(void **state)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;
	struct fgt_message_array array;
	const uint8_t *bytes;
	const char *text;
	int64_t number;
	double real;
	size_t len;

	(void)state;
	assert_int_equal(DECODE("\xde\0\x0b"
				"\xa1"
				"a\xd9\1x\xd9\1b\xda\0\1y\xda\0\1c\xd0\xff"
				"\xdb\0\0\0\1d\xd1\xff\xfe"
				"\xa1"
				"e\xd2\xff\xff\xff\xfd"
				"\xa1"
				"f\xca\x3f\0\0\0"
				"\xa1g\xc5\0\1z\xa1h\xdc\0\1\x80\xa1i\xc0"
				"\xa1j\xcd\1\0\xa1k\xc4\0",
				&message),
			 0);
	assert_int_equal(fgt_message_get_string(message, "a", &text), 0);
	assert_string_equal(text, "x");
	assert_int_equal(fgt_message_get_string(message, "b", &text), 0);
	assert_string_equal(text, "y");
	for (int i = 0; i < 3; i++) {
		const char key[2] = { (char)('c' + i), 0 };

		assert_int_equal(fgt_message_get_int(message, key, &number), 0);
		assert_int_equal(number, -1 - i);
	}
	assert_int_equal(fgt_message_get_double(message, "f", &real), 0);
	assert_true(real == 0.5);
	assert_int_equal(fgt_message_get_bin(message, "g", &bytes, &len), 0);
	assert_int_equal(len, 1);
	assert_memory_equal(bytes, "z", 1);
	assert_int_equal(fgt_message_get_array(message, "h", &array), 0);
	assert_int_equal(array.count, 1);
	assert_int_equal(fgt_message_get_int(message, "j", &number), 0);
	assert_int_equal(number, 256);
	assert_int_equal(fgt_message_get_bin(message, "k", &bytes, &len), 0);
	assert_int_equal(len, 0);
}

/* ---- Replies ----------------------------------------------------------- */

static int check(int64_t version, bool is_ok, int64_t error, const char *reason,
		 struct fgt_why *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *message = NULL;

	assert_int_equal(fgt_builder_new(&builder), 0);
	fgt_builder_int(builder, "v", version);
	fgt_builder_bool(builder, "ok", is_ok);
	fgt_builder_int(builder, "error", error);
	fgt_builder_string(builder, "why", reason);
	message = finish(builder);
	return fgt_message_check_reply(message, why);
}

static void reply_is_checked_and_its_reason_is_printable(void **state)
{
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(check(FGT_PROTOCOL_VERSION, true, 0, "", &why), 0);
	assert_string_equal(why.text, "");
	assert_int_equal(
		check(FGT_PROTOCOL_VERSION, false, -61, "n\no\x1b", &why), -61);
	assert_string_equal(why.text, "n?o?");
	assert_int_equal(check(FGT_PROTOCOL_VERSION, false, -2, "", &why), -2);
	assert_true(why.text[0]);
}

static void error_that_is_no_errno_is_refused(void **state)
{
	static const int64_t errors[] = { 0, 1, -4096, INT64_MIN };
	struct fgt_why why;

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		assert_int_equal(check(FGT_PROTOCOL_VERSION, false, errors[i],
				       "why", &why),
				 -EBADMSG);
}

static void long_reason_is_cut(void **state)
{
	struct fgt_why why;
	char text[1001];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[1000] = 0;
	assert_int_equal(check(FGT_PROTOCOL_VERSION, false, -1, text, &why),
			 -1);
	assert_int_equal(strlen(why.text), sizeof(why.text) - 1);
}

static void reply_without_version_or_ok_is_refused(void **state)
{
	FGT_AUTO(fgt_message_free) struct fgt_message *no_ok = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *no_v = NULL;
	struct fgt_why why;

	(void)state;
	assert_int_equal(DECODE("\x81\xa1v\x01", &no_ok), 0);
	assert_int_equal(fgt_message_check_reply(no_ok, &why), -EBADMSG);
	assert_int_equal(DECODE("\x81\xa2ok\xc3", &no_v), 0);
	assert_int_equal(fgt_message_check_reply(no_v, &why), -EBADMSG);
}

/* Fault C8. Whether ok is true or not: the version explains it best. */
static void other_version_names_the_older_side(void **state)
{
	struct fgt_why why;

	(void)state;
	for (int is_ok = 0; is_ok < 2; is_ok++) {
		assert_int_equal(check(FGT_PROTOCOL_VERSION + 1, is_ok, -71,
				       "gone", &why),
				 -EPROTONOSUPPORT);
		assert_non_null(strstr(why.text, "the agent uses protocol 3, "
						 "this program 2"));
		assert_non_null(strstr(why.text, "this program is older"));
		assert_int_equal(check(FGT_PROTOCOL_VERSION - 1, is_ok, -71,
				       "gone", &why),
				 -EPROTONOSUPPORT);
		assert_non_null(strstr(why.text, "the agent uses protocol 1, "
						 "this program 2"));
		assert_non_null(
			strstr(why.text, "the agent is older; restart"));
	}
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

/* Fault C1. */
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
		    "a\x81\xa1"
		    "b\xc7\x01\x01\x01"), /* ext type, deeper */
		ZOO("\x81\xa1"
		    "a\x91\x82\xa1"
		    "b\x01\xd9\x01"
		    "b\x02"), /* twice the same key, deeper, in two forms */
		ZOO("\x81\xa1"
		    "a\x91\x81\xc4\x01"
		    "b\x02"), /* key is bin */
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
		cmocka_unit_test(getters_refuse_other_types),
		cmocka_unit_test(arrays_of_maps_nest),
		cmocka_unit_test(every_form_of_a_sender_is_read),
		cmocka_unit_test(reply_is_checked_and_its_reason_is_printable),
		cmocka_unit_test(error_that_is_no_errno_is_refused),
		cmocka_unit_test(long_reason_is_cut),
		cmocka_unit_test(reply_without_version_or_ok_is_refused),
		cmocka_unit_test(other_version_names_the_older_side),
		cmocka_unit_test(json_is_one_line_of_utf8),
		cmocka_unit_test(malformed_frames_are_refused),
		cmocka_unit_test(depth_and_keys_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
