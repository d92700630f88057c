/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON writer: exact bytes, hostile text, misuse, failing sinks. */
#include "ringbuf/base/json.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/slice_fixture.h"

struct output {
	struct fixture_buffer buffer;
	struct fgt_sink sink;
	struct fgt_json json;
};

static struct fgt_json *start(struct output *output)
{
	output->sink = fixture_buffer_sink(&output->buffer);
	fgt_json_init(&output->json, &output->sink);
	return &output->json;
}

static void assert_wrote(struct output *output, const char *expected)
{
	assert_int_equal(fgt_json_finish(&output->json), 0);
	assert_string_equal(output->buffer.bytes, expected);
	fixture_buffer_done(&output->buffer);
}

static void commas_and_keys_are_automatic(void **state)
{
	struct output output;
	struct fgt_json *json = start(&output);

	(void)state;
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "a", "b");
	fgt_json_begin_array(json, "list");
	fgt_json_put_uint(json, NULL, 1);
	fgt_json_begin_object(json, NULL);
	fgt_json_end_object(json);
	fgt_json_begin_array(json, NULL);
	fgt_json_end_array(json);
	fgt_json_put_bool(json, NULL, true);
	fgt_json_end_array(json);
	fgt_json_put_string(json, "nothing", NULL);
	fgt_json_put_bool(json, "no", false);
	fgt_json_end_object(json);
	assert_wrote(&output, "{\"a\":\"b\",\"list\":[1,{},[],true],"
			      "\"nothing\":null,\"no\":false}");
}

static void newlines_stand_after_the_comma(void **state)
{
	struct output output;
	struct fgt_json *json = start(&output);

	(void)state;
	fgt_json_begin_array(json, NULL);
	fgt_json_newline(json);
	fgt_json_put_uint(json, NULL, 1);
	fgt_json_newline(json);
	fgt_json_put_uint(json, NULL, 2);
	fgt_json_newline(json);
	fgt_json_end_array(json);
	fgt_json_newline(json);
	fgt_json_begin_object(json, NULL);
	fgt_json_end_object(json);
	fgt_json_newline(json);
	assert_wrote(&output, "[\n1,\n2\n]\n{}\n");
}

static void assert_text(const char *text, size_t len, const char *expected)
{
	struct output output;

	fgt_json_put_text(start(&output), NULL, text, len);
	assert_wrote(&output, expected);
}

/* Fault U8. */
static void hostile_text_becomes_strict_json(void **state)
{
	(void)state;
	assert_text("", 0, "\"\"");
	assert_text("\"\\/", 3, "\"\\\"\\\\/\"");
	assert_text("\0\b\n\x1b\x7f", 5,
		    "\"\\u0000\\u0008\\u000a\\u001b\\u007f\"");
	assert_text("</script>", 9, "\"\\u003c/script>\"");
	/* What lies outside the basic plane stays raw, never surrogates. */
	assert_text("\xf0\x9f\x98\x80\xc3\xa4\xe2\x82\xac", 9,
		    "\"\xf0\x9f\x98\x80\xc3\xa4\xe2\x82\xac\"");
}

#define FFFD "\xef\xbf\xbd"

static void bytes_that_are_not_utf8_are_replaced(void **state)
{
	(void)state;
	assert_text("a\xff"
		    "b",
		    3, "\"a" FFFD "b\"");
	assert_text("\x80", 1, "\"" FFFD "\"");
	/* Overlong, surrogate, above U+10FFFF, cut short. */
	assert_text("\xc0\xaf", 2, "\"" FFFD FFFD "\"");
	assert_text("\xe0\x80\xaf", 3, "\"" FFFD FFFD FFFD "\"");
	assert_text("\xed\xa0\x80", 3, "\"" FFFD FFFD FFFD "\"");
	assert_text("\xf4\x90\x80\x80", 4, "\"" FFFD FFFD FFFD FFFD "\"");
	assert_text("\xf0\x9f\x98", 3, "\"" FFFD FFFD FFFD "\"");
	assert_text("\xe2\x82"
		    "x",
		    3, "\"" FFFD FFFD "x\"");
	/* The limits themselves. */
	assert_text("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf", 10,
		    "\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"");
}

static void numbers_keep_every_digit(void **state)
{
	struct output output;
	struct fgt_json *json = start(&output);

	(void)state;
	fgt_json_begin_array(json, NULL);
	fgt_json_put_uint(json, NULL, 0);
	fgt_json_put_uint(json, NULL, UINT64_MAX);
	fgt_json_put_int(json, NULL, INT64_MIN);
	fgt_json_put_int(json, NULL, -7);
	fgt_json_put_int(json, NULL, 7);
	fgt_json_put_decimal(json, NULL, 1234567, 3);
	fgt_json_put_decimal(json, NULL, 7, 3);
	fgt_json_put_decimal(json, NULL, 0, 3);
	fgt_json_put_decimal(json, NULL, 5, 0);
	fgt_json_put_decimal(json, NULL, UINT64_MAX, 9);
	fgt_json_put_uint_string(json, NULL, UINT64_MAX);
	fgt_json_put_hex_string(json, NULL, 0xffffffffff600000);
	fgt_json_end_array(json);
	assert_wrote(&output,
		     "[0,18446744073709551615,-9223372036854775808,-7,7,"
		     "1234.567,0.007,0.000,5,18446744073.709551615,"
		     "\"18446744073709551615\",\"0xffffffffff600000\"]");
}

static void doubles_are_short_finite_and_exact(void **state)
{
	struct output output;
	struct fgt_json *json = start(&output);

	(void)state;
	fgt_json_begin_array(json, NULL);
	fgt_json_put_double(json, NULL, 0.1);
	fgt_json_put_double(json, NULL, 101);
	fgt_json_put_double(json, NULL, -1.5e-300);
	fgt_json_put_double(json, NULL, 1.0 / 3);
	fgt_json_put_double(json, NULL, NAN);
	fgt_json_put_double(json, NULL, -INFINITY);
	fgt_json_end_array(json);
	assert_wrote(&output, "[0.1,101,-1.5e-300,0.3333333333333333,"
			      "null,null]");
}

/* Makes a locale, since none may be installed. */
static void use_decimal_comma(char folder[])
{
	static const char source[] = "comment_char %\n"
				     "escape_char /\n"
				     "LC_NUMERIC\n"
				     "decimal_point \"<U002C>\"\n"
				     "thousands_sep \"\"\n"
				     "grouping -1\n"
				     "END LC_NUMERIC\n";
	char path[64], command[256];
	FILE *file;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/source", folder);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(source, 1, sizeof(source) - 1, file),
			 sizeof(source) - 1);
	assert_int_equal(fclose(file), 0);
	/* It warns about the categories that are left out, hence status 1. */
	snprintf(command, sizeof(command),
		 "localedef -c -i %s/source %s/comma >/dev/null 2>&1", folder,
		 folder);
	assert_int_not_equal(system(command), -1);
	setenv("LOCPATH", folder, 1);
	assert_non_null(setlocale(LC_NUMERIC, "comma"));
}

static void decimal_comma_of_a_locale_changes_nothing(void **state)
{
	char folder[] = "/tmp/fgtrace-locale-XXXXXX", text[16], command[64];
	struct output output;

	(void)state;
	use_decimal_comma(folder);
	snprintf(text, sizeof(text), "%.1f", 0.5);
	assert_string_equal(text, "0,5");
	fgt_json_put_double(start(&output), NULL, 0.25);
	fgt_json_put_double(&output.json, NULL, 1e-7);
	setlocale(LC_NUMERIC, "C");
	unsetenv("LOCPATH");
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	assert_int_equal(system(command), 0);
	assert_wrote(&output, "0.251e-07");
}

static void times_are_rfc_3339(void **state)
{
	struct output output;
	struct fgt_json *json = start(&output);

	(void)state;
	fgt_json_begin_array(json, NULL);
	fgt_json_put_time(json, NULL, 0);
	fgt_json_put_time(json, NULL, 1767225600000000001);
	fgt_json_put_time(json, NULL, UINT64_MAX);
	fgt_json_end_array(json);
	assert_wrote(&output, "[\"1970-01-01T00:00:00.000000000Z\","
			      "\"2026-01-01T00:00:00.000000001Z\","
			      "\"2554-07-21T23:34:33.709551615Z\"]");
}

static void misuse_is_an_error(void **state)
{
	struct output output;
	struct fgt_json *json;

	(void)state;
	json = start(&output);
	fgt_json_begin_object(json, NULL);
	assert_int_equal(fgt_json_finish(json), -EINVAL); /* left open */
	fixture_buffer_done(&output.buffer);
	json = start(&output);
	fgt_json_begin_object(json, NULL);
	fgt_json_end_array(json);
	fgt_json_end_object(json);
	assert_int_equal(fgt_json_finish(json), -EINVAL); /* wrong bracket */
	fixture_buffer_done(&output.buffer);
	json = start(&output);
	fgt_json_begin_object(json, NULL);
	fgt_json_put_uint(json, NULL, 1);
	fgt_json_end_object(json);
	assert_int_equal(fgt_json_finish(json), -EINVAL); /* no key */
	fixture_buffer_done(&output.buffer);
	json = start(&output);
	for (int i = 0; i < 100; i++)
		fgt_json_begin_array(json, NULL);
	for (int i = 0; i < 100; i++)
		fgt_json_end_array(json);
	assert_int_equal(fgt_json_finish(json), -EINVAL); /* too deep */
	fixture_buffer_done(&output.buffer);
}

struct failing {
	unsigned int calls, allowed;
};

static int fail_later(void *context, const void *bytes, size_t len)
{
	struct failing *failing = context;

	(void)bytes;
	(void)len;
	return failing->calls++ < failing->allowed ? 0 : -ENOSPC;
}

static void first_error_of_the_sink_sticks(void **state)
{
	struct failing failing = { .allowed = 2 };
	struct fgt_sink sink = { .write = fail_later, .context = &failing };
	struct fgt_json json;

	(void)state;
	fgt_json_init(&json, &sink);
	fgt_json_begin_array(&json, NULL);
	for (int i = 0; i < 100000; i++)
		fgt_json_put_uint(&json, NULL, (uint64_t)i);
	fgt_json_end_array(&json);
	assert_int_equal(fgt_json_finish(&json), -ENOSPC);
	assert_int_equal(failing.calls, 3);
}

/* Longer than the buffer, in one piece and in many. */
static void long_text_passes_the_small_buffer(void **state)
{
	const size_t len = 100000;
	char *text = malloc(len + 1);
	struct output output;

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < len; i++)
		text[i] = i % 7 ? 'x' : '\n';
	text[len] = 0;
	fgt_json_put_string(start(&output), NULL, text);
	assert_int_equal(fgt_json_finish(&output.json), 0);
	assert_int_equal(output.buffer.len, 2 + len + 5 * ((len + 6) / 7));
	fixture_buffer_done(&output.buffer);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commas_and_keys_are_automatic),
		cmocka_unit_test(newlines_stand_after_the_comma),
		cmocka_unit_test(hostile_text_becomes_strict_json),
		cmocka_unit_test(bytes_that_are_not_utf8_are_replaced),
		cmocka_unit_test(numbers_keep_every_digit),
		cmocka_unit_test(doubles_are_short_finite_and_exact),
		cmocka_unit_test(decimal_comma_of_a_locale_changes_nothing),
		cmocka_unit_test(times_are_rfc_3339),
		cmocka_unit_test(misuse_is_an_error),
		cmocka_unit_test(first_error_of_the_sink_sticks),
		cmocka_unit_test(long_text_passes_the_small_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
