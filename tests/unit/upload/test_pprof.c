/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof profiles, field by field. Whole files are read by pprof itself in
 * tests/integration/test_viewers.sh. P1 to P3: ANCESTORS section 6.4.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ringbuf/slice/pace.h"
#include "tests/unit/upload/proto_text.h"
#include "upload/format/parts/reasons.h"

#define PERIOD_99_HZ 10101010

static void assert_has(const struct fixture_buffer *text, const char *line)
{
	char between[512];

	snprintf(between, sizeof(between), "\n%s\n", line);
	if (!strstr(text->bytes, between))
		fail_msg("no line %s in\n%s", line, text->bytes);
}

/* P2: {foo: 1, foo;bar: 2} at 99 Hz, everything of it. */
static void an_export_is_these_fields(void **state)
{
	static const char expected[] =
		"1:{1:1 2:2}\n1:{1:3 2:4}\n"
		"9:1767225600000000000\n10:30303030\n"
		"11:{1:3 2:4}\n12:10101010\n14:3\n13:[5 6 7]\n"
		"2:{1:[1] 2:[1 10101010] "
		"3:{1:9 2:8} 3:{1:10 3:4242} 3:{1:12 2:11}}\n"
		"2:{1:[2 1] 2:[2 20202020] "
		"3:{1:9 2:8} 3:{1:10 3:4242} 3:{1:12 2:11}}\n"
		"4:{1:1 2:1 3:93458488365056 4:{1:1 2:1}}\n"
		"4:{1:2 2:1 3:93458488365072 4:{1:2 2:2}}\n"
		"5:{1:1 2:13 4:14}\n5:{1:2 2:15 4:14}\n"
		"3:{1:1 2:93458488360960 3:93458489409536 5:16 6:17 "
		"7:1 8:1 9:1 10:1}\n"
		"6:\"\"\n6:\"samples\"\n6:\"count\"\n6:\"wall\"\n"
		"6:\"nanoseconds\"\n6:\"fgtrace " FGT_VERSION "\"\n"
		"6:\"process app, pid 4242, host box\"\n"
		"6:\"effective hz 99.500, ticks missed 0, evicted 0, "
		"lapped 0: shares are of the ticks taken\"\n"
		"6:\"main\"\n6:\"thread\"\n6:\"thread_id\"\n6:\"running\"\n"
		"6:\"state\"\n6:\"foo\"\n6:\"/src/app/main.c\"\n6:\"bar\"\n"
		"6:\"/opt/app/bin/app\"\n"
		"6:\"303132333435363738396162636465666768696a\"\n";
	struct fgt_ring_slice *slice = fixture_new(3);
	struct fixture_buffer text;

	(void)state;
	slice->period_ns = PERIOD_99_HZ;
	for (uint32_t i = 0; i < 3; i++)
		slice->tick_ns[i] = FIXTURE_START_NS + i * PERIOD_99_HZ;
	fixture_main(slice, 1, "foo", FGT_STATE_RUNNING);
	fixture_run(slice, 0, 1, 2, fixture_stack(slice, "foo;bar"),
		    FGT_STATE_RUNNING);
	text = pprof_text(slice, FGT_STATE_FRAMES_NO);
	assert_string_equal(text.bytes, expected);
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

/* Equal parts of stacks have one id, different parts have different ids. */
static void equal_stacks_of_a_thread_are_one_sample(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(20);
	uint32_t a = fixture_stack(slice, "main;work;a");
	uint32_t b = fixture_stack(slice, "main;work;b");
	struct fixture_buffer text;

	(void)state;
	fixture_thread(slice, 4242, "main");
	fixture_thread(slice, 4243, "worker");
	fixture_run(slice, 0, 0, 3, a, FGT_STATE_RUNNING);
	fixture_run(slice, 0, 3, 4, b, FGT_STATE_RUNNING);
	fixture_run(slice, 0, 7, 5, a, FGT_STATE_RUNNING);
	fixture_run(slice, 0, 12, 1, a, FGT_STATE_RUNNABLE);
	fixture_run(slice, 1, 0, 20, a, FGT_STATE_RUNNING);
	text = pprof_text(slice, FGT_STATE_FRAMES_NO);
	assert_int_equal(fixture_count(text.bytes, "\n2:{"), 4);
	assert_non_null(strstr(text.bytes, "\n2:{1:[1 2 3] 2:[8 80000000] "));
	assert_non_null(strstr(text.bytes, "\n2:{1:[4 2 3] 2:[4 40000000] "));
	/* Another state, or thread, is another label. */
	assert_non_null(strstr(text.bytes, "\n2:{1:[1 2 3] 2:[1 10000000] "));
	assert_non_null(strstr(text.bytes, "\n2:{1:[1 2 3] 2:[20 200000000] "));
	assert_int_equal(fixture_count(text.bytes, "\n4:{"), 4);
	assert_int_equal(fixture_count(text.bytes, "\n5:{"), 4);
	assert_int_equal(fixture_count(text.bytes, "\n6:\"work\"\n"), 1);
	assert_int_equal(fixture_count(text.bytes, "\n6:\"runnable\"\n"), 1);
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

static void state_frames_are_at_the_chosen_end(void **state)
{
	static const struct {
		enum fgt_state_frames place;
		const char *sample;
	} cases[] = {
		{ FGT_STATE_FRAMES_ROOT, "\n2:{1:[1 2] 2:[2 20000000] " },
		{ FGT_STATE_FRAMES_LEAF, "\n2:{1:[1 2] 2:[2 20000000] " },
		{ FGT_STATE_FRAMES_NO, "\n2:{1:[1] 2:[2 20000000] " },
	};
	struct fgt_ring_slice *slice = fixture_new(2);

	(void)state;
	fixture_main(slice, 2, "main", FIXTURE_FUTEX);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture_buffer text = pprof_text(slice, cases[i].place);

		assert_non_null(strstr(text.bytes, cases[i].sample));
		/* The label is there in any case. */
		assert_int_equal(fixture_count(text.bytes, "\n6:\"futex\"\n"),
				 1);
		assert_int_equal(fixture_count(text.bytes, "\n5:{"),
				 cases[i].place == FGT_STATE_FRAMES_NO ? 1 : 2);
		if (cases[i].place == FGT_STATE_FRAMES_LEAF)
			assert_has(&text, "4:{1:1 4:{1:1}}");
		if (cases[i].place == FGT_STATE_FRAMES_ROOT)
			assert_has(&text, "4:{1:2 4:{1:2}}");
		fixture_buffer_done(&text);
	}
	fgt_ring_slice_free(slice);
}

static void ticks_at_a_lowered_rate_count_for_more(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(20);
	struct fixture_buffer text;

	(void)state;
	assert_int_equal(fgt_pace_add(slice, 10, 8), 0);
	for (uint32_t i = 10; i < 20; i++)
		slice->tick_ns[i] = slice->tick_ns[9] + FIXTURE_PERIOD_NS +
				    (i - 10) * 8 * FIXTURE_PERIOD_NS;
	fixture_main(slice, 12, "a", FGT_STATE_RUNNING);
	fixture_run(slice, 0, 12, 8, fixture_stack(slice, "b"),
		    FGT_STATE_RUNNING);
	text = pprof_text(slice, FGT_STATE_FRAMES_NO);
	assert_non_null(strstr(text.bytes, "\n2:{1:[1] 2:[26 260000000] "));
	assert_non_null(strstr(text.bytes, "\n2:{1:[2] 2:[64 640000000] "));
	assert_has(&text, "10:900000000"); /* all ticks are all of the time */
	assert_non_null(strstr(text.bytes, "\n6:\"rate lowered up to 8-fold"));
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

static void a_rich_slice_keeps_all_that_pprof_can_hold(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fixture_buffer text = pprof_text(slice, FGT_STATE_FRAMES_NO);

	(void)state;
	/* The inlined call first, the real function last. */
	assert_non_null(strstr(text.bytes, " 3:139637976732212 4:{1:4 2:7} "
					   "4:{1:5 2:70}}\n"));
	assert_has(&text, "6:\"ns::work(char const*)\"");
	assert_has(&text, "6:\"worker \xef\xbf\xbd<1>\"");
	assert_has(&text, "6:\"thread 4250\"");
	assert_has(&text, "6:\"[stack unknown]\"");
	assert_has(&text, "6:\"0xabcdef\"");
	/* Code without a file has an address and no mapping. */
	assert_int_equal(fixture_count(text.bytes, " 3:11259375 4:{"), 1);
	assert_has(&text, "6:\"effective hz 99.500, ticks missed 3, evicted 1, "
			  "lapped 2: shares are of the ticks taken\"");
	assert_has(&text, "6:\"trigger: st\"uck\"");
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

/* Readers resolve the names of a mapping without the flag. */
static void mappings_have_flags_for_complete_names(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2);
	struct fixture_buffer text;
	uint32_t image;

	(void)state;
	fixture_image(slice, "/lib/libc.so.6", 0x7f0000000000, "x");
	image = fixture_image(slice, "/opt/app/bin/app", 0x550000000000, "y");
	fixture_main(slice, 2, "main;read", FGT_STATE_RUNNING);
	slice->frames[0].frame.image = image + 1;
	slice->symbols[1].reason = FGT_SYMBOL_STRIPPED;
	text = pprof_text(slice, FGT_STATE_FRAMES_NO);
	/* The program itself first; libc without a flag. */
	assert_non_null(strstr(text.bytes,
			       "\n3:{1:2 2:93458488360960 3:93458489409536 "
			       "5:15 6:16 7:1 8:1 9:1 10:1}\n"
			       "3:{1:1 2:139637976727552 3:139637977776128 "
			       "5:17 6:18}\n"));
	assert_has(&text, "6:\"79\"");
	/* One string for the thread and the function of that name. */
	assert_int_equal(fixture_count(text.bytes, "\n6:\"main\"\n"), 1);
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

/* Values are signed in this format: no sum may wrap. */
static void hostile_times_stay_in_range(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2);
	struct fixture_buffer text;

	(void)state;
	slice->period_ns = UINT64_MAX;
	fixture_main(slice, 2, "main", FGT_STATE_RUNNING);
	text = pprof_text(slice, FGT_STATE_FRAMES_NO);
	assert_has(&text, "12:9223372036854775807");
	assert_non_null(strstr(text.bytes, " 2:[2 9223372036854775807] "));
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

#define TRACE "0123456789abcdef0123456789abcdef"

/* Of ticks 1 to 4 of a thread. */
static const struct fgt_thread_run traced_run = { .tid = 4242,
						  .from_ns = FIXTURE_START_NS };
static const struct fgt_transaction_facts traced_facts = {
	.name = "GET /",
	.trace_id = TRACE,
	.span_id = "00000000000000ab",
	.begin_ns = FIXTURE_START_NS + FIXTURE_PERIOD_NS,
	.end_ns = FIXTURE_START_NS + 4 * FIXTURE_PERIOD_NS,
	.thread_runs = &traced_run,
	.thread_run_count = 1,
	.all_threads = 1,
};
static const struct fgt_format_options traced_options = {
	.state_frames = FGT_STATE_FRAMES_NO, .facts = &traced_facts
};

/* Grafana Pyroscope finds the profile of a span by these. */
static void samples_of_a_transaction_have_its_ids(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(10);
	struct fixture_buffer text;

	(void)state;
	for (int32_t tid = 4242; tid < 4244; tid++)
		fixture_run(slice, fixture_thread(slice, tid, "main"), 0, 10,
			    fixture_stack(slice, "main"), FGT_STATE_RUNNING);
	text = pprof_text_with(slice, &traced_options);
	assert_non_null(strstr(text.bytes, "\n2:{1:[1] 2:[6 60000000] 3:{1:9 "
					   "2:8} 3:{1:10 3:4242} 3:{1:12 "
					   "2:11}}\n"));
	assert_non_null(strstr(text.bytes, "\n2:{1:[1] 2:[4 40000000] 3:{1:9 "
					   "2:8} 3:{1:10 3:4242} 3:{1:12 "
					   "2:11} 3:{1:14 2:13} 3:{1:16 "
					   "2:15}}\n"));
	assert_non_null(strstr(text.bytes, "\n2:{1:[1] 2:[10 100000000] "));
	assert_has(&text, "6:\"" TRACE "\"\n6:\"trace_id\"\n"
			  "6:\"00000000000000ab\"\n6:\"span_id\"");
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

/* It was last sampled before its work for the trace began, then within. */
static void last_known_stack_from_before_a_trace_has_no_id(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(10);
	uint32_t thread = fixture_thread(slice, 4242, "main");
	uint32_t stack = fixture_stack(slice, "main");
	uint32_t last_known = fixture_stack(slice, "main;#3");
	struct fixture_buffer text;

	(void)state;
	fixture_run(slice, thread, 0, 1, stack, FGT_STATE_RUNNING);
	fixture_run(slice, thread, 1, 2, last_known, FGT_STATE_RUNNING);
	fixture_run(slice, thread, 3, 1, stack, FGT_STATE_RUNNING);
	fixture_run(slice, thread, 4, 6, last_known, FGT_STATE_RUNNING);
	text = pprof_text_with(slice, &traced_options);
	assert_int_equal(fixture_count(text.bytes, "3:{1:14 2:13}"), 2);
	assert_int_equal(fixture_count(text.bytes, "2:[1 10000000] 3:"), 3);
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

/* A number that was used again within a slice. */
static void threads_that_look_alike_share_samples(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(10);
	struct fixture_buffer text;

	(void)state;
	for (uint32_t i = 0; i < 2; i++)
		fixture_run(slice, fixture_thread(slice, 4242, "main"), 5 * i,
			    5, fixture_stack(slice, "main"), FGT_STATE_RUNNING);
	slice->threads[1].start_time++;
	text = pprof_text(slice, FGT_STATE_FRAMES_NO);
	assert_int_equal(fixture_count(text.bytes, "\n2:{"), 1);
	assert_non_null(strstr(text.bytes, "\n2:{1:[1] 2:[10 100000000] "));
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

static void blocked_samples_are_labelled_by_lock_and_holder(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(20);
	uint32_t holder = fixture_thread(slice, 10, "maint");
	uint32_t waiter = fixture_thread(slice, 20, "worker");
	uint32_t stack = fixture_stack(slice, "main;work");
	const struct fgt_format_options options = { .state_frames = 0 };
	struct fixture_buffer buffer;
	struct fgt_slice_wait *wait;

	(void)state;
	fixture_run(slice, holder, 0, 20, stack, FGT_STATE_RUNNING);
	fixture_run(slice, waiter, 0, 20, stack, FIXTURE_FUTEX);
	wait = fixture_wait(slice, FGT_WAIT_MUTEX, 10, "");
	assert_int_equal(
		fgt_strings_intern(&slice->strings, "g_lock", 6, &wait->object),
		0);
	buffer = pprof_text_with(slice, &options);
	assert_int_equal(fixture_count(buffer.bytes, "held_by"), 1);
	assert_int_equal(fixture_count(buffer.bytes, "\"g_lock\""), 1);
	assert_int_equal(fixture_count(buffer.bytes, "\"mutex\""), 1);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* More locks than states can be named after: those without a name share one. */
static void no_sample_has_the_lock_of_another_one(void **state)
{
	const uint32_t count = FGT_REASONS_MAX + 10;
	struct fgt_ring_slice *slice = fixture_new(count);
	uint32_t stack = fixture_stack(slice, "main;work");
	const struct fgt_format_options options = { .state_frames = 0 };
	struct fixture_buffer buffer;
	char lock[16];

	(void)state;
	fixture_thread(slice, 10, "maint");
	fixture_thread(slice, 20, "other");
	fixture_thread(slice, 30, "worker");
	for (uint32_t i = 0; i < count; i++) {
		struct fgt_slice_wait *wait;

		fixture_run(slice, 2, i, 1, stack, FIXTURE_FUTEX);
		wait = fixture_wait(slice, FGT_WAIT_MUTEX, i % 2 ? 10 : 20, "");
		snprintf(lock, sizeof(lock), "lock%u", i);
		assert_int_equal(fgt_strings_intern(&slice->strings, lock,
						    strlen(lock),
						    &wait->object),
				 0);
	}
	buffer = pprof_text_with(slice, &options);
	assert_int_equal(fixture_count(buffer.bytes, "\"lock0\""), 1);
	assert_int_equal(fixture_count(buffer.bytes, lock), 0);
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void slice_without_runs_has_no_samples(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(3);
	struct fixture_buffer text = pprof_text(slice, FGT_STATE_FRAMES_ROOT);

	(void)state;
	assert_null(strstr(text.bytes, "\n2:{"));
	assert_has(&text, "10:30000000");
	fixture_buffer_done(&text);
	fgt_ring_slice_free(slice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_export_is_these_fields),
		cmocka_unit_test(equal_stacks_of_a_thread_are_one_sample),
		cmocka_unit_test(state_frames_are_at_the_chosen_end),
		cmocka_unit_test(ticks_at_a_lowered_rate_count_for_more),
		cmocka_unit_test(a_rich_slice_keeps_all_that_pprof_can_hold),
		cmocka_unit_test(mappings_have_flags_for_complete_names),
		cmocka_unit_test(hostile_times_stay_in_range),
		cmocka_unit_test(samples_of_a_transaction_have_its_ids),
		cmocka_unit_test(
			last_known_stack_from_before_a_trace_has_no_id),
		cmocka_unit_test(threads_that_look_alike_share_samples),
		cmocka_unit_test(
			blocked_samples_are_labelled_by_lock_and_holder),
		cmocka_unit_test(no_sample_has_the_lock_of_another_one),
		cmocka_unit_test(slice_without_runs_has_no_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
