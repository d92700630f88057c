/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of a start: versions, ranges, defaults, texts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/lib/settings.h"

static const struct fgt_options zero = { .size = sizeof(zero) };

static int check(const struct fgt_options *options)
{
	struct fgt_settings settings;

	return fgt_settings_init(&settings, options);
}

static void nothing_given_means_defaults(void **state)
{
	struct fgt_settings none, zeroed;

	(void)state;
	assert_int_equal(fgt_settings_init(&none, NULL), 0);
	assert_int_equal(fgt_settings_init(&zeroed, &zero), 0);
	assert_memory_equal(&none, &zeroed, sizeof(none));
	assert_int_equal(none.options.hz, 101);
	assert_int_equal(none.options.ring_seconds, 30);
	assert_int_equal(none.options.ring_bytes, 64 << 20);
	assert_int_equal(none.options.timeout_ms, 1000);
	assert_true(none.options.sample_rate == 1);
	assert_int_equal(none.options.min_gap_ns, 1000000000);
	assert_int_equal(none.options.max_per_hour, 120);
	assert_null(none.options.socket);
	assert_null(none.options.destination);
}

static void what_is_given_stays(void **state)
{
	struct fgt_options options = zero;
	struct fgt_settings settings;
	char release[] = "app@1.0";

	(void)state;
	options.hz = 1000;
	options.sample_rate = -1;
	options.min_gap_ns = UINT64_MAX;
	options.max_per_hour = UINT_MAX;
	options.release = release;
	options.destination = "/var/tmp";
	assert_int_equal(fgt_settings_init(&settings, &options), 0);
	release[0] = 'X'; /* texts are copied */
	assert_string_equal(settings.options.release, "app@1.0");
	assert_string_equal(settings.options.destination, "/var/tmp");
	assert_int_equal(settings.options.hz, 1000);
	assert_true(settings.options.sample_rate == -1);
	assert_true(settings.options.min_gap_ns == UINT64_MAX);
	assert_true(settings.options.max_per_hour == UINT_MAX);
}

static void values_out_of_range_are_refused(void **state)
{
	struct fgt_options options;

	(void)state;
#define REFUSED(field, value)                                                  \
	do {                                                                   \
		options = zero;                                                \
		options.field = (value);                                       \
		assert_int_equal(check(&options), -EINVAL);                    \
	} while (0)
	REFUSED(hz, 1001);
	REFUSED(ring_seconds, 3601);
	REFUSED(ring_bytes, 1);
	REFUSED(ring_bytes, (1 << 20) - 1);
	REFUSED(sample_rate, 1.01);
	REFUSED(sample_rate, NAN);
	REFUSED(mode, (enum fgt_mode)3);
	REFUSED(mode, (enum fgt_mode) - 1);
	REFUSED(threads, (enum fgt_threads)2);
	REFUSED(destination, "relative/path");
	REFUSED(destination, "file:///etc/passwd");
#undef REFUSED
}

static void other_versions_are_told_by_their_size(void **state)
{
	struct {
		struct fgt_options known;
		uint64_t unknown;
	} newer = { .known = { .size = sizeof(newer), .hz = 7 } };
	struct fgt_settings settings;
	struct fgt_options options = zero;

	(void)state;
	options.size = 0;
	assert_int_equal(check(&options), -EINVAL);
	options.size = sizeof(options) - 1;
	assert_int_equal(check(&options), -EINVAL);
	options.size = SIZE_MAX;
	assert_int_equal(check(&options), -EINVAL);
	assert_int_equal(fgt_settings_init(&settings, &newer.known), 0);
	assert_int_equal(settings.options.hz, 7);
	newer.unknown = 1; /* asks for something that we cannot do */
	assert_int_equal(check(&newer.known), -EINVAL);
}

static void long_texts_are_cut_between_characters(void **state)
{
	struct fgt_options options = zero;
	struct fgt_settings settings;
	char text[300];

	(void)state;
	memset(text, 'a', sizeof(text));
	text[299] = 0;
	memcpy(text + 199, "\xc3\xa4", 2); /* lies across the 200th byte */
	options.release = text;
	options.environment = text;
	assert_int_equal(fgt_settings_init(&settings, &options), 0);
	assert_int_equal(strlen(settings.options.release), 199);
	assert_int_equal(strlen(settings.options.environment), 64);
}

static void long_paths_are_refused_not_cut(void **state)
{
	struct fgt_options options = zero;
	char text[2000];

	(void)state;
	memset(text, 'a', sizeof(text));
	text[0] = '/';
	text[108] = 0;
	options.socket = text;
	assert_int_equal(check(&options), -EINVAL);
	text[107] = 0;
	assert_int_equal(check(&options), 0);
	text[107] = 'a';
	text[108] = 'a';
	text[1024] = 0;
	options = zero;
	options.destination = text;
	assert_int_equal(check(&options), -EINVAL);
	text[1023] = 0;
	assert_int_equal(check(&options), 0);
}

static void environment_fills_in_what_is_not_given(void **state)
{
	struct fgt_options options = zero;
	struct fgt_settings settings;

	(void)state;
	setenv("FGTRACE_SOCKET", "/run/a.sock", 1);
	setenv("FGTRACE_DESTINATION", "https://k@h/1", 1);
	assert_int_equal(fgt_settings_init(&settings, &options), 0);
	assert_string_equal(settings.options.socket, "/run/a.sock");
	assert_string_equal(settings.options.destination, "https://k@h/1");
	options.socket = "/run/b.sock";
	assert_int_equal(fgt_settings_init(&settings, &options), 0);
	assert_string_equal(settings.options.socket, "/run/b.sock");
	unsetenv("FGTRACE_SOCKET");
	unsetenv("FGTRACE_DESTINATION");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_given_means_defaults),
		cmocka_unit_test(what_is_given_stays),
		cmocka_unit_test(values_out_of_range_are_refused),
		cmocka_unit_test(other_versions_are_told_by_their_size),
		cmocka_unit_test(long_texts_are_cut_between_characters),
		cmocka_unit_test(long_paths_are_refused_not_cut),
		cmocka_unit_test(environment_fills_in_what_is_not_given),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
