/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's log: one line an event whatever a target is called, bounded in
 * rate, never waiting for its reader. Runs in one thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/delivery/delivery_child.h"
#include "agent/daemon/loop/log.h"

static int ends[2];

static int set_up(void **state)
{
	(void)state;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	(void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
	fgt_log_set("info", "logfmt");
	fgt_log_set_fd(ends[1]);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(ends[0]);
	close(ends[1]);
	return 0;
}

static size_t read_log(char *text, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(ends[0], text + len, size - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = 0;
	return len;
}

static size_t count_lines(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += *text == '\n';
	return count;
}

/* Fault Z9. */
static void hostile_name_stays_on_its_line(void **state)
{
	char text[2000];

	(void)state;
	fgt_log(FGT_LOG_INFO, "target", "name %s",
		"<x>\n time=0 level=error\x1b[31m \"q\" \\ \xff");
	(void)read_log(text, sizeof(text));
	assert_int_equal(count_lines(text), 1);
	assert_non_null(strstr(text, " level=info event=target message=\"name "
				     "<x>\\u000a time=0 level=error\\u001b[31m "
				     "\\\"q\\\" \\\\ \ufffd\"\n"));
	assert_memory_equal(text, "time=20", 7);
}

static void json_lines_are_objects(void **state)
{
	char text[2000];

	(void)state;
	fgt_log_set("info", "json");
	fgt_log(FGT_LOG_WARNING, "odd", "a \"b\"");
	(void)read_log(text, sizeof(text));
	assert_memory_equal(text, "{\"time\":\"20", 11);
	assert_non_null(strstr(text, "\",\"level\":\"warning\",\"event\":"
				     "\"odd\",\"message\":\"a \\\"b\\\"\"}\n"));
}

static void levels_below_the_threshold_are_silent(void **state)
{
	char text[2000];

	(void)state;
	fgt_log_set("warning", "logfmt");
	fgt_log(FGT_LOG_INFO, "quiet", "no");
	fgt_log(FGT_LOG_DEBUG, "quiet", "no");
	fgt_log(FGT_LOG_ERROR, "loud", "yes");
	(void)read_log(text, sizeof(text));
	assert_int_equal(count_lines(text), 1);
	assert_non_null(strstr(text, "event=loud"));
}

/* The allowance grows by a line in 100 ms. */
static void log_until_written(void)
{
	struct pollfd log = { .fd = ends[0], .events = POLLIN };
	int tries = 0;

	do {
		fgt_log(FGT_LOG_INFO, "flood", "over");
	} while (poll(&log, 1, 50) == 0 && ++tries < 20);
}

static void flood_is_bounded_and_counted(void **state)
{
	char text[65536];
	size_t lines;

	(void)state;
	for (int i = 0; i < 1000; i++)
		fgt_log(FGT_LOG_INFO, "flood", "%d", i);
	/* Another event has its own allowance. */
	fgt_log(FGT_LOG_ERROR, "fire", "heard");
	(void)read_log(text, sizeof(text));
	lines = count_lines(text);
	assert_in_range(lines, 51, 71);
	assert_non_null(strstr(text, "event=fire"));
	log_until_written();
	(void)read_log(text, sizeof(text));
	assert_non_null(strstr(text, "left_out=9"));
}

static void longest_message_fits_a_line(void **state)
{
	char text[8192], message[5000];

	(void)state;
	memset(message, '\x01', sizeof(message) - 1);
	message[sizeof(message) - 1] = 0;
	fgt_log(FGT_LOG_INFO, "long", "%s", message);
	assert_in_range(read_log(text, sizeof(text)), 3000, 4000);
	assert_int_equal(count_lines(text), 1);
	assert_non_null(strstr(text, "\\u0001\"\n"));
}

static void full_pipe_is_not_waited_for(void **state)
{
	char block[4096] = { 0 };

	(void)state;
	(void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
	while (write(ends[1], block, sizeof(block)) > 0)
		;
	(void)fcntl(ends[1], F_SETFL, 0);
	/* Would hang here for ever. */
	fgt_log(FGT_LOG_INFO, "blocked", "?");
}

static void failed_delivery_warns_after_1_2_4_8_tries(void **state)
{
	char text[8192];

	(void)state;
	for (unsigned int tries = 1; tries <= 9; tries++) {
		const struct fgt_delivery_about about = { 1, "x", tries };

		fgt_delivery_log_retry(&about, 2, 20, "down");
		(void)read_log(text, sizeof(text));
		assert_int_equal(count_lines(text), tries == 1 || tries == 2 ||
							    tries == 4 ||
							    tries == 8);
	}
	fgt_delivery_log_given_up(
		&(const struct fgt_delivery_about){ 1, "x", 9 }, "there",
		"down");
	(void)read_log(text, sizeof(text));
	assert_non_null(strstr(text, "'x' to there after 9 tries: down"));
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOG_TEST(hostile_name_stays_on_its_line),
		LOG_TEST(json_lines_are_objects),
		LOG_TEST(levels_below_the_threshold_are_silent),
		LOG_TEST(flood_is_bounded_and_counted),
		LOG_TEST(longest_message_fits_a_line),
		LOG_TEST(full_pipe_is_not_waited_for),
		LOG_TEST(failed_delivery_warns_after_1_2_4_8_tries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
