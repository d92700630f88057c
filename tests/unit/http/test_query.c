/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets of requests: what is accepted, and what is refused with which reason.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/http/query.h"

static struct fgt_web_query query;

static void parse(const char *target)
{
	struct fgt_why why = { "" };

	if (fgt_web_query_parse(target, &query, &why) < 0)
		fail_msg("%s: %s", target, why.text);
}

static void refuse(const char *target, int error, const char *text)
{
	struct fgt_why why = { "" };

	assert_int_equal(fgt_web_query_parse(target, &query, &why), error);
	if (!strstr(why.text, text))
		fail_msg("%s: %s", target, why.text);
}

static void names_and_values_are_decoded(void **state)
{
	(void)state;
	parse("/debug/fgtrace?seconds=5&name=a%20b+c%2B%c3%a4&&hz=");
	assert_string_equal(query.path, "/debug/fgtrace");
	assert_int_equal(query.count, 3);
	assert_string_equal(fgt_web_query_get(&query, "seconds"), "5");
	assert_string_equal(fgt_web_query_get(&query, "name"),
			    "a b c+\xc3\xa4");
	assert_null(fgt_web_query_get(&query, "hz"));
	assert_null(fgt_web_query_get(&query, "pid"));
	parse("/?a=b=c&d");
	assert_string_equal(fgt_web_query_get(&query, "a"), "b=c");
	assert_int_equal(query.count, 2);
}

static void paths_stay_as_they_came(void **state)
{
	(void)state;
	parse("/debug%2ffgtrace");
	assert_string_equal(query.path, "/debug%2ffgtrace");
	parse("/../etc/passwd%00");
	assert_string_equal(query.path, "/../etc/passwd%00");
}

static void what_is_malformed_is_refused(void **state)
{
	(void)state;
	refuse("", -EINVAL, "begin it with /");
	refuse("http://h/", -EINVAL, "begin it with /");
	refuse("/?a=%", -EINVAL, "two hex digits");
	refuse("/?a=%4", -EINVAL, "two hex digits");
	refuse("/?a=%zz", -EINVAL, "two hex digits");
	refuse("/?%g1=a", -EINVAL, "two hex digits");
	refuse("/?a=%00", -EINVAL, "control character");
	refuse("/?a=%0d%0aSet-Cookie:x", -EINVAL, "control character");
	refuse("/?a=\x7f", -EINVAL, "control character");
	refuse("/?=1", -EINVAL, "without a name");
	refuse("/?seconds=1&seconds=2", -EINVAL, "bad seconds: it is there");
	refuse("/?%73econds=1&seconds=2", -EINVAL, "bad seconds: it is there");
	refuse("/?a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q", -EINVAL,
	       "more than 16 parameters");
}

static void length_is_bounded(void **state)
{
	char target[FGT_WEB_TARGET_MAX + 2];

	(void)state;
	memset(target, 'a', sizeof(target));
	target[0] = '/';
	target[sizeof(target) - 1] = '\0';
	refuse(target, -E2BIG, "longer than 2047 bytes");
	target[sizeof(target) - 2] = '\0';
	parse(target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_values_are_decoded),
		cmocka_unit_test(paths_stay_as_they_came),
		cmocka_unit_test(what_is_malformed_is_refused),
		cmocka_unit_test(length_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
