/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profile chunks: all of one to the byte, what a series of them has
 * together. Whole files are checked against Relay's rules by
 * tests/integration/test_viewers.sh.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ringbuf/slice/pace.h"
#include "tests/unit/upload/sentry_kit.h"
#include "upload/format/sentry/sentry_chunk.h"

#define PROFILER_ID "fedcba9876543210fedcba9876543210"

/* From the second line on: the first one has the time of sending. */
static void a_chunk_is_these_bytes(void **state)
{
	static const char expected[] =
		"\n{\"type\":\"profile_chunk\",\"length\":824,"
		"\"content_type\":\"application/json\","
		"\"platform\":\"native\"}\n"
		"{\"version\":\"2\","
		"\"chunk_id\":\"0123456789abcdef0123456789abcdef\","
		"\"profiler_id\":\"" PROFILER_ID "\","
		"\"client_sdk\":{\"name\":\"fgtrace.native\",\"version\":\"" FGT_VERSION
		"\"},\"platform\":\"native\",\"release\":\"app@1\","
		"\"debug_meta\":{\"images\":[{\"type\":\"symbolic\","
		"\"debug_id\":\"33323130-3534-3736-3839-616263646566\","
		"\"code_file\":\"/opt/app/bin/app\","
		"\"image_addr\":\"0x550000000000\",\"image_vmaddr\":\"0x0\","
		"\"image_size\":1048576}]},"
		"\"profile\":{\"frames\":[{\"function\":\"main\","
		"\"filename\":\"main.c\",\"abs_path\":\"/src/app/main.c\","
		"\"lineno\":1,\"package\":\"/opt/app/bin/app\","
		"\"instruction_addr\":\"0x550000001000\",\"in_app\":true},"
		"{\"function\":\"running\",\"in_app\":false}],"
		"\"stacks\":[[0,1]],"
		"\"samples\":[{\"stack_id\":0,\"thread_id\":\"4242\","
		"\"timestamp\":1767225600.000000},"
		"{\"stack_id\":0,\"thread_id\":\"4242\","
		"\"timestamp\":1767225600.010000}],"
		"\"thread_metadata\":{\"4242\":{\"name\":\"main\"}}}}\n";
	struct fgt_ring_slice *slice = fixture_new(2);
	const struct fgt_format_options options = {
		.release = "app@1",
		.event_id = "0123456789ABCDEF0123456789abcdef",
		.profiler_id = PROFILER_ID,
	};
	struct fixture_buffer buffer;

	(void)state;
	fixture_main(slice, 2, "main", FGT_STATE_RUNNING);
	buffer = sentry_write_chunk(slice, &options);
	assert_string_equal(strchr(buffer.bytes, '\n'), expected);
	assert_memory_equal(
		buffer.bytes,
		"{\"event_id\":\"0123456789abcdef0123456789abcdef\","
		"\"sdk\":{",
		53);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void ids_are_checked_and_random_by_default(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	const struct fgt_format_options wrong = { .profiler_id = "0123" };
	const struct fgt_format_options none = {
		.profiler_id = "00000000000000000000000000000000",
	};
	struct fixture_buffer a, b;
	struct fgt_sink sink = fixture_buffer_sink(&a);
	const char *id;

	(void)state;
	assert_int_equal(fgt_sentry_chunk_write(slice, &wrong, &sink), -EINVAL);
	assert_int_equal(fgt_sentry_chunk_write(slice, &none, &sink), -EINVAL);
	a = sentry_write_chunk(slice, NULL);
	b = sentry_write_chunk(slice, NULL);
	id = strstr(a.bytes, "\"profiler_id\":\"");
	assert_non_null(id);
	assert_memory_not_equal(id, strstr(b.bytes, "\"profiler_id\":\""), 47);
	id = strstr(a.bytes, "\"chunk_id\":\"");
	assert_memory_not_equal(id, strstr(b.bytes, "\"chunk_id\":\""), 44);
	fixture_buffer_done(&a);
	fixture_buffer_done(&b);
	fgt_ring_slice_free(slice);
}

/* Counts samples of a chunk and returns its first and last time, in µs. */
static unsigned int read_times(const char *json, uint64_t *ret_first_us,
			       uint64_t *ret_last_us)
{
	unsigned int count = 0;

	while ((json = strstr(json, "\"timestamp\":"))) {
		unsigned long long seconds, us;

		assert_int_equal(sscanf(json, "\"timestamp\":%llu.%6llu}",
					&seconds, &us),
				 2);
		*ret_last_us = seconds * 1000000 + us;
		if (!count++)
			*ret_first_us = *ret_last_us;
		json++;
	}
	return count;
}

static struct fixture_buffer write_part(const struct fgt_ring_slice *slice,
					const struct fgt_sentry_chunk_ticks *at)
{
	const struct fgt_format_options options = { .profiler_id =
							    PROFILER_ID };
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	assert_int_equal(
		fgt_sentry_chunk_write_ticks(slice, &options, at, &sink), 0);
	return buffer;
}

/* 70 s; each sample lasts until the next one, also across chunks. */
static void long_slices_become_chunks_without_a_hole(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(7001);
	struct fgt_sentry_chunk_ticks at = { 0, 0 };
	uint64_t first_us, last_us, end_us = FIXTURE_WALL_NS / 1000;
	unsigned int chunks = 0, samples = 0;

	(void)state;
	slice->anchors[0].wall_ns = FIXTURE_WALL_NS;
	fixture_main(slice, 3500, "main;early", FGT_STATE_RUNNING);
	fixture_run(slice, 0, 3500, 3501, fixture_stack(slice, "main;late"),
		    FGT_STATE_RUNNING);
	while (fgt_sentry_chunk_next(slice, &at)) {
		struct fixture_buffer buffer = write_part(slice, &at);

		samples += read_times(buffer.bytes, &first_us, &last_us);
		assert_int_equal(first_us, end_us);
		assert_true(last_us - first_us <= 30000000);
		assert_non_null(strstr(buffer.bytes, PROFILER_ID));
		/* What only other chunks use is not carried along. */
		assert_int_equal(!strstr(buffer.bytes, "\"early\""),
				 chunks == 2);
		assert_int_equal(!strstr(buffer.bytes, "\"late\""),
				 chunks == 0);
		fixture_buffer_done(&buffer);
		end_us = last_us;
		chunks++;
	}
	assert_int_equal(chunks, 3);
	assert_int_equal(samples, 7001 + 2);
	assert_int_equal(end_us, FIXTURE_WALL_NS / 1000 + 70000000);
	fgt_ring_slice_free(slice);
}

/* 100 threads with another stack at each tick of 20 s. */
static void many_samples_become_chunks_of_less_than_10_mib(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2001);
	const uint32_t stacks[] = { fixture_stack(slice, "main;a"),
				    fixture_stack(slice, "main;b") };
	struct fgt_sentry_chunk_ticks at = { 0, 0 };
	unsigned int chunks = 0;
	uint32_t last = 0;

	(void)state;
	for (uint32_t thread = 0; thread < 100; thread++) {
		fixture_thread(slice, 4242 + (int)thread, "worker");
		for (uint32_t tick = 0; tick < 2001; tick++)
			fixture_run(slice, thread, tick, 1, stacks[tick % 2],
				    FGT_STATE_RUNNING);
	}
	assert_false(fgt_sentry_chunk_is_one(slice));
	while (fgt_sentry_chunk_next(slice, &at)) {
		struct fixture_buffer buffer = write_part(slice, &at);

		assert_true(buffer.len < 10u << 20);
		fixture_buffer_done(&buffer);
		assert_int_equal(at.first, last);
		last = at.last;
		chunks++;
	}
	assert_int_equal(chunks, 2);
	assert_int_equal(last, 2000);
	fgt_ring_slice_free(slice);
}

static void a_clock_that_was_set_does_not_disorder_chunks(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fgt_sentry_chunk_ticks at = { 35, 59 };
	struct fixture_buffer buffer = write_part(slice, &at);
	uint64_t first_us, last_us;

	(void)state;
	/* The second anchor, at tick 30, was stepped back by 100 ms. */
	read_times(buffer.bytes, &first_us, &last_us);
	assert_int_equal(first_us, FIXTURE_WALL_NS / 1000 + 350000);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void chunks_skip_a_time_without_samples(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(6);
	struct fgt_sentry_chunk_ticks at = { 0, 0 };

	(void)state;
	for (uint32_t i = 3; i < 6; i++) /* suspended for a minute */
		slice->tick_ns[i] += 60000000000u;
	slice->tick_ns[5] += 60000000000u;
	assert_true(fgt_sentry_chunk_next(slice, &at));
	assert_int_equal(at.first, 0);
	assert_int_equal(at.last, 2);
	assert_true(fgt_sentry_chunk_next(slice, &at));
	assert_int_equal(at.first, 3);
	assert_int_equal(at.last, 4);
	assert_false(fgt_sentry_chunk_next(slice, &at));
	fgt_ring_slice_free(slice);
	slice = fixture_new(1);
	at = (struct fgt_sentry_chunk_ticks){ 0, 0 };
	assert_false(fgt_sentry_chunk_next(slice, &at));
	fgt_ring_slice_free(slice);
}

static void chunk_without_two_samples_of_a_thread_is_no_data(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(10);
	const struct fgt_sentry_chunk_ticks at = { 4, 9 };
	const struct fgt_format_options options = { .dsn = NULL };
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	(void)state;
	fixture_main(slice, 5, "main", FGT_STATE_RUNNING);
	assert_int_equal(
		fgt_sentry_chunk_write_ticks(slice, &options, &at, &sink),
		-ENODATA);
	assert_int_equal(buffer.len, 0);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* Ticks that stand for more lie further apart: the times weigh them. */
static void ticks_at_a_lowered_rate_keep_their_times(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(4);
	struct fixture_buffer buffer;

	(void)state;
	assert_int_equal(fgt_pace_add(slice, 1, 8), 0);
	slice->tick_ns[2] = slice->tick_ns[1] + 8 * FIXTURE_PERIOD_NS;
	slice->tick_ns[3] = slice->tick_ns[2] + 8 * FIXTURE_PERIOD_NS;
	fixture_main(slice, 4, "main", FGT_STATE_RUNNING);
	buffer = sentry_write_chunk(slice, NULL);
	assert_non_null(strstr(buffer.bytes, "600.010000},"));
	assert_non_null(strstr(buffer.bytes, "600.090000},"));
	assert_non_null(strstr(buffer.bytes, "600.170000}]"));
	assert_null(strstr(buffer.bytes, "[gap"));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chunk_is_these_bytes),
		cmocka_unit_test(ids_are_checked_and_random_by_default),
		cmocka_unit_test(long_slices_become_chunks_without_a_hole),
		cmocka_unit_test(
			many_samples_become_chunks_of_less_than_10_mib),
		cmocka_unit_test(a_clock_that_was_set_does_not_disorder_chunks),
		cmocka_unit_test(chunks_skip_a_time_without_samples),
		cmocka_unit_test(
			chunk_without_two_samples_of_a_thread_is_no_data),
		cmocka_unit_test(ticks_at_a_lowered_rate_keep_their_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
