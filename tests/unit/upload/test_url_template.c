/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placeholders of URLs: values stay in their part of the path.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "upload/deliver/url_template.h"

static const struct fgt_payload_head HEAD = {
	.pid = 1234,
	.from_wall_ns = 1767225600123456789ull, /* 2026-01-01T00:00:00.123Z */
	.sequence = 7,
	.format = "chrome",
	.name = "GET /cart?x=1",
	.host = "box.lab",
};

static const char *expand(const char *text, const struct fgt_payload_head *head)
{
	static char url[4096];
	struct fgt_why why = { "" };

	if (fgt_url_template_expand(text, head, url, sizeof(url), &why) < 0)
		fail_msg("%s", why.text);
	return url;
}

static void each_variable_is_filled_in(void **state)
{
	(void)state;
	assert_string_equal(
		expand("https://h/{host}/{pid}-{time}.{seq}?f={format}", &HEAD),
		"https://h/box.lab/1234-20260101T000000.123Z.7?f=chrome");
	assert_string_equal(expand("https://h/plain", &HEAD),
			    "https://h/plain");
}

static void values_are_percent_encoded(void **state)
{
	struct fgt_payload_head head = HEAD;

	(void)state;
	assert_string_equal(expand("https://h/{name}", &HEAD),
			    "https://h/GET%20%2Fcart%3Fx%3D1");
	strcpy(head.name, "a\xc3\xa4\n%{pid}");
	assert_string_equal(expand("https://h/{name}", &head),
			    "https://h/a%C3%A4%0A%25%7Bpid%7D");
	strcpy(head.name, "..");
	assert_string_equal(expand("https://h/{name}/x", &head),
			    "https://h/_/x");
	strcpy(head.name, "");
	assert_string_equal(expand("https://h/{name}/x", &head),
			    "https://h/_/x");
}

static void url_that_is_too_long_is_refused(void **state)
{
	struct fgt_why why = { "" };
	char url[20];

	(void)state;
	assert_int_equal(fgt_url_template_expand("https://h/{name}", &HEAD, url,
						 sizeof(url), &why),
			 -ENAMETOOLONG);
	assert_int_equal(fgt_url_template_expand("https://h/0123456789", &HEAD,
						 url, sizeof(url), &why),
			 -ENAMETOOLONG);
}

static void refused_templates_name_cause_and_remedy(void **state)
{
	static const struct {
		const char *text, *part;
	} rows[] = {
		{ "https://h/{hots}", "did you mean {host}?" },
		{ "https://h/{xyzzyx}", "known are {host} {pid}" },
		{ "https://h/{", "a brace without its other half" },
		{ "https://h/}", "a brace without its other half" },
		{ "https://h/{{pid}", "a brace without its other half" },
		{ "https://{host}/x", "stands in the host" },
		{ "https://a:b@h/x", "headers_file" },
		{ "http://elsewhere/x", "upload.allow_http" },
		{ "ftp://h/x", "scheme" },
		{ "https://h/a b", "blank" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fgt_why why = { "" };

		assert_int_equal(
			fgt_url_template_check(rows[i].text, false, &why),
			-EINVAL);
		if (!strstr(why.text, rows[i].part))
			fail_msg("%s: %s", rows[i].text, why.text);
	}
	assert_int_equal(
		fgt_url_template_check("http://elsewhere/x", true, NULL), 0);
	assert_int_equal(
		fgt_url_template_check("http://127.0.0.1:9/{pid}", false, NULL),
		0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_variable_is_filled_in),
		cmocka_unit_test(values_are_percent_encoded),
		cmocka_unit_test(url_that_is_too_long_is_refused),
		cmocka_unit_test(refused_templates_name_cause_and_remedy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
