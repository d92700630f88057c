/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sentry envelopes of transactions of a program. Whole files are
 * checked against Relay's rules by tests/integration/test_transactions.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/upload/sentry_kit.h"
#include "upload/format/parts/thread_runs.h"

#define MS	 UINT64_C(1000000)
#define TRACE_ID "11112222333344445555666677778888"
#define SPAN_ID	 "1111222233334444"
#define PARENT	 "5555666677778888"

/* 100 ticks: threads 4242 "main", 4250 "worker", 4260 "stranger". */
static struct fgt_ring_slice *new_slice(uint32_t ticks)
{
	static const struct {
		int32_t tid;
		const char *name, *stack;
	} threads[] = {
		{ 4242, "main", "main;wait" },
		{ 4250, "worker", "main;work" },
		{ 4260, "stranger", "main;other" },
	};
	struct fgt_ring_slice *slice = fixture_new(ticks);

	fixture_image(slice, "/opt/app/bin/app", 0x550000000000ull,
		      "0123456789abcdef0123");
	for (size_t i = 0; i < 3; i++) {
		uint32_t thread =
			fixture_thread(slice, threads[i].tid, threads[i].name);

		fixture_run(slice, thread, 0, ticks,
			    fixture_stack(slice, threads[i].stack),
			    FGT_STATE_RUNNING);
	}
	return slice;
}

static struct fgt_transaction_facts facts_between(uint64_t from_ms,
						  uint64_t to_ms)
{
	return (struct fgt_transaction_facts){
		.name = "GET /cart",
		.op = "http.server",
		.status = "ok",
		.trace_id = TRACE_ID,
		.span_id = SPAN_ID,
		.begin_ns = FIXTURE_START_NS + from_ms * MS,
		.end_ns = FIXTURE_START_NS + to_ms * MS,
		.active_tid = 4250,
	};
}

static struct fixture_buffer
write_facts(const struct fgt_ring_slice *slice,
	    const struct fgt_transaction_facts *facts)
{
	const struct fgt_format_options options = { .facts = facts };

	return sentry_write(slice, &options);
}

static void assert_has(const struct fixture_buffer *buffer, const char *part,
		       unsigned int count)
{
	unsigned int found = fixture_count(buffer->bytes, part);

	if (found != count)
		fail_msg("%u times %s in %s", found, part, buffer->bytes);
}

static void facts_are_written(void **state)
{
	const struct fgt_tag tags[] = { { "signal", "SIGSEGV" },
					{ "cart", "7" },
					{ "cart", "8" } };
	struct fgt_ring_slice *slice = new_slice(100);
	struct fgt_transaction_facts facts = facts_between(0, 500);
	struct fixture_buffer buffer;

	(void)state;
	facts.status = "aborted";
	facts.level = "fatal";
	strcpy(facts.parent_span_id, PARENT);
	strcpy(facts.event_id, "0123456789abcdef0123456789abcdef");
	facts.tags = tags;
	facts.tag_count = 3;
	buffer = write_facts(slice, &facts);
	assert_has(&buffer, "\"transaction\":\"GET /cart\"", 1);
	assert_has(&buffer, "\"name\":\"GET /cart\"", 1);
	assert_has(&buffer, "\"op\":\"http.server\",\"status\":\"aborted\"", 1);
	assert_has(&buffer, "\"level\":\"fatal\"", 1);
	assert_has(&buffer, "\"trace_id\":\"" TRACE_ID "\"", 2);
	assert_has(&buffer,
		   "\"span_id\":\"" SPAN_ID "\",\"parent_span_id\":\"" PARENT
		   "\"",
		   1);
	assert_has(&buffer, "\"tags\":{\"signal\":\"SIGSEGV\",\"cart\":\"7\"}",
		   1);
	assert_has(&buffer, "\"0123456789abcdef0123456789abcdef\"", 3);
	assert_has(&buffer, "\"thread.id\":\"4250\",\"thread.name\":\"worker\"",
		   1);
	assert_has(&buffer, "\"active_thread_id\":\"4250\"", 1);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* Ticks are at 0, 10, 20 … ms. */
static void times_are_those_of_the_transaction(void **state)
{
	struct fgt_ring_slice *slice = new_slice(100);
	struct fgt_transaction_facts facts = facts_between(105, 147);
	struct fixture_buffer buffer = write_facts(slice, &facts);
	char samples[256];

	(void)state;
	assert_has(&buffer, "\"start_timestamp\":1767225600.105", 1);
	assert_has(&buffer, "\"timestamp\":1767225600.147", 1);
	assert_has(&buffer, "\"timestamp\":\"2026-01-01T00:00:00.105000000Z\"",
		   1);
	sentry_samples(buffer.bytes, 4250, samples, sizeof(samples));
	assert_non_null(strstr(samples, "@5 "));
	assert_string_equal(strrchr(samples, '@'), "@35");
	assert_int_equal(sentry_count_samples(buffer.bytes, 4250), 4);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void only_wanted_threads_are_written(void **state)
{
	const struct fgt_thread_run thread_runs[] = { { .tid = 4242 },
						      { .tid = 4250 },
						      { .tid = 9999 } };
	struct fgt_ring_slice *slice = new_slice(100);
	struct fgt_transaction_facts facts = facts_between(0, 500);
	struct fixture_buffer buffer;

	(void)state;
	facts.thread_runs = thread_runs;
	facts.thread_run_count = 3;
	buffer = write_facts(slice, &facts);
	assert_true(sentry_count_samples(buffer.bytes, 4242) > 0);
	assert_true(sentry_count_samples(buffer.bytes, 4250) > 0);
	assert_int_equal(sentry_count_samples(buffer.bytes, 4260), 0);
	assert_has(&buffer, "stranger", 0);
	assert_has(&buffer, "\"other\"", 0);
	assert_has(&buffer, "\"single_sample_threads\":0", 1);
	fixture_buffer_done(&buffer);
	facts.all_threads = 1;
	buffer = write_facts(slice, &facts);
	assert_true(sentry_count_samples(buffer.bytes, 4260) > 0);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* The worker works at 100 to 200 and 300 to 400 ms, main from 950 ms on. */
static void only_times_of_their_work_are_written(void **state)
{
	const struct fgt_thread_run thread_runs[] = {
		{ 4250, FIXTURE_START_NS + 300 * MS,
		  FIXTURE_START_NS + 400 * MS },
		{ 4242, FIXTURE_START_NS + 950 * MS, 0 },
		{ 4250, FIXTURE_START_NS + 100 * MS,
		  FIXTURE_START_NS + 200 * MS },
		/* Overlaps and is out of order: */
		{ 4250, FIXTURE_START_NS + 150 * MS,
		  FIXTURE_START_NS + 170 * MS },
		{ 4250, FIXTURE_START_NS + 160 * MS,
		  FIXTURE_START_NS + 200 * MS },
		{ 4250, FIXTURE_START_NS + 2 * MS, FIXTURE_START_NS + 1 * MS },
	};
	struct fgt_ring_slice *slice = new_slice(100);
	struct fgt_transaction_facts facts = facts_between(0, 990);
	struct fixture_buffer buffer;
	char samples[1024];

	(void)state;
	facts.thread_runs = thread_runs;
	facts.thread_run_count = sizeof(thread_runs) / sizeof(thread_runs[0]);
	buffer = write_facts(slice, &facts);
	/* One is the begin of the gap, the last one closes the thread. */
	assert_int_equal(sentry_count_samples(buffer.bytes, 4250),
			 11 + 1 + 11 + 1);
	assert_int_equal(sentry_count_samples(buffer.bytes, 4242), 5);
	assert_int_equal(sentry_count_samples(buffer.bytes, 4260), 0);
	sentry_samples(buffer.bytes, 4250, samples, sizeof(samples));
	assert_non_null(strstr(samples, "@100 "));
	assert_non_null(strstr(samples, "@200 "));
	assert_non_null(strstr(samples, " 2@210 1@300 "));
	assert_string_equal(strrchr(samples, '@'), "@410");
	assert_true(fgt_slice_is_valid(slice)); /* only a part was changed */
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* Several threads may have one tid, and a file may have any content. */
static void many_threads_of_one_tid_have_room(void **state)
{
	static struct fgt_thread_run thread_runs[FGT_TRANSACTION_THREAD_RUNS];
	struct fgt_ring_slice *slice = fixture_new(1000);
	struct fgt_transaction_facts facts = facts_between(0, 10000);
	struct fixture_buffer buffer;

	(void)state;
	fixture_image(slice, "/opt/app/bin/app", 0x550000000000ull,
		      "0123456789abcdef0123");
	for (int i = 0; i < 8; i++)
		fixture_run(slice, fixture_thread(slice, 4250, "same"), 0, 1000,
			    fixture_stack(slice, "main;work"),
			    FGT_STATE_RUNNING);
	for (uint64_t i = 0; i < FGT_TRANSACTION_THREAD_RUNS; i++)
		thread_runs[i] = (struct fgt_thread_run){
			4250, FIXTURE_START_NS + 30 * i * MS,
			FIXTURE_START_NS + (30 * i + 10) * MS
		};
	facts.thread_runs = thread_runs;
	facts.thread_run_count = FGT_TRANSACTION_THREAD_RUNS;
	assert_int_equal(fgt_thread_runs_clip(&facts, slice), 0);
	assert_int_equal(slice->run_count, 8 * FGT_TRANSACTION_THREAD_RUNS);
	buffer = write_facts(slice, &facts);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void absent_active_thread_is_replaced(void **state)
{
	struct fgt_ring_slice *slice = new_slice(100);
	struct fgt_transaction_facts facts = facts_between(0, 500);
	struct fixture_buffer buffer;

	(void)state;
	facts.active_tid = 9999;
	buffer = write_facts(slice, &facts);
	assert_has(&buffer, "\"active_thread_id\":\"42", 1);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void short_transaction_has_no_profile(void **state)
{
	const struct fgt_thread_run absent_thread[] = { { .tid = 9999 } };
	struct fgt_ring_slice *slice = new_slice(100);
	struct fgt_transaction_facts facts = facts_between(101, 109);
	struct fixture_buffer buffer = write_facts(slice, &facts);

	(void)state;
	assert_has(&buffer, "\"type\":\"transaction\",\"length\"", 1);
	assert_has(&buffer, "\"type\":\"profile\"", 0);
	assert_has(&buffer, "\"no_profile\"", 1);
	assert_has(&buffer, "\"thread.id\":\"4250\"", 1);
	fixture_buffer_done(&buffer);
	facts = facts_between(0, 500);
	facts.thread_runs = absent_thread;
	facts.thread_run_count = 1;
	buffer = write_facts(slice, &facts);
	assert_has(&buffer, "\"type\":\"profile\"", 0);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* Ticks missing at an end are no gap between two ticks. */
static void time_without_samples_is_noted(void **state)
{
	struct fgt_ring_slice *slice = new_slice(100);
	struct fgt_transaction_facts facts = facts_between(200, 1300);
	struct fixture_buffer buffer = write_facts(slice, &facts);

	(void)state;
	assert_has(&buffer,
		   "\"unsampled_end\":\"no samples of the last 0.310 s", 1);
	assert_has(&buffer, "\"unsampled_begin\"", 0);
	fixture_buffer_done(&buffer);
	facts = facts_between(200, 1000); /* the next tick was not due */
	buffer = write_facts(slice, &facts);
	assert_has(&buffer, "\"unsampled_", 0);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void profile_in_chunks_is_named(void **state)
{
	struct fgt_ring_slice *slice = new_slice(100);
	const struct fgt_transaction_facts facts = facts_between(0, 500);
	const struct fgt_format_options options = {
		.facts = &facts,
		.profiler_id = "aaaabbbbccccddddeeeeffff00001111",
	};
	struct fixture_buffer buffer = sentry_write(slice, &options);

	(void)state;
	assert_has(&buffer,
		   "\"profile\":{\"profiler_id\":"
		   "\"aaaabbbbccccddddeeeeffff00001111\"}",
		   1);
	assert_has(&buffer, "\"type\":\"profile\"", 0);
	assert_has(&buffer, "\"no_profile\"", 0);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* A crash has no times: at most the last 30 s. */
static void times_default_to_the_slice(void **state)
{
	struct fgt_ring_slice *slice = new_slice(4001);
	struct fgt_transaction_facts facts = facts_between(0, 0);
	struct fixture_buffer buffer;

	(void)state;
	facts.begin_ns = facts.end_ns = 0;
	buffer = write_facts(slice, &facts);
	assert_has(&buffer, "\"start_timestamp\":1767225610.0", 1);
	assert_has(&buffer, "\"timestamp\":1767225640.0", 1);
	assert_has(&buffer, "\"elapsed_since_start_ns\":\"30000000000\"", 3);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void malformed_ids_are_refused(void **state)
{
	struct fgt_ring_slice *slice = new_slice(100);
	struct fgt_transaction_facts facts = facts_between(0, 500);
	const struct fgt_format_options options = { .facts = &facts };
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	(void)state;
	strcpy(facts.trace_id, "xyz");
	assert_int_equal(
		fgt_format_write(slice, FGT_KIND_SENTRY, &options, &sink),
		-EINVAL);
	strcpy(facts.trace_id, TRACE_ID);
	strcpy(facts.span_id, "0000000000000000");
	assert_int_equal(
		fgt_format_write(slice, FGT_KIND_SENTRY, &options, &sink),
		-EINVAL);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(facts_are_written),
		cmocka_unit_test(times_are_those_of_the_transaction),
		cmocka_unit_test(only_wanted_threads_are_written),
		cmocka_unit_test(only_times_of_their_work_are_written),
		cmocka_unit_test(many_threads_of_one_tid_have_room),
		cmocka_unit_test(absent_active_thread_is_replaced),
		cmocka_unit_test(short_transaction_has_no_profile),
		cmocka_unit_test(time_without_samples_is_noted),
		cmocka_unit_test(profile_in_chunks_is_named),
		cmocka_unit_test(times_default_to_the_slice),
		cmocka_unit_test(malformed_ids_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
