/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of events of the samples that pass a filter. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/tail/tail.h"
#include "tests/unit/ringbuf/slice_fixture.h"

#define TICKS 30

/* Two workers, one of which waits in the middle, a mark in each, and a task that
 * goes on after its span. */
static struct fgt_ring_slice *sample(void)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t work = fixture_stack(slice, "main;work");
	uint32_t wait = fixture_stack(slice, "main;lookup");

	fixture_thread(slice, 10, "worker-1");
	fixture_thread(slice, 11, "worker-2");
	fixture_run(slice, 0, 0, 10, work, FGT_STATE_RUNNING);
	fixture_run(slice, 0, 10, 10, wait, FIXTURE_FUTEX);
	fixture_run(slice, 0, 20, 10, work, FGT_STATE_RUNNING);
	fixture_run(slice, 1, 0, TICKS, work, FGT_STATE_RUNNING);
	fixture_mark(slice, 50, "one", 10);
	fixture_mark(slice, 60, "two", 11);
	fixture_span(slice, fixture_task(slice, 0, "job#0", 20, 0, 0), 0,
		     "parse", 30, 90);
	assert_true(fgt_slice_is_valid(slice));
	return slice;
}

/* The lines of both forms together hold as many of each part. */
static void check(enum fgt_tail_form form, const struct fgt_filter *filter,
		  const char *const parts[3], const unsigned int counts[3])
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = sample();
	FGT_AUTO(fgt_tail_free) struct fgt_tail *tail = NULL;
	struct fixture_buffer buffer = { 0 };
	struct fgt_sink sink = fixture_buffer_sink(&buffer);
	struct fgt_why why = { "" };

	assert_int_equal(fgt_tail_new(form, filter, &tail, &why), 0);
	assert_int_equal(fgt_tail_feed(tail, slice, &sink), 0);
	for (int i = 0; i < 3; i++)
		if (fixture_count(buffer.bytes, parts[i]) != counts[i])
			fail_msg("%u × %s in %s",
				 fixture_count(buffer.bytes, parts[i]),
				 parts[i], buffer.bytes);
	fixture_buffer_done(&buffer);
}

static void thread_is_in_the_stream_while_it_passes(void **state)
{
	const struct fgt_filter waiting = { .state = "futex" };
	const struct fgt_filter in_lookup = { .function = "lookup" };
	const struct fgt_filter running = { .is_running = true };
	const char *const lines[] = { "\"state\"", "\"left\":true",
				      "\"lookup\"" };
	const char *const events[] = { "\"ph\":\"B\"", "\"ph\":\"E\"",
				       "\"name\":\"lookup\"" };

	(void)state;
	check(FGT_TAIL_JSON, &waiting, lines, (unsigned int[]){ 1, 1, 1 });
	check(FGT_TAIL_JSON, &in_lookup, lines, (unsigned int[]){ 1, 1, 1 });
	check(FGT_TAIL_JSON, &running, lines, (unsigned int[]){ 3, 1, 0 });
	/* Two functions and the state. */
	check(FGT_TAIL_CHROME, &waiting, events, (unsigned int[]){ 3, 3, 2 });
	check(FGT_TAIL_CHROME, &running, events, (unsigned int[]){ 9, 3, 0 });
}

static void threads_are_chosen_by_name(void **state)
{
	const struct fgt_filter all = { .thread = NULL };
	const struct fgt_filter second = { .thread = "*-2" };
	const char *const lines[] = { "\"state\"", "\"one\"", "\"two\"" };

	(void)state;
	check(FGT_TAIL_JSON, &all, lines, (unsigned int[]){ 4, 1, 1 });
	check(FGT_TAIL_JSON, &second, lines, (unsigned int[]){ 1, 0, 1 });
}

static void tasks_and_spans_begin_and_end(void **state)
{
	const struct fgt_filter all = { .thread = NULL };
	const char *const lines[] = { "\"task\":\"job#0\"",
				      "\"span\":\"parse\"",
				      "\"phase\":\"end\"" };
	const char *const events[] = { "\"cat\":\"task\"", "\"cat\":\"span\"",
				       "\"ph\":\"e\"" };

	(void)state;
	check(FGT_TAIL_JSON, &all, lines, (unsigned int[]){ 1, 2, 1 });
	check(FGT_TAIL_CHROME, &all, events, (unsigned int[]){ 1, 2, 1 });
}

/* The second slice, half a second later, does not have the second thread. */
static void thread_ends_after_its_last_tick(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *next = fixture_new(3 * TICKS);
	FGT_AUTO(fgt_tail_free) struct fgt_tail *tail = NULL;
	const struct fgt_filter all = { .thread = NULL };
	struct fixture_buffer buffer = { 0 };
	struct fgt_sink sink = fixture_buffer_sink(&buffer);
	struct fgt_why why = { "" };

	(void)state;
	fixture_thread(slice, 10, "stays");
	fixture_thread(slice, 11, "ends");
	fixture_run(slice, 0, 0, TICKS, fixture_stack(slice, "main"),
		    FGT_STATE_RUNNING);
	fixture_run(slice, 1, 0, 10, fixture_stack(slice, "main"),
		    FGT_STATE_RUNNING);
	fixture_thread(next, 10, "stays");
	fixture_run(next, 0, 0, 3 * TICKS, fixture_stack(next, "main"),
		    FGT_STATE_RUNNING);
	assert_int_equal(fgt_tail_new(FGT_TAIL_CHROME, &all, &tail, &why), 0);
	assert_int_equal(fgt_tail_feed(tail, slice, &sink), 0);
	assert_int_equal(fgt_tail_feed(tail, next, &sink), 0);
	assert_int_equal(fixture_count(buffer.bytes, "\"ph\":\"E\""), 2);
	assert_int_equal(fixture_count(buffer.bytes, "\"ph\":\"E\",\"ts\":"
						     "100000.000"),
			 2);
	fixture_buffer_done(&buffer);
}

static void idle_threads_are_refused(void **state)
{
	const struct fgt_filter busy = { .is_busy = true };
	struct fgt_tail *tail = NULL;
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(fgt_tail_new(FGT_TAIL_JSON, &busy, &tail, &why),
			 -EINVAL);
	assert_non_null(strstr(why.text, "leave out no-idle"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thread_is_in_the_stream_while_it_passes),
		cmocka_unit_test(threads_are_chosen_by_name),
		cmocka_unit_test(tasks_and_spans_begin_and_end),
		cmocka_unit_test(thread_ends_after_its_last_tick),
		cmocka_unit_test(idle_threads_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
