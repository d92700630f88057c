/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of threads in a summary, and what a terminal shows of long names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/summary/summary.h"
#include "tests/unit/ringbuf/slice_fixture.h"

#define TICKS 100

/* Seven threads sleep, five poll for most of the time, one runs; another
 * seven have another name. */
static struct fgt_ring_slice *make_slice(void)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t stack = fixture_stack(slice, "main;wait");

	for (int32_t i = 0; i < 20; i++) {
		char name[16];
		uint32_t thread;

		snprintf(name, sizeof(name), "%s-%d", i < 13 ? "conn" : "aio",
			 i);
		thread = fixture_thread(slice, 100 + i, name);
		if (i == 12) {
			fixture_run(slice, thread, 0, TICKS, stack,
				    FGT_STATE_RUNNING);
			continue;
		}
		fixture_run(slice, thread, 0, 40, stack, FIXTURE_FUTEX);
		fixture_run(slice, thread, 40, 60, stack,
			    i < 7 ? FIXTURE_FUTEX : FIXTURE_EPOLL);
	}
	return slice;
}

static void threads_are_grouped_by_pattern_and_state(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = make_slice();
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	const struct fgt_summary_fate fate = { .bytes = 0 };
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);

	(void)state;
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	/* Seven of a kind are not many. */
	assert_int_equal(summary->group_count, 1);
	assert_string_equal(summary->groups[0].pattern, "conn-*");
	fgt_summary_print_tables(summary, 1, 1, file);
	fflush(file);
	assert_non_null(strstr(text, "\n  conn-*           13: futex 7, "
				     "epoll_wait 5, running 1\n"));
	rewind(file);
	assert_int_equal(fgt_summary_print_json(slice, summary, 1, &fate, file),
			 0);
	fclose(file);
	assert_non_null(strstr(text, "\"thread_groups\":[{\"pattern\":"
				     "\"conn-*\",\"threads\":13,"
				     "\"mostly_in\":[{\"state\":\"futex\","
				     "\"threads\":7},"));
	free(text);
}

static void equal_threads_are_in_the_order_of_their_names(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = make_slice();
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;

	(void)state;
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	assert_string_equal(summary->threads[0].name, "conn-12");
	for (uint32_t i = 2; i < summary->thread_count; i++)
		assert_true(strcmp(summary->threads[i - 1].name,
				   summary->threads[i].name) < 0);
}

static void expect_one_write(const char *stack, const char *other)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	FGT_AUTO(fgt_summary_free) struct fgt_summary *summary = NULL;
	uint32_t thread = fixture_thread(slice, 1, "t");

	fixture_run(slice, thread, 0, 60, fixture_stack(slice, stack),
		    FGT_STATE_RUNNING);
	fixture_run(slice, thread, 60, 40, fixture_stack(slice, other),
		    FGT_STATE_RUNNING);
	assert_int_equal(fgt_summary_new(slice, &summary), 0);
	assert_int_equal(summary->function_count, 2);
	assert_string_equal(summary->functions[0].name, "write");
	assert_int_equal(summary->functions[0].self, TICKS);
	assert_string_equal(summary->functions[1].name, "main");
}

static void one_function_of_libc_is_one_row(void **state)
{
	(void)state;
	expect_one_write("_start;main;libc.so.6!write",
			 "_start;main;libc.so.6!__GI___libc_write");
}

static void aliases_without_the_plain_name_are_one_row(void **state)
{
	(void)state;
	expect_one_write("main;libc.so.6!__GI___write",
			 "main;libc.so.6!__GI___libc_write");
}

static void names_are_cut_on_a_terminal(void **state)
{
	static const char expected[] = "abcde...|aaaa\xc3\xa4...|";
	char text[64] = { 0 };
	int ends[2];
	FILE *file;

	(void)state;
	assert_int_equal(openpty(&ends[0], &ends[1], NULL, NULL, NULL), 0);
	file = fdopen(ends[1], "w");
	assert_non_null(file);
	fgt_print_text(file, "abcdefghij", 8);
	fputc('|', file);
	fgt_print_text(file, "aaaa\xc3\xa4zzzz", 8);
	fputc('|', file);
	fflush(file);
	assert_int_equal(read(ends[0], text, sizeof(text) - 1),
			 sizeof(expected) - 1);
	assert_string_equal(text, expected);
	fclose(file);
	close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_are_grouped_by_pattern_and_state),
		cmocka_unit_test(equal_threads_are_in_the_order_of_their_names),
		cmocka_unit_test(one_function_of_libc_is_one_row),
		cmocka_unit_test(aliases_without_the_plain_name_are_one_row),
		cmocka_unit_test(names_are_cut_on_a_terminal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
