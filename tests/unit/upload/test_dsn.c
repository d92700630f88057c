/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DSNs and URLs: what is accepted, what comes out, and that no message holds a
 * key.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "upload/deliver/dsn.h"
#include "upload/deliver/url.h"

#define KEY "0123456789abcdef0123456789abcdef"

static struct fgt_dsn parse(const char *text)
{
	struct fgt_dsn dsn;
	struct fgt_why why = { .text = "" };

	if (fgt_dsn_parse(text, 0, &dsn, &why))
		fail_msg("%s: %s", text, why.text);
	return dsn;
}

static void example_of_the_specification_is_parsed(void **state)
{
	struct fgt_dsn dsn =
		parse("https://" KEY "@sentry.example.com:8443/base/42");

	(void)state;
	assert_string_equal(dsn.url, "https://sentry.example.com:8443/base/api/"
				     "42/envelope/");
	assert_string_equal(dsn.public_key, KEY);
	assert_string_equal(dsn.secret_key, "");
	assert_string_equal(dsn.redacted,
			    "https://***@sentry.example.com:8443/base/42");
	assert_string_equal(dsn.clean,
			    "https://" KEY "@sentry.example.com:8443/base/42");
	assert_false(dsn.is_loopback);
}

static void other_shapes_are_parsed(void **state)
{
	struct fgt_dsn dsn;

	(void)state;
	dsn = parse(" \t https://" KEY ":5ec2e7@h/7\r\n");
	assert_string_equal(dsn.secret_key, "5ec2e7");
	assert_string_equal(dsn.url, "https://h/api/7/envelope/");
	assert_null(strstr(dsn.clean, "5ec2e7"));
	assert_null(strstr(dsn.redacted, "5ec2e7"));
	dsn = parse("https://" KEY ":@h/7///?a=b#c");
	assert_string_equal(dsn.secret_key, "");
	assert_string_equal(dsn.url, "https://h/api/7/envelope/");
	dsn = parse("http://" KEY "@[::1]:9000/a/b/c/7");
	assert_string_equal(dsn.url, "http://[::1]:9000/a/b/c/api/7/envelope/");
	assert_true(dsn.is_loopback);
	assert_true(parse("http://" KEY "@127.8.9.1/7").is_loopback);
	assert_true(parse("http://" KEY "@LOCALHOST/7").is_loopback);
	dsn = parse("HTTPS://" KEY "@h/7");
	assert_string_equal(dsn.url, "https://h/api/7/envelope/");
}

static const char *const BAD_DSNS[] = {
	"",
	"   ",
	KEY,
	"ftp://" KEY "@h/7",
	"file:///etc/passwd",
	"https://h/7",
	"https://@h/7",
	"https://" KEY "0@h/7",
	"https://0123456789abcdef@h/7",
	"https://0123456789abcdef0123456789abcdeg@h/7",
	"https://" KEY ":a,b@h/7",
	"https://" KEY "@/7",
	"https://" KEY "@h",
	"https://" KEY "@h/",
	"https://" KEY "@h/seven",
	"https://" KEY "@h/7x",
	"https://" KEY "@h/x7",
	"https://" KEY "@h/123456789012345678901",
	"https://" KEY "@h:0/7",
	"https://" KEY "@h:65536/7",
	"https://" KEY "@h:/7",
	"https://" KEY "@h:8a/7",
	"https://" KEY "@h h/7",
	"https://" KEY "@h/7\r\nX-Evil: 1/7",
	"https://" KEY "@h\\@evil/7",
	"https://" KEY "@evil@h/7",
	"https://" KEY "@[::1/7",
	"https://" KEY "@[::1]x/7",
	"https://" KEY "@[zz]/7",
	"https://" KEY "@-h/7",
	"https://" KEY "@h%00/7",
	"https://" KEY "@h/" KEY "/7",
	"https://" KEY ":5ec2e7@h/5EC2E7/7",
	"http://" KEY "@sentry.example.com/7",
	"http://" KEY "@127.0.0.1.example.com/7",
	"http://" KEY "@localhost.example.com/7",
	"http://" KEY "@[::2]/7",
};

/* Faults N12 and Z1. */
static void malformed_dsn_is_refused_without_its_key(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(BAD_DSNS) / sizeof(*BAD_DSNS); i++) {
		struct fgt_dsn dsn;
		struct fgt_why why = { .text = "" };

		if (fgt_dsn_parse(BAD_DSNS[i], 0, &dsn, &why) != -EINVAL)
			fail_msg("accepted: %s", BAD_DSNS[i]);
		assert_int_equal(strncmp(why.text, "DSN: ", 5), 0);
		assert_null(strstr(why.text, "0123456789abcdef"));
	}
}

/* Fault N12. */
static void plain_http_to_another_machine_needs_permission(void **state)
{
	struct fgt_dsn dsn;
	struct fgt_why why = { .text = "" };

	(void)state;
	assert_int_equal(fgt_dsn_parse("http://" KEY "@h/7", 0, &dsn, &why),
			 -EINVAL);
	assert_non_null(strstr(why.text, "allow_http"));
	assert_int_equal(fgt_dsn_parse("http://" KEY "@h/7", 1, &dsn, &why), 0);
	assert_string_equal(dsn.url, "http://h/api/7/envelope/");
}

static void dsn_that_does_not_fit_is_refused(void **state)
{
	char text[5000] = "https://" KEY "@h/";
	struct fgt_dsn dsn;
	struct fgt_why why = { .text = "" };

	(void)state;
	for (size_t len = 900; len < 4900; len += 200) {
		memset(text + strlen("https://" KEY "@h/"), 'a', len);
		strcpy(text + strlen("https://" KEY "@h/") + len, "/7");
		if (!fgt_dsn_parse(text, 0, &dsn, &why)) {
			assert_true(len < 1000);
			assert_string_equal(dsn.clean, text);
		}
	}
	assert_non_null(strstr(why.text, "too long"));
}

static int read_dsn(const char *bytes, size_t len, mode_t mode,
		    struct fgt_dsn *ret_dsn, struct fgt_why *why)
{
	char path[] = "/tmp/fgtrace-test-XXXXXX";
	int fd = mkstemp(path);
	int error;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	error = fgt_dsn_read_file(path, 0, ret_dsn, why);
	unlink(path);
	assert_null(strstr(why->text, KEY));
	return error;
}

static void first_line_of_a_private_file_counts(void **state)
{
	static const char TEXT[] = "https://" KEY "@h/7\r\nsecond line\n";
	static const char CUT[] = "https://" KEY "@h/7\0.example.com/7\n";
	struct fgt_dsn dsn;
	struct fgt_why why = { .text = "" };

	(void)state;
	assert_int_equal(read_dsn(TEXT, strlen(TEXT), 0600, &dsn, &why), 0);
	assert_string_equal(dsn.url, "https://h/api/7/envelope/");
	assert_int_equal(read_dsn(TEXT, strlen(TEXT), 0640, &dsn, &why), 0);
	assert_int_equal(read_dsn(TEXT, strlen(TEXT), 0644, &dsn, &why),
			 -EACCES);
	assert_non_null(strstr(why.text, "chmod 640 or 600"));
	assert_int_equal(read_dsn(TEXT, strlen(TEXT), 0602, &dsn, &why),
			 -EACCES);
	assert_int_equal(read_dsn("\n", 1, 0600, &dsn, &why), -EINVAL);
	assert_int_equal(read_dsn("", 0, 0600, &dsn, &why), -EINVAL);
	assert_int_equal(read_dsn(CUT, sizeof(CUT) - 1, 0600, &dsn, &why),
			 -EINVAL);
	assert_non_null(strstr(why.text, "NUL"));
}

static void file_that_is_not_regular_is_refused_at_once(void **state)
{
	static char big[4200];
	char fifo[] = "/tmp/fgtrace-test-XXXXXX";
	struct fgt_dsn dsn;
	struct fgt_why why = { .text = "" };

	(void)state;
	memset(big, 'a', sizeof(big));
	assert_int_equal(read_dsn(big, sizeof(big), 0600, &dsn, &why), -EINVAL);
	close(mkstemp(fifo));
	unlink(fifo);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(fgt_dsn_read_file(fifo, 0, &dsn, &why), -EINVAL);
	unlink(fifo);
	assert_int_equal(fgt_dsn_read_file(fifo, 0, &dsn, &why), -ENOENT);
	assert_int_equal(fgt_dsn_read_file("/tmp", 0, &dsn, &why), -EINVAL);
}

static void url_is_parsed(void **state)
{
	struct fgt_why why = { .text = "" };
	struct fgt_url url;

	(void)state;
	assert_int_equal(
		fgt_url_parse("https://u:p@h.example:81/a?b", &url, &why), 0);
	assert_true(url.is_https);
	assert_true(url.has_userinfo);
	assert_string_equal(url.userinfo, "u:p");
	assert_string_equal(url.host, "h.example");
	assert_int_equal(url.port, 81);
	assert_string_equal(url.path, "/a?b");
	assert_int_equal(fgt_url_parse("http://h?x", &url, &why), 0);
	assert_string_equal(url.path, "?x");
	assert_int_equal(url.port, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(example_of_the_specification_is_parsed),
		cmocka_unit_test(other_shapes_are_parsed),
		cmocka_unit_test(malformed_dsn_is_refused_without_its_key),
		cmocka_unit_test(
			plain_http_to_another_machine_needs_permission),
		cmocka_unit_test(dsn_that_does_not_fit_is_refused),
		cmocka_unit_test(first_line_of_a_private_file_counts),
		cmocka_unit_test(file_that_is_not_regular_is_refused_at_once),
		cmocka_unit_test(url_is_parsed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
