/* SPDX-License-Identifier: Apache-2.0 */
/* Spans of traces: which one a thread worked for at a tick. */
#include "upload/format/parts/trace_links.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/slice_fixture.h"

#define TRACE "0123456789abcdef0123456789abcdef"
#define SPAN  "00000000000000a"

/* The links of ticks 0 to 9 of a thread as digits of their span ids, '.': none.
 * Each part ends at tick 10, or before another answer. */
static void assert_links(const struct fgt_trace_links *links, int32_t tid,
			 const char *expected)
{
	char found[11] = "..........";
	uint32_t end;

	for (uint32_t tick = 0; tick < 10; tick = end) {
		uint32_t link = fgt_trace_links_at(links, tid, tick, 10, &end);

		assert_true(end > tick && end <= 10);
		for (uint32_t i = tick; link && i < end; i++)
			found[i] = fgt_trace_links_text(
				links, link)[FGT_TRACE_LINK_LEN - 1];
	}
	assert_string_equal(found, expected);
}

static void assert_links_of(const struct fgt_ring_slice *slice,
			    const struct fgt_transaction_facts *facts,
			    const char *expected)
{
	struct fgt_trace_links links;

	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(fgt_trace_links_init(&links, slice, facts), 0);
	assert_links(&links, 4242, expected);
	fgt_trace_links_done(&links);
}

/* Ten ticks, 10 ms apart, of two threads; a task from 0 to 200 ms. */
static struct fgt_ring_slice *new_slice(void)
{
	struct fgt_ring_slice *slice = fixture_new(10);

	for (int32_t tid = 4242; tid < 4244; tid++)
		fixture_run(slice, fixture_thread(slice, tid, "main"), 0, 10,
			    fixture_stack(slice, "main"), FGT_STATE_RUNNING);
	fixture_task(slice, 0, "work#0", 0, 200, 0);
	return slice;
}

/* A span of thread 4242 with ids that end in the digit; 0: without. */
static uint32_t add_span(struct fgt_ring_slice *slice, uint32_t depth,
			 int begin_ms, int end_ms, char digit)
{
	uint32_t span = fixture_span(slice, 0, depth, "span", begin_ms, end_ms);
	char id[] = SPAN "?";

	slice->spans[span].tid = 4242;
	if (!digit)
		return span;
	id[strlen(SPAN)] = digit;
	fixture_label(slice, span, "span_id", id);
	fixture_label(slice, span, "trace_id", TRACE);
	return span;
}

static void the_innermost_span_with_ids_counts(void **state)
{
	struct fgt_ring_slice *slice = new_slice();

	(void)state;
	add_span(slice, 0, 10, 80, '1');
	add_span(slice, 1, 20, 30, 0); /* has those around it */
	add_span(slice, 1, 40, 60, '2');
	add_span(slice, 2, 50, 50, '3');
	assert_links_of(slice, NULL, ".11123211.");
	fgt_ring_slice_free(slice);
}

static void another_thread_has_no_link(void **state)
{
	struct fgt_ring_slice *slice = new_slice();
	struct fgt_trace_links links;

	(void)state;
	add_span(slice, 0, 10, 80, '1');
	assert_int_equal(fgt_trace_links_init(&links, slice, NULL), 0);
	assert_links(&links, 4242, ".11111111.");
	assert_links(&links, 4243, "..........");
	assert_links(&links, 1, "..........");
	fgt_trace_links_done(&links);
	fgt_ring_slice_free(slice);
}

/* A span inside of another one, which another thread began. */
static void spans_of_a_task_inherit_across_threads(void **state)
{
	struct fgt_ring_slice *slice = new_slice();
	struct fgt_trace_links links;
	uint32_t inner;

	(void)state;
	add_span(slice, 0, 10, 80, '1');
	inner = add_span(slice, 1, 30, 50, 0);
	slice->spans[inner].tid = 4243;
	assert_int_equal(fgt_trace_links_init(&links, slice, NULL), 0);
	assert_links(&links, 4242, ".11111111.");
	assert_links(&links, 4243, "...111....");
	/* One id for both. */
	assert_int_equal(links.ids.count, 2);
	fgt_trace_links_done(&links);
	fgt_ring_slice_free(slice);
}

static void spans_that_have_not_ended_go_on(void **state)
{
	struct fgt_ring_slice *slice = new_slice();

	(void)state;
	slice->tasks[0].end_ns = 0;
	add_span(slice, 0, 35, 0, '1');
	assert_links_of(slice, NULL, "....111111");
	fgt_ring_slice_free(slice);
}

/* Tasks take turns on a thread: what began last counts, until it ends. */
static void spans_that_overlap_take_turns(void **state)
{
	struct fgt_ring_slice *slice = new_slice();
	uint32_t other = fixture_task(slice, 1, "other#0", 0, 200, 0), span;

	(void)state;
	add_span(slice, 0, 10, 50, '1');
	span = add_span(slice, 0, 30, 70, '2');
	slice->spans[span].task = other;
	assert_links_of(slice, NULL, ".1122222..");
	fgt_ring_slice_free(slice);
}

static void malformed_ids_are_no_link(void **state)
{
	static const char *const ids[][2] = {
		{ TRACE, "00000000000000a" },
		{ TRACE, "0000000000000000" },
		{ TRACE "0", "00000000000000a1" },
		{ "00000000000000000000000000000000", "00000000000000a1" },
		{ "0123456789abcdef0123456789abcdeg", "00000000000000a1" },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct fgt_ring_slice *slice = new_slice();
		uint32_t span = add_span(slice, 0, 10, 80, 0);

		fixture_label(slice, span, "span_id", ids[i][1]);
		fixture_label(slice, span, "trace_id", ids[i][0]);
		assert_links_of(slice, NULL, "..........");
		fgt_ring_slice_free(slice);
	}
}

static void ids_are_lower_case(void **state)
{
	struct fgt_ring_slice *slice = new_slice();
	uint32_t span = add_span(slice, 0, 10, 80, 0);
	struct fgt_trace_links links;

	(void)state;
	fixture_label(slice, span, "span_id", "00000000000000AB");
	fixture_label(slice, span, "trace_id",
		      "0123456789ABCDEF0123456789ABCDEF");
	assert_int_equal(fgt_trace_links_init(&links, slice, NULL), 0);
	assert_string_equal(fgt_trace_links_text(&links, 1),
			    TRACE "00000000000000ab");
	fgt_trace_links_done(&links);
	fgt_ring_slice_free(slice);
}

static void threads_of_a_transaction_have_its_ids(void **state)
{
	static const struct fgt_thread_run runs[] = {
		{ .tid = 4242, .to_ns = FIXTURE_START_NS + 35000000 },
		{ .tid = 4242, .from_ns = FIXTURE_START_NS + 60000000 },
	};
	struct fgt_transaction_facts facts = {
		.name = "GET /",
		.trace_id = TRACE,
		.span_id = SPAN "7",
		.begin_ns = FIXTURE_START_NS + 10000000,
		.end_ns = FIXTURE_START_NS + 80000000,
		.thread_runs = runs,
		.thread_run_count = 2,
	};
	struct fgt_ring_slice *slice = new_slice();

	(void)state;
	assert_links_of(slice, &facts, ".777..777.");
	add_span(slice, 0, 20, 70, '1');
	/* What began last counts. */
	assert_links_of(slice, &facts, ".71111777.");
	fgt_ring_slice_free(slice);
	slice = new_slice();
	facts.thread_run_count = 0; /* all threads */
	assert_links_of(slice, &facts, ".77777777.");
	facts.name = NULL;
	assert_links_of(slice, &facts, "..........");
	fgt_ring_slice_free(slice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_innermost_span_with_ids_counts),
		cmocka_unit_test(another_thread_has_no_link),
		cmocka_unit_test(spans_of_a_task_inherit_across_threads),
		cmocka_unit_test(spans_that_have_not_ended_go_on),
		cmocka_unit_test(spans_that_overlap_take_turns),
		cmocka_unit_test(malformed_ids_are_no_link),
		cmocka_unit_test(ids_are_lower_case),
		cmocka_unit_test(threads_of_a_transaction_have_its_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
