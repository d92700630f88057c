/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of requests: what they mean, and the texts of what is refused
 * (fault H8).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/http/wish.h"

#define CHOICES (FGT_WEB_TAKES_SEVERAL | FGT_WEB_TAKES_FILTER)
#define TRACE                                                                  \
	(FGT_WEB_TAKES_TARGET | FGT_WEB_TAKES_SECONDS | FGT_WEB_TAKES_HZ |     \
	 FGT_WEB_TAKES_STATES | CHOICES)
#define LIVE	(FGT_WEB_TAKES_TARGET | FGT_WEB_TAKES_LIVE | FGT_WEB_TAKES_FILTER)
#define PROFILE (TRACE | FGT_WEB_TAKES_PROFILE)
#define SLICE                                                                  \
	(FGT_WEB_TAKES_TARGET | FGT_WEB_TAKES_RANGE | FGT_WEB_TAKES_FORMAT |   \
	 FGT_WEB_TAKES_STATES | CHOICES)

static const struct fgt_web_defaults defaults = {
	.seconds = 30,
	.format = FGT_KIND_CHROME,
};
static struct fgt_web_query query;
static struct fgt_why why;

static int read_wish(const char *parameters, unsigned int takes,
		     struct fgt_web_wish *ret_wish)
{
	char target[512];

	snprintf(target, sizeof(target), "/x?%s", parameters);
	why.text[0] = '\0';
	assert_int_equal(fgt_web_query_parse(target, &query, &why), 0);
	return fgt_web_wish_read(&query, takes, &defaults, ret_wish, &why);
}

static void nothing_given_means_the_past_30_seconds(void **state)
{
	struct fgt_web_wish wish;

	(void)state;
	assert_int_equal(read_wish("", TRACE, &wish), 0);
	assert_int_equal(wish.cut.range.last_ns, UINT64_C(30000000000));
	assert_false(wish.cut.range.has_to);
	assert_false(wish.cut.range.has_from);
	assert_int_equal(wish.cut.choice.pid, 0);
	assert_null(wish.cut.choice.name);
	assert_int_equal(wish.hz, 0);
	assert_int_equal(wish.format, FGT_KIND_CHROME);
}

static void values_are_read(void **state)
{
	struct fgt_web_wish wish;
	struct fgt_now now;

	(void)state;
	fgt_now_read(&now);
	assert_int_equal(
		read_wish("seconds=0.5&hz=50&pid=12&tid=13&wait=1&format="
			  "folded&state_frames=leaf&token=x",
			  PROFILE, &wish),
		0);
	assert_int_equal(wish.cut.range.last_ns, 500000000);
	assert_true(wish.cut.range.has_to);
	assert_true(wish.cut.range.to.ns >= now.mono_ns + 500000000);
	assert_int_equal(wish.cut.choice.pid, 12);
	assert_int_equal(wish.cut.tid, 13);
	assert_int_equal(wish.hz, 50);
	assert_int_equal(wish.format, FGT_KIND_FOLDED);
	assert_int_equal(wish.state_frames, FGT_STATE_FRAMES_LEAF);
	assert_int_equal(read_wish("from=-10s&to=m:5&name=redis", SLICE, &wish),
			 0);
	assert_true(wish.cut.range.has_from);
	assert_int_equal(wish.cut.range.to.ns, 5);
	assert_string_equal(wish.cut.choice.name, "redis");
	assert_int_equal(
		read_wish("last=1500ms&format=speedscope", SLICE, &wish), 0);
	assert_int_equal(wish.cut.range.last_ns, 1500000000);
}

static void processes_and_samples_are_chosen(void **state)
{
	struct fgt_web_wish wish;

	(void)state;
	assert_int_equal(read_wish("pid=12&children=1&thread=conn-*&state="
				   "blocked&function=main&running=0&no_idle=1",
				   SLICE, &wish),
			 0);
	assert_true(wish.cut.choice.with_children);
	assert_false(wish.cut.choice.is_all);
	assert_string_equal(wish.filter.thread, "conn-*");
	assert_string_equal(wish.filter.state, "blocked");
	assert_string_equal(wish.filter.function, "main");
	assert_false(wish.filter.is_running);
	assert_true(wish.filter.is_busy);
	assert_int_equal(read_wish("tid=5&state=futex", LIVE, &wish), 0);
	assert_int_equal(wish.cut.tid, 5);
	assert_string_equal(wish.filter.state, "futex");
	assert_int_equal(read_wish("all=1&running=1", TRACE, &wish), 0);
	assert_true(wish.cut.choice.is_all);
	assert_true(wish.filter.is_running);
}

static const struct {
	const char *parameters;
	unsigned int takes;
	const char *text;
} cases[] = {
	{ "seconds=x", TRACE,
	  "bad seconds: \"x\": invalid value: give "
	  "a number of seconds from 0.001 to 3600" },
	{ "seconds=0", TRACE, "bad seconds: \"0\": invalid value" },
	{ "seconds=-1", TRACE, "bad seconds: \"-1\": invalid value" },
	{ "seconds=NaN", TRACE, "bad seconds: \"NaN\": invalid value" },
	{ "seconds=inf", TRACE, "bad seconds: \"inf\": invalid value" },
	{ "seconds=1e300", TRACE, "bad seconds: \"1e300\": invalid" },
	{ "seconds=1e999", TRACE, "bad seconds: \"1e999\": invalid" },
	{ "seconds=1e9", TRACE, "bad seconds: \"1e9\": invalid value" },
	{ "seconds=0x10", TRACE, "bad seconds: \"0x10\": invalid" },
	{ "seconds=1-", TRACE, "bad seconds: \"1-\": invalid value" },
	{ "seconds=3600.1", TRACE, "bad seconds: \"3600.1\": invalid" },
	{ "hz=2000000000", TRACE,
	  "bad hz: \"2000000000\": invalid value: give a whole number "
	  "from 1 to 1000" },
	{ "hz=99999999999999999999", TRACE, "bad hz: \"9999" },
	{ "hz=0", TRACE, "bad hz: \"0\": invalid value" },
	{ "hz=1.5", TRACE, "bad hz: \"1.5\": invalid value" },
	{ "hz=-1", TRACE, "bad hz: \"-1\": invalid value" },
	{ "seconds=x&hz=y", TRACE, "bad seconds: \"x\"" },
	{ "wait=yes", TRACE, "bad wait: \"yes\": invalid value: give 0" },
	{ "pid=0", TRACE, "bad pid: \"0\": invalid value" },
	{ "pid=1&name=a", TRACE, "bad target: give one of pid, name and all" },
	{ "name=a&all=1", TRACE, "bad target: give one of pid, name and all" },
	{ "name=a&children=1", TRACE, "bad children: it is for a process" },
	{ "all=2", TRACE, "bad all: \"2\": invalid value: give 0 or 1" },
	{ "running=no", TRACE, "bad running: \"no\": invalid value" },
	{ "thread=a", FGT_WEB_TAKES_TARGET | FGT_WEB_TAKES_LIVE,
	  "bad thread: this path has no such parameter" },
	{ "tid=x", TRACE, "bad tid: \"x\": invalid value" },
	{ "state_frames=top", TRACE,
	  "bad state_frames: \"top\": invalid value: give auto, root" },
	{ "format=x", PROFILE,
	  "bad format: \"x\": unknown format: give pprof or folded" },
	{ "format=chrome", PROFILE,
	  "bad format: \"chrome\": this path has pprof and folded" },
	{ "format=x", SLICE, "bad format: " },
	{ "from=yesterday", SLICE, "bad from: " },
	{ "to=yesterday", SLICE, "bad to: " },
	{ "last=0", SLICE, "bad last: " },
	{ "last=1s&to=now", SLICE, "bad last: from and to exclude it" },
	{ "second=5", TRACE,
	  "bad second: this path has no such parameter: did you mean "
	  "seconds" },
	{ "format=folded", TRACE, "bad format: this path has no such" },
	{ "seconds=5", SLICE, "bad seconds: this path has no such" },
	{ "pid=1", 0, "bad pid: this path has no such parameter" },
};

static void bad_values_are_refused_with_the_texts_of_fgtrace(void **state)
{
	struct fgt_web_wish wish;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (read_wish(cases[i].parameters, cases[i].takes, &wish) !=
			    -EINVAL ||
		    strncmp(why.text, cases[i].text, strlen(cases[i].text)) !=
			    0)
			fail_msg("%s: %s", cases[i].parameters, why.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_given_means_the_past_30_seconds),
		cmocka_unit_test(values_are_read),
		cmocka_unit_test(processes_and_samples_are_chosen),
		cmocka_unit_test(
			bad_values_are_refused_with_the_texts_of_fgtrace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
