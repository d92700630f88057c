/* SPDX-License-Identifier: Apache-2.0 */
/* Which tasks and spans a Sentry transaction gets, and below what. */
#include "upload/format/sentry/sentry_envelope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ringbuf/spans/span_log.h"
#include "tests/unit/ringbuf/slice_fixture.h"

#define MS UINT64_C(1000000)

static struct fixture_buffer put(const struct fgt_ring_slice *slice,
				 int begin_ms, int end_ms,
				 const struct fgt_thread_run *thread_runs,
				 size_t count)
{
	const struct fgt_sentry_spans about = {
		.slice = slice,
		.begin_ns = FIXTURE_START_NS + (uint64_t)begin_ms * MS,
		.end_ns = FIXTURE_START_NS + (uint64_t)end_ms * MS,
		.begin_wall_ns = FIXTURE_WALL_NS,
		.trace_id = "0123456789abcdef0123456789abcdef",
		.span_id = "1000000000000000",
		.thread_runs = thread_runs,
		.thread_run_count = count,
	};
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);
	struct fgt_json json;

	assert_true(fgt_slice_is_valid(slice));
	fgt_json_init(&json, &sink);
	fgt_json_begin_object(&json, NULL);
	assert_int_equal(fgt_sentry_spans_put(&about, &json), 0);
	fgt_json_end_object(&json);
	assert_int_equal(fgt_json_finish(&json), 0);
	return buffer;
}

static void span_is_written_with_all_fields(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);
	struct fixture_buffer buffer;

	(void)state;
	fixture_task(slice, 1, "task#0", 10, 90, 0);
	fixture_span(slice, 0, 0, "query", 20, 30);
	fixture_label(slice, 0, "table", "users");
	slice->spans[0].number = 0x600001;
	buffer = put(slice, 0, 100, NULL, 0);
	assert_non_null(strstr(
		buffer.bytes,
		"{\"trace_id\":\"0123456789abcdef0123456789abcdef\","
		"\"span_id\":\"1000000000600001\","
		"\"parent_span_id\":\"1000000000200000\",\"op\":\"span\","
		"\"description\":\"query\",\"status\":\"ok\","
		"\"start_timestamp\":1767225600.020000,"
		"\"timestamp\":1767225600.030000,\"data\":{\"thread.id\":"
		"\"4243\",\"fgtrace.id\":\"100O\",\"table\":\"users\"}}"));
	/* The task is below the transaction itself. */
	assert_non_null(strstr(buffer.bytes,
			       "\"span_id\":\"1000000000200000\","
			       "\"parent_span_id\":\"1000000000000000\","
			       "\"op\":\"task\""));
	fixture_buffer_done(&buffer);
}

static void only_later_spans_of_its_threads_are_written(void **state)
{
	const struct fgt_thread_run thread_runs[] = { { .tid = 4243 } };
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);
	struct fixture_buffer buffer;

	(void)state;
	fixture_task(slice, 1, "task#0", 10, 90, 0); /* of another thread */
	fixture_span(slice, 0, 0, "before", 15, 40);
	fixture_span(slice, 0, 0, "since", 50, 80);
	buffer = put(slice, 20, 70, thread_runs, 1);
	assert_int_equal(fixture_count(buffer.bytes, "\"op\""), 1);
	assert_non_null(strstr(buffer.bytes, "\"description\":\"since\""));
	/* The span around it is not written: its parent is the transaction. */
	assert_int_equal(
		fixture_count(buffer.bytes,
			      "\"parent_span_id\":\"1000000000000000\""),
		1);
	/* It ends with the transaction at the latest. */
	assert_non_null(
		strstr(buffer.bytes, "\"timestamp\":1767225600.050000"));
	fixture_buffer_done(&buffer);
}

static void spans_before_and_after_its_work_are_left_out(void **state)
{
	const struct fgt_thread_run thread_runs[] = {
		{ 4243, FIXTURE_START_NS + 20 * MS, FIXTURE_START_NS + 40 * MS }
	};
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);
	struct fixture_buffer buffer;

	(void)state;
	fixture_task(slice, 1, "task#0", 1, 90, 0);
	fixture_span(slice, 0, 0, "before", 5, 15);
	fixture_span(slice, 0, 0, "across", 18, 30);
	fixture_span(slice, 0, 0, "in", 31, 39);
	fixture_span(slice, 0, 0, "after", 41, 60);
	buffer = put(slice, 0, 70, thread_runs, 1);
	assert_int_equal(fixture_count(buffer.bytes, "\"op\":\"span\""), 2);
	assert_non_null(strstr(buffer.bytes, "\"description\":\"across\""));
	assert_non_null(strstr(buffer.bytes, "\"description\":\"in\""));
	fixture_buffer_done(&buffer);
}

/* As the sampler saw them: the transaction itself, a span of an SDK in the same
 * trace, and another trace. */
static void contexts_of_threads_are_spans_of_their_trace(void **state)
{
	const struct fgt_thread_run thread_runs[] = { { .tid = 4243 } };
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);
	struct fixture_buffer buffer;

	(void)state;
	fixture_task(slice, 1, "contexts", 10, 90, 0);
	fixture_span(slice, 0, 0, "itself", 20, 30);
	fixture_label(slice, 0, "span_id", "1000000000000000");
	fixture_label(slice, 0, "trace_id", "0123456789abcdef0123456789abcdef");
	slice->tasks[0].number |= FGT_NUMBER_OBSERVED;
	slice->spans[0].number |= FGT_NUMBER_OBSERVED;
	buffer = put(slice, 0, 100, thread_runs, 1);
	assert_int_equal(fixture_count(buffer.bytes, "\"op\""), 0);
	fixture_buffer_done(&buffer);
	fixture_span(slice, 0, 0, "of its trace", 40, 50);
	fixture_label(slice, 1, "span_id", "2000000000000000");
	fixture_label(slice, 1, "trace_id", "0123456789abcdef0123456789abcdef");
	slice->spans[1].number |= FGT_NUMBER_OBSERVED;
	fixture_span(slice, 0, 0, "of another", 60, 70);
	fixture_label(slice, 2, "span_id", "3000000000000000");
	fixture_label(slice, 2, "trace_id", "ffffffffffffffffffffffffffffffff");
	slice->spans[2].number |= FGT_NUMBER_OBSERVED;
	buffer = put(slice, 0, 100, thread_runs, 1);
	assert_int_equal(fixture_count(buffer.bytes, "\"op\""), 1);
	assert_non_null(strstr(buffer.bytes, "of its trace"));
	fixture_buffer_done(&buffer);
	/* A slice without a transaction of the library has all. */
	buffer = put(slice, 0, 100, NULL, 0);
	assert_int_equal(fixture_count(buffer.bytes, "\"op\""), 4);
	fixture_buffer_done(&buffer);
}

static void longest_of_too_many_spans_are_written(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);
	struct fixture_buffer buffer;

	(void)state;
	fixture_task(slice, 1, "task#0", 0, 90, 0);
	for (uint64_t i = 0; i < 1500; i++) {
		uint32_t span = fixture_span(slice, 0, 0,
					     i % 2 ? "long" : "short", 1, 1);

		slice->spans[span].begin_ns += i * 20000;
		slice->spans[span].end_ns =
			slice->spans[span].begin_ns + 5000 + i % 2 * 5000;
	}
	buffer = put(slice, 0, 100, NULL, 0);
	assert_int_equal(fixture_count(buffer.bytes, "\"op\""),
			 FGT_SENTRY_SPANS_MAX);
	assert_int_equal(fixture_count(buffer.bytes, "\"long\""), 750);
	assert_int_equal(fixture_count(buffer.bytes, "\"op\":\"task\""), 1);
	fixture_buffer_done(&buffer);
}

static void labels_are_cut_before_the_transaction_is_too_large(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);
	struct fixture_buffer buffer;
	char value[4000];

	(void)state;
	memset(value, 1, sizeof(value)); /* six bytes each in JSON */
	fixture_task(slice, 1, "task#0", 0, 90, 0);
	for (uint32_t i = 0; i < 900; i++) {
		uint32_t span = fixture_span(slice, 0, 0, "span", 1, 2);

		slice->spans[span].begin_ns += i * MS / 100;
		slice->spans[span].end_ns =
			slice->spans[span].begin_ns + MS / 100;
		value[3999 - i] = 0;
		fixture_label(slice, span, "key", value);
	}
	buffer = put(slice, 0, 100, NULL, 0);
	assert_int_equal(fixture_count(buffer.bytes, "\"op\""), 901);
	assert_in_range(buffer.len, 600u << 10, 950u << 10);
	fixture_buffer_done(&buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(span_is_written_with_all_fields),
		cmocka_unit_test(only_later_spans_of_its_threads_are_written),
		cmocka_unit_test(spans_before_and_after_its_work_are_left_out),
		cmocka_unit_test(contexts_of_threads_are_spans_of_their_trace),
		cmocka_unit_test(longest_of_too_many_spans_are_written),
		cmocka_unit_test(
			labels_are_cut_before_the_transaction_is_too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
