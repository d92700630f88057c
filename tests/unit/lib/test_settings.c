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
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/lib/settings.h"

#define KEY "0123456789abcdef0123456789abcdef"

static const struct fgt_options zero = { .size = sizeof(zero) };

static struct fgt_why why; /* of the last check() */

static int check(const struct fgt_options *options)
{
	struct fgt_settings settings;

	why.text[0] = '\0';
	return fgt_settings_init(&settings, options, &why);
}

static void missing_options_get_defaults(void **state)
{
	struct fgt_settings none, zeroed;

	(void)state;
	assert_int_equal(fgt_settings_init(&none, NULL, &why), 0);
	assert_int_equal(fgt_settings_init(&zeroed, &zero, &why), 0);
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

static void given_options_stay(void **state)
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
	assert_int_equal(fgt_settings_init(&settings, &options, &why), 0);
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
#define REFUSED(field, value, part)                                            \
	do {                                                                   \
		options = zero;                                                \
		options.field = (value);                                       \
		assert_int_equal(check(&options), -EINVAL);                    \
		assert_non_null(strstr(why.text, part));                       \
	} while (0)
	REFUSED(hz, 1001, "options.hz");
	REFUSED(ring_seconds, 3601, "options.ring_seconds");
	REFUSED(ring_bytes, 1, "options.ring_bytes");
	REFUSED(ring_bytes, (1 << 20) - 1, "options.ring_bytes");
	REFUSED(ring_bytes, ((size_t)1 << 34) + 1, "options.ring_bytes");
	REFUSED(sample_rate, 1.01, "options.sample_rate");
	REFUSED(sample_rate, NAN, "options.sample_rate");
	REFUSED(mode, (enum fgt_mode)3, "options.mode");
	REFUSED(mode, (enum fgt_mode) - 1, "options.mode");
	REFUSED(threads, (enum fgt_threads)2, "options.threads");
	REFUSED(destination, "relative/path", "neither a DSN");
	REFUSED(destination, "file:///etc/passwd", "neither a DSN");
	REFUSED(destination, "https://key@sentry.example/7", "the public key");
	REFUSED(destination, "https://" KEY "@sentry.example/", "project");
	REFUSED(destination, "http://" KEY "@sentry.example/7", "use https");
	REFUSED(reserved, 1, "newer");
#undef REFUSED
}

static void other_versions_are_known_by_their_size(void **state)
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
	assert_non_null(strstr(why.text, "sizeof"));
	options.size = offsetof(struct fgt_options, ca_file) - 1;
	assert_int_equal(check(&options), -EINVAL);
	/* The version before ca_file and allow_http. */
	options.size = offsetof(struct fgt_options, ca_file) + 1;
	assert_int_equal(check(&options), -EINVAL);
	options.size = offsetof(struct fgt_options, ca_file);
	options.ca_file = "no path";
	assert_int_equal(check(&options), 0);
	options.size = SIZE_MAX;
	assert_int_equal(check(&options), -EINVAL);
	assert_int_equal(fgt_settings_init(&settings, &newer.known, &why), 0);
	assert_int_equal(settings.options.hz, 7);
	newer.unknown = 1; /* an option that this library does not have */
	assert_int_equal(check(&newer.known), -EINVAL);
}

static void long_text_is_cut_between_characters(void **state)
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
	assert_int_equal(fgt_settings_init(&settings, &options, &why), 0);
	assert_int_equal(strlen(settings.options.release), 199);
	assert_int_equal(strlen(settings.options.environment), 64);
}

static void long_path_is_refused(void **state)
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
	options = zero;
	options.ca_file = text;
	assert_int_equal(check(&options), 0);
	options.ca_file = text + 1; /* relative: the directory is added */
	assert_int_equal(check(&options), -EINVAL);
	assert_non_null(strstr(why.text, "FGTRACE_UPLOAD_CA_FILE"));
}

static void environment_replaces_missing_options(void **state)
{
	struct fgt_options options = zero;
	struct fgt_settings settings;

	(void)state;
	setenv("FGTRACE_SOCKET", "/run/a.sock", 1);
	setenv("FGTRACE_DESTINATION", "https://" KEY "@h/1", 1);
	assert_int_equal(fgt_settings_init(&settings, &options, &why), 0);
	assert_string_equal(settings.options.socket, "/run/a.sock");
	assert_string_equal(settings.options.destination,
			    "https://" KEY "@h/1");
	options.socket = "/run/b.sock";
	options.release = "shop@2";
	setenv("FGTRACE_RELEASE", "shop@1", 1);
	setenv("FGTRACE_ENVIRONMENT", "test", 1);
	assert_int_equal(fgt_settings_init(&settings, &options, &why), 0);
	assert_string_equal(settings.options.socket, "/run/b.sock");
	assert_string_equal(settings.options.release, "shop@2");
	assert_string_equal(settings.options.environment, "test");
	unsetenv("FGTRACE_SOCKET");
	unsetenv("FGTRACE_DESTINATION");
	unsetenv("FGTRACE_RELEASE");
	unsetenv("FGTRACE_ENVIRONMENT");
	setenv("FGTRACE_UPLOAD_CA_FILE", "/etc/a.pem", 1);
	assert_int_equal(fgt_settings_init(&settings, &options, &why), 0);
	assert_string_equal(settings.options.ca_file, "/etc/a.pem");
	options.ca_file = "/etc/b.pem";
	assert_int_equal(fgt_settings_init(&settings, &options, &why), 0);
	assert_string_equal(settings.options.ca_file, "/etc/b.pem");
	options.ca_file = "c.pem";
	assert_int_equal(fgt_settings_init(&settings, &options, &why), 0);
	assert_int_equal(settings.options.ca_file[0], '/');
	assert_non_null(strstr(settings.options.ca_file + 1, "/c.pem"));
	unsetenv("FGTRACE_UPLOAD_CA_FILE");
}

static void unused_invalid_variable_is_ignored(void **state)
{
	struct fgt_options options = zero;
	struct fgt_settings settings;
	char text[2000];

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	setenv("FGTRACE_UPLOAD_CA_FILE", text, 1);
	why.text[0] = '\0';
	assert_int_equal(fgt_settings_init(&settings, &options, &why), 0);
	assert_null(settings.options.ca_file);
	options.destination = "/tmp";
	assert_int_equal(fgt_settings_init(&settings, &options, &why), 0);
	assert_string_equal(why.text, "");
	options.destination = "https://" KEY "@h/1";
	assert_int_equal(fgt_settings_init(&settings, &options, &why), -EINVAL);
	unsetenv("FGTRACE_UPLOAD_CA_FILE");
	options.destination = NULL;
	options.ca_file = text;
	assert_int_equal(fgt_settings_init(&settings, &options, &why), -EINVAL);
}

/* The working directory is removed. */
static void relative_path_needs_a_working_directory(void **state)
{
	char folder[] = "/tmp/fgtrace-test-XXXXXX";
	struct fgt_options options = zero;
	int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder) | rmdir(folder), 0);
	options.ca_file = "a.pem";
	assert_int_equal(check(&options), -EINVAL);
	assert_int_equal(fchdir(before) | close(before), 0);
	assert_non_null(strstr(why.text, "working directory"));
}

static void plain_http_to_another_machine_needs_allow_http(void **state)
{
	struct fgt_options options = zero;
	struct fgt_settings settings;

	(void)state;
	options.destination = "http://" KEY "@sentry.example/7";
	options.allow_http = 1;
	assert_int_equal(check(&options), 0);
	options.allow_http = 0;
	setenv("FGTRACE_UPLOAD_ALLOW_HTTP", "1", 1);
	assert_int_equal(fgt_settings_init(&settings, &options, &why), 0);
	assert_int_equal(settings.options.allow_http, 1);
	setenv("FGTRACE_UPLOAD_ALLOW_HTTP", "false", 1);
	assert_int_equal(check(&options), -EINVAL);
	unsetenv("FGTRACE_UPLOAD_ALLOW_HTTP");
}

static void *check_in_thread(void *ret_result)
{
	*(int *)ret_result = fgt_settings_check_destination(
		"https://" KEY "@sentry.example/7", false, NULL);
	return NULL;
}

/* fgt_slice_upload() calls it in threads of the program. */
static void check_needs_little_stack(void **state)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int result = 1;

	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* sanitizers need much stack */
#endif
	pthread_attr_init(&attributes);
	assert_int_equal(pthread_attr_setstacksize(&attributes, 16384), 0);
	assert_int_equal(
		pthread_create(&thread, &attributes, check_in_thread, &result),
		0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attributes);
	assert_int_equal(result, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(missing_options_get_defaults),
		cmocka_unit_test(given_options_stay),
		cmocka_unit_test(values_out_of_range_are_refused),
		cmocka_unit_test(other_versions_are_known_by_their_size),
		cmocka_unit_test(long_text_is_cut_between_characters),
		cmocka_unit_test(long_path_is_refused),
		cmocka_unit_test(environment_replaces_missing_options),
		cmocka_unit_test(unused_invalid_variable_is_ignored),
		cmocka_unit_test(relative_path_needs_a_working_directory),
		cmocka_unit_test(
			plain_http_to_another_machine_needs_allow_http),
		cmocka_unit_test(check_needs_little_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
