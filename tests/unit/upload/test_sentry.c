/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Sentry envelope: framing, what is cut, what is shared. Whole files are
 * checked against Relay's rules by tests/integration/test_viewers.sh.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/upload/sentry_kit.h"
#include "upload/format/format.h"

static int try_sentry(const struct fgt_ring_slice *slice,
		      const struct fgt_format_options *options)
{
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);
	int r = fgt_format_write(slice, FGT_KIND_SENTRY, options, &sink);

	fixture_buffer_done(&buffer);
	return r;
}

static void assert_samples(const struct fgt_ring_slice *slice, int tid,
			   const char *expected)
{
	struct fixture_buffer buffer = sentry_write(slice, NULL);
	char samples[2048];

	sentry_samples(buffer.bytes, tid, samples, sizeof(samples));
	assert_string_equal(samples, expected);
	fixture_buffer_done(&buffer);
}

static void lengths_are_right_to_the_byte(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	const struct fgt_format_options options = {
		.release = "app@1 \xc3\xa4", /* bytes, not characters */
		.environment = "test",
		.transaction = "checkout \xff",
		.dsn = "https://0123456789abcdef0123456789abcdef@host/1",
	};
	struct fixture_buffer buffer = sentry_write(slice, &options);
	char *at = strchr(buffer.bytes, '\n');
	const char *const types[] = { "transaction", "profile" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		char type[16];
		unsigned long length;

		assert_int_equal(sscanf(at,
					"\n{\"type\":\"%15[^\"]\",\"length\":"
					"%lu,",
					type, &length),
				 2);
		assert_string_equal(type, types[i]);
		at = strchr(at + 1, '\n');
		assert_int_equal(at[1], '{');
		at += 1 + length;
		assert_int_equal(at[-1], '}');
		assert_int_equal(at[0], '\n');
	}
	assert_ptr_equal(at + 1, buffer.bytes + buffer.len);
	assert_non_null(
		strstr(buffer.bytes, "\"tags\":{\"trigger\":\"st\\\"uck\"}"));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void set_service(struct fgt_ring_slice *slice, size_t i,
			const char *text)
{
	fgt_service_set(&slice->process.service, i, text, strlen(text));
}

/* In the form that Sentry accepts. */
static void service_gives_release_and_environment(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fixture_buffer buffer;
	char text[256];

	(void)state;
	set_service(slice, FGT_SERVICE_NAME, "web/shop");
	set_service(slice, FGT_SERVICE_VERSION, "1.4\t");
	set_service(slice, FGT_SERVICE_ENVIRONMENT, "pre prod");
	buffer = sentry_write(slice, NULL);
	assert_int_equal(
		fixture_count(buffer.bytes, "\"release\":\"web_shop@1.4_\""),
		2);
	assert_int_equal(
		fixture_count(buffer.bytes, "\"environment\":\"pre_prod\""), 2);
	fixture_buffer_done(&buffer);
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	set_service(slice, FGT_SERVICE_NAME, text);
	set_service(slice, FGT_SERVICE_ENVIRONMENT, "None");
	buffer = sentry_write(slice, NULL);
	text[200] = '\0';
	assert_int_equal(fixture_count(buffer.bytes, text), 2);
	assert_int_equal(fixture_count(buffer.bytes, "\"environment\""), 0);
	text[200] = 'x';
	text[201] = '\0';
	assert_int_equal(fixture_count(buffer.bytes, text), 0);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void options_reach_both_items(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	const struct fgt_format_options options = {
		.release = "app@1",
		.environment = "test",
		.transaction = "checkout",
		.event_id = "0123456789ABCDEF0123456789abcdef",
		.dsn = "https://0123456789abcdef0123456789abcdef@host/1",
	};
	struct fixture_buffer buffer = sentry_write(slice, &options);

	(void)state;
	assert_int_equal(fixture_count(buffer.bytes,
				       "\"0123456789abcdef0123456789abcdef\""),
			 3);
	assert_int_equal(fixture_count(buffer.bytes, "\"release\":\"app@1\""),
			 2);
	assert_int_equal(
		fixture_count(buffer.bytes, "\"environment\":\"test\""), 2);
	assert_int_equal(fixture_count(buffer.bytes, ":\"checkout\""), 2);
	assert_int_equal(fixture_count(buffer.bytes, "\"dsn\":\"https://"), 1);
	fixture_buffer_done(&buffer);
	memset(&slice->process.service, 0, sizeof(slice->process.service));
	buffer = sentry_write(slice, NULL);
	assert_int_equal(fixture_count(buffer.bytes, "\"release\""), 0);
	assert_int_equal(fixture_count(buffer.bytes, "\"environment\""), 0);
	assert_int_equal(fixture_count(buffer.bytes, "\"dsn\""), 0);
	assert_int_equal(fixture_count(buffer.bytes, ":\"app\""), 4);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void event_ids_are_checked_and_never_twice_the_same(void **state)
{
	static const char *const wrong[] = {
		"0123", "0123456789abcdef0123456789abcdeg",
		"0123456789abcdef0123456789abcdef0",
		"00000000000000000000000000000000",
		"01234567-89ab-cdef-0123-456789abcdef"
	};
	struct fgt_ring_slice *slice = fixture_rich();
	struct fixture_buffer a, b;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const struct fgt_format_options options = { .event_id =
								    wrong[i] };

		assert_int_equal(try_sentry(slice, &options), -EINVAL);
	}
	a = sentry_write(slice, NULL);
	b = sentry_write(slice, NULL);
	assert_memory_not_equal(a.bytes, b.bytes, 45);
	fixture_buffer_done(&a);
	fixture_buffer_done(&b);
	fgt_ring_slice_free(slice);
}

static void every_tick_is_a_sample_in_order_of_time(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(5);
	struct fixture_buffer buffer;
	uint32_t a = fixture_stack(slice, "main;a");
	uint32_t b = fixture_stack(slice, "main;b");
	const char *first, *second;

	(void)state;
	fixture_thread(slice, 4242, "main");
	fixture_thread(slice, 4243, "worker");
	fixture_run(slice, 0, 0, 3, a, FGT_STATE_RUNNING);
	fixture_run(slice, 0, 3, 2, b, FGT_STATE_RUNNING);
	fixture_run(slice, 1, 1, 3, a, FGT_STATE_RUNNING);
	assert_samples(slice, 4242, "0@0 0@10 0@20 1@30 1@40");
	assert_samples(slice, 4243, "0@10 0@20 0@30 0@40");
	buffer = sentry_write(slice, NULL);
	first = strstr(buffer.bytes, "\"4243\",\"elapsed_since_start_ns\":"
				     "\"10000000\"");
	second = strstr(buffer.bytes, "\"4242\",\"elapsed_since_start_ns\":"
				      "\"20000000\"");
	assert_true(first && second && first < second);
	assert_non_null(strstr(buffer.bytes, "\"stacks\":[[0,1,2],[3,1,2]]"));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* ANCESTORS R5: the last sample at most 30 s after the first. */
static void older_than_30_seconds_is_cut_with_a_note(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(3100);
	struct fixture_buffer buffer;

	(void)state;
	fixture_main(slice, 50, "old", FGT_STATE_RUNNING);
	fixture_run(slice, 0, 50, 3050, fixture_stack(slice, "main"),
		    FGT_STATE_RUNNING);
	buffer = sentry_write(slice, NULL);
	assert_int_equal(fixture_count(buffer.bytes, "{\"stack_id\":"), 3001);
	assert_non_null(strstr(buffer.bytes, "\"elapsed_since_start_ns\":"
					     "\"30000000000\"}]"));
	assert_non_null(strstr(buffer.bytes, "\"cut_ticks\":99,"));
	assert_non_null(strstr(buffer.bytes, "the oldest ticks were left out"));
	/* What only the cut part used is not carried along. */
	assert_null(strstr(buffer.bytes, "\"old\""));
	assert_non_null(strstr(buffer.bytes, "\"timestamp\":\""
					     "2026-01-01T00:00:00.990000000Z"));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void elapsed_counts_from_the_first_sample(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(5);

	(void)state;
	fixture_thread(slice, 4242, "main");
	fixture_run(slice, 0, 2, 2, fixture_stack(slice, "main"),
		    FGT_STATE_RUNNING);
	assert_samples(slice, 4242, "0@0 0@10");
	fgt_ring_slice_free(slice);
}

/* ANCESTORS R1, R3, R7. */
static void threads_of_one_sample_at_the_end_are_left_out(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(5);
	uint32_t stack = fixture_stack(slice, "main");
	struct fixture_buffer buffer;

	(void)state;
	fixture_thread(slice, 4242, "main");
	fixture_thread(slice, 4243, "brief");
	fixture_run(slice, 0, 2, 1, stack, FGT_STATE_RUNNING);
	assert_int_equal(try_sentry(slice, NULL), -ENODATA);
	fixture_run(slice, 1, 0, 3, stack, FIXTURE_FUTEX);
	buffer = sentry_write(slice, NULL);
	assert_null(strstr(buffer.bytes, "\"thread_id\":\"4242\""));
	assert_null(strstr(buffer.bytes, "\"4242\":{"));
	assert_non_null(strstr(buffer.bytes, "\"4243\":{\"name\":\"brief\"}"));
	assert_non_null(strstr(buffer.bytes, "\"single_sample_threads\":1"));
	assert_non_null(strstr(buffer.bytes, "\"active_thread_id\":\"4243\""));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* For Sentry a sample lasts until the next one of its thread: each tick of a
 * thread that ends lasts as long as in other formats, one tick too. */
static void threads_that_end_are_closed(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(8);
	uint32_t stack = fixture_stack(slice, "main");
	struct fixture_buffer buffer;

	(void)state;
	for (uint32_t i = 6; i < 8; i++) /* the sampler stood still */
		slice->tick_ns[i] += 7 * FIXTURE_PERIOD_NS;
	fixture_thread(slice, 4242, "main");
	fixture_thread(slice, 4243, "one");
	fixture_thread(slice, 4244, "two");
	fixture_thread(slice, 4245, "long");
	fixture_run(slice, 0, 0, 8, stack, FIXTURE_FUTEX);
	fixture_run(slice, 1, 2, 1, stack, FGT_STATE_RUNNING);
	fixture_run(slice, 2, 3, 2, stack, FGT_STATE_RUNNING);
	fixture_run(slice, 3, 5, 1, stack, FGT_STATE_RUNNING);
	assert_samples(slice, 4243, "1@20 1@30");
	assert_samples(slice, 4244, "1@30 1@40 1@50");
	assert_samples(slice, 4245, "1@50 1@60");
	buffer = sentry_write(slice, NULL);
	assert_non_null(strstr(buffer.bytes, "\"single_sample_threads\":0"));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* They are one thread for Sentry. */
static void number_used_twice_has_no_time_between(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(8);
	uint32_t stack = fixture_stack(slice, "work");

	(void)state;
	for (uint32_t t = 0; t < 3; t++) {
		fixture_thread(slice, 4243, "again");
		slice->threads[t].start_time = t;
	}
	fixture_run(slice, 0, 0, 1, stack, FGT_STATE_RUNNING);
	fixture_run(slice, 1, 1, 1, stack, FGT_STATE_RUNNING);
	fixture_run(slice, 2, 5, 3, stack, FGT_STATE_RUNNING);
	assert_samples(slice, 4243, "0@0 0@10 1@20 0@50 0@60 0@70");
	fgt_ring_slice_free(slice);
}

static void active_thread_is_main_else_the_busiest(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(10);
	uint32_t stack = fixture_stack(slice, "main");
	struct fixture_buffer buffer;

	(void)state;
	fixture_thread(slice, 4243, "idle");
	fixture_thread(slice, 4244, "busy");
	fixture_thread(slice, 4245, "less");
	fixture_run(slice, 0, 0, 10, stack, FIXTURE_FUTEX);
	fixture_run(slice, 1, 0, 5, stack, FGT_STATE_RUNNING);
	fixture_run(slice, 2, 0, 4, stack, FGT_STATE_RUNNING);
	buffer = sentry_write(slice, NULL);
	assert_non_null(strstr(buffer.bytes, "\"active_thread_id\":\"4244\""));
	fixture_buffer_done(&buffer);
	slice->threads[0].tid = 4242; /* the main thread, though it is idle */
	buffer = sentry_write(slice, NULL);
	assert_non_null(strstr(buffer.bytes, "\"active_thread_id\":\"4242\""));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void gaps_are_written_as_gaps(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(6);
	uint32_t stack = fixture_stack(slice, "main");
	struct fixture_buffer buffer;

	(void)state;
	for (uint32_t i = 2; i < 6; i++) /* the sampler stood still */
		slice->tick_ns[i] += 7 * FIXTURE_PERIOD_NS;
	fixture_thread(slice, 4242, "main");
	fixture_run(slice, 0, 0, 4, stack, FGT_STATE_RUNNING);
	fixture_run(slice, 0, 5, 1, stack, FGT_STATE_RUNNING); /* not at 4 */
	assert_samples(slice, 4242, "0@0 0@10 1@20 0@90 0@100 1@110 0@120");
	buffer = sentry_write(slice, NULL);
	assert_non_null(strstr(buffer.bytes,
			       "{\"function\":\"[gap: no samples]\","
			       "\"in_app\":false}],\"stacks\":[[0,1],[2]]"));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void one_address_as_leaf_and_caller_is_one_frame(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(4);
	uint32_t leaf = fixture_stack(slice, "main");
	uint32_t caller;
	struct fixture_buffer buffer;

	(void)state;
	fixture_frame(slice, "main");
	slice->frames[1] = slice->frames[0];
	slice->frames[1].frame.flags = FGT_FRAME_CALLER;
	caller = fixture_node(slice, FGT_NODE_NONE, 1);
	fixture_thread(slice, 4242, "main");
	fixture_run(slice, 0, 0, 2, leaf, FGT_STATE_RUNNING);
	fixture_run(slice, 0, 2, 2,
		    fixture_node(slice, caller, fixture_frame(slice, "work")),
		    FGT_STATE_RUNNING);
	buffer = sentry_write(slice, NULL);
	assert_int_equal(fixture_count(buffer.bytes, "\"function\":\"main\""),
			 1);
	assert_non_null(strstr(buffer.bytes, "\"stacks\":[[0,1],[2,0,1]]"));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void the_recorder_is_not_in_app(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2);
	struct fixture_buffer buffer;

	(void)state;
	fixture_image(slice, "/opt/fgtrace/lib/libfgtrace.so.0.1.0",
		      0x550000000000, "0123456789abcdefghij");
	fixture_main(slice, 2, "hand_over", FGT_STATE_RUNNING);
	buffer = sentry_write(slice, NULL);
	assert_non_null(strstr(buffer.bytes, "libfgtrace.so.0.1.0"));
	assert_null(strstr(buffer.bytes, "\"in_app\":true"));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void addresses_are_absolute_and_in_app_is_set(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fixture_buffer buffer = sentry_write(slice, NULL);

	(void)state;
	assert_non_null(strstr(
		buffer.bytes,
		"{\"function\":\"main\",\"filename\":\"main.c\","
		"\"abs_path\":\"/src/app/main.c\",\"lineno\":1,"
		"\"package\":\"/opt/app/bin/app\","
		"\"instruction_addr\":\"0x550000001000\",\"in_app\":true}"));
	assert_non_null(strstr(
		buffer.bytes,
		"{\"function\":\"clamp\\u003cint>\",\"filename\":\"clamp.h\","
		"\"lineno\":7,"
		"\"package\":\"/usr/lib/x86_64-linux-gnu/libc.so.6\","
		"\"instruction_addr\":\"0x7f0000001234\",\"in_app\":false}"));
	/* The first three fields have their bytes in reverse order. */
	assert_non_null(strstr(buffer.bytes,
			       "{\"type\":\"symbolic\",\"debug_id\":"
			       "\"33323130-3534-3736-3839-616263646566\""));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void state_frames_are_at_the_chosen_end(void **state)
{
	static const struct {
		enum fgt_state_frames place;
		const char *first_frame, *stacks;
	} cases[] = {
		{ FGT_STATE_FRAMES_ROOT, "\"frames\":[{\"function\":\"main\"",
		  "\"stacks\":[[0,1]]" },
		{ FGT_STATE_FRAMES_LEAF, "\"frames\":[{\"function\":\"futex\"",
		  "\"stacks\":[[0,1]]" },
		{ FGT_STATE_FRAMES_NO, "\"frames\":[{\"function\":\"main\"",
		  "\"stacks\":[[0]]" },
	};
	struct fgt_ring_slice *slice = fixture_new(2);

	(void)state;
	fixture_main(slice, 2, "main", FIXTURE_FUTEX);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct fgt_format_options options = {
			.state_frames = cases[i].place
		};
		struct fixture_buffer buffer = sentry_write(slice, &options);

		assert_non_null(strstr(buffer.bytes, cases[i].first_frame));
		assert_non_null(strstr(buffer.bytes, cases[i].stacks));
		assert_int_equal(fixture_count(buffer.bytes,
					       "{\"function\":\"futex\","
					       "\"in_app\":false}"),
				 cases[i].place != FGT_STATE_FRAMES_NO);
		fixture_buffer_done(&buffer);
	}
	fgt_ring_slice_free(slice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths_are_right_to_the_byte),
		cmocka_unit_test(options_reach_both_items),
		cmocka_unit_test(service_gives_release_and_environment),
		cmocka_unit_test(
			event_ids_are_checked_and_never_twice_the_same),
		cmocka_unit_test(every_tick_is_a_sample_in_order_of_time),
		cmocka_unit_test(older_than_30_seconds_is_cut_with_a_note),
		cmocka_unit_test(elapsed_counts_from_the_first_sample),
		cmocka_unit_test(threads_of_one_sample_at_the_end_are_left_out),
		cmocka_unit_test(threads_that_end_are_closed),
		cmocka_unit_test(number_used_twice_has_no_time_between),
		cmocka_unit_test(active_thread_is_main_else_the_busiest),
		cmocka_unit_test(gaps_are_written_as_gaps),
		cmocka_unit_test(one_address_as_leaf_and_caller_is_one_frame),
		cmocka_unit_test(the_recorder_is_not_in_app),
		cmocka_unit_test(addresses_are_absolute_and_in_app_is_set),
		cmocka_unit_test(state_frames_are_at_the_chosen_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
