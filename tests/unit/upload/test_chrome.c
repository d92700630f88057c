/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chrome trace events, event by event. E(name, ms) and B(name, ms) below are
 * what is written, in file order.
 */
#include "tests/unit/upload/chrome_kit.h"

#include "ringbuf/slice/pace.h"

/* The stacks of one thread, one tick each. */
static struct fgt_ring_slice *one_thread(const char *const *stacks)
{
	uint32_t count = 0;
	struct fgt_ring_slice *slice;

	while (stacks[count])
		count++;
	slice = fixture_new(count);
	fixture_thread(slice, 4242, "main");
	for (uint32_t i = 0; i < count; i++)
		fixture_run(slice, 0, i, 1, fixture_stack(slice, stacks[i]),
			    FGT_STATE_RUNNING);
	return slice;
}

/* ANCESTORS T10: initial, call, return, return and call, finish. */
static void calls_and_returns_nest(void **state)
{
	const char *const stacks[] = { "main;foo",	  "main;foo;bar;baz",
				       "main;foo",	  "main;foo;bar;baz",
				       "main;foo;foobar", NULL };

	(void)state;
	assert_events(
		one_thread(stacks), FGT_STATE_FRAMES_NO,
		"B main 0.000|B foo 0.000|B bar 5.000|B baz 5.000|"
		"E baz 15.000|E bar 15.000|B bar 25.000|B baz 25.000|"
		"E baz 35.000|E bar 35.000|B foobar 35.000|E foobar 50.000|"
		"E foo 50.000|E main 50.000");
}

/* ANCESTORS T6: where the state frame stands. */
static void state_frame_is_at_root_leaf_or_absent(void **state)
{
	const char *const stacks[] = { "main", NULL };

	(void)state;
	assert_events(one_thread(stacks), FGT_STATE_FRAMES_ROOT,
		      "B running 0.000|B main 0.000|"
		      "E main 10.000|E running 10.000");
	assert_events(one_thread(stacks), FGT_STATE_FRAMES_LEAF,
		      "B main 0.000|B running 0.000|"
		      "E running 10.000|E main 10.000");
	assert_events(one_thread(stacks), FGT_STATE_FRAMES_NO,
		      "B main 0.000|E main 10.000");
}

static void change_of_state_reopens_below_a_root_frame(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2);
	uint32_t stack = fixture_stack(slice, "main");

	(void)state;
	fixture_thread(slice, 4242, "main");
	fixture_run(slice, 0, 0, 1, stack, FGT_STATE_RUNNING);
	fixture_run(slice, 0, 1, 1, stack, FIXTURE_FUTEX);
	assert_events(
		slice, FGT_STATE_FRAMES_ROOT,
		"B running 0.000|B main 0.000|E main 5.000|E running 5.000|"
		"B futex 5.000|B main 5.000|E main 20.000|E futex 20.000");
}

static void equal_neighbours_merge(void **state)
{
	const char *const stacks[] = { "main;a", "main;a", "main;b", "main;b",
				       NULL };

	(void)state;
	assert_events(one_thread(stacks), FGT_STATE_FRAMES_NO,
		      "B main 0.000|B a 0.000|E a 15.000|B b 15.000|E b 40.000|"
		      "E main 40.000");
}

/* Two call sites of one function are one bar, whatever their addresses. */
static void a_function_at_two_addresses_is_one_level(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2);
	uint32_t root = fixture_stack(slice, "main");

	(void)state;
	fixture_thread(slice, 4242, "main");
	for (uint32_t i = 0; i < 2; i++)
		fixture_run(
			slice, 0, i, 1,
			fixture_node(slice, root, fixture_frame(slice, "work")),
			FGT_STATE_RUNNING);
	assert_int_not_equal(slice->runs[0].stack, slice->runs[1].stack);
	assert_events(slice, FGT_STATE_FRAMES_NO,
		      "B main 0.000|B work 0.000|"
		      "E work 20.000|E main 20.000");
}

static void inlined_calls_are_separate_levels(void **state)
{
	struct fgt_ring_slice *slice = fixture_rich();
	struct fixture_buffer buffer = write_chrome(slice, FGT_STATE_FRAMES_NO);

	(void)state;
	assert_non_null(strstr(
		buffer.bytes,
		"{\"name\":\"ns::work(char const*)\",\"ph\":\"B\",\"pid\":4242,"
		"\"tid\":4242,\"ts\":99999},\n"
		"{\"name\":\"clamp\\u003cint>\",\"ph\":\"B\",\"pid\":4242,"
		"\"tid\":4242,\"ts\":99999}"));
	assert_non_null(strstr(buffer.bytes,
			       "\"notes\":{\"trigger\":\"st\\\"uck\","
			       "\"cause\":\"\"}"));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* Fault T2. */
static void missed_ticks_close_the_stack(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(4);
	uint32_t stack = fixture_stack(slice, "main");

	(void)state;
	slice->tick_ns[2] += 5 * FIXTURE_PERIOD_NS;
	slice->tick_ns[3] += 5 * FIXTURE_PERIOD_NS;
	fixture_thread(slice, 4242, "main");
	fixture_run(slice, 0, 0, 4, stack, FGT_STATE_RUNNING);
	assert_events(slice, FGT_STATE_FRAMES_NO,
		      "B main 0.000|E main 20.000|"
		      "B main 70.000|E main 90.000");
}

static void gap_between_two_runs_closes_the_stack(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(4);

	(void)state;
	slice->tick_ns[2] += 5 * FIXTURE_PERIOD_NS;
	slice->tick_ns[3] += 5 * FIXTURE_PERIOD_NS;
	fixture_main(slice, 2, "main;a", FGT_STATE_RUNNING);
	fixture_run(slice, 0, 2, 2, fixture_stack(slice, "main;b"),
		    FGT_STATE_RUNNING);
	assert_events(slice, FGT_STATE_FRAMES_NO,
		      "B main 0.000|B a 0.000|E a 20.000|E main 20.000|"
		      "B main 70.000|B b 70.000|E b 90.000|E main 90.000");
}

/* Far apart on purpose: no gap, until two of these are missed. */
static void ticks_at_a_lowered_rate_leave_no_gap(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(4);

	(void)state;
	assert_int_equal(fgt_pace_add(slice, 1, 8), 0);
	slice->tick_ns[2] = slice->tick_ns[1] + 8 * FIXTURE_PERIOD_NS;
	slice->tick_ns[3] = slice->tick_ns[2] + 24 * FIXTURE_PERIOD_NS;
	fixture_main(slice, 4, "main", FGT_STATE_RUNNING);
	assert_events(slice, FGT_STATE_FRAMES_NO,
		      "B main 0.000|E main 170.000|"
		      "B main 330.000|E main 410.000");
}

static void one_missed_tick_is_bridged(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2);

	(void)state;
	slice->tick_ns[1] += FIXTURE_PERIOD_NS + FIXTURE_PERIOD_NS / 3;
	fixture_main(slice, 2, "main", FGT_STATE_RUNNING);
	assert_events(slice, FGT_STATE_FRAMES_NO, "B main 0.000|E main 33.333");
}

static void threads_open_when_born_and_close_when_gone(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(6);
	uint32_t stack = fixture_stack(slice, "main");

	(void)state;
	fixture_thread(slice, 4243, "worker");
	fixture_run(slice, 0, 1, 2, stack, FGT_STATE_RUNNING);
	fixture_run(slice, 0, 4, 1, stack, FGT_STATE_RUNNING);
	assert_events(slice, FGT_STATE_FRAMES_NO,
		      "B main 10.000|E main 30.000|"
		      "B main 40.000|E main 50.000");
}

/*
 * main;x;y → main;y: speedscope takes B y before E y at one ts, closes the new
 * y by it, and x stays open to the end. So the E's come 1 ns earlier.
 */
static void same_name_never_closes_and_opens_at_one_instant(void **state)
{
	const char *const stacks[] = { "main;x;y", "main;y", "main", NULL };

	(void)state;
	assert_events(one_thread(stacks), FGT_STATE_FRAMES_NO,
		      "B main 0.000|B x 0.000|B y 0.000|E y 5.000|E x 5.000|"
		      "B y 5.000|E y 15.000|E main 30.000");
}

static void the_earlier_instant_is_one_nanosecond_away(void **state)
{
	const char *const stacks[] = { "main;x", "main;x;y", "main;y", NULL };
	struct fgt_ring_slice *slice = one_thread(stacks);
	struct fixture_buffer buffer = write_chrome(slice, FGT_STATE_FRAMES_NO);

	(void)state;
	assert_non_null(strstr(buffer.bytes,
			       "{\"name\":\"x\",\"ph\":\"E\",\"pid\":4242,"
			       "\"tid\":4242,\"ts\":14999.999},\n"
			       "{\"name\":\"y\",\"ph\":\"X\",\"pid\":4242,"
			       "\"tid\":4242,\"ts\":15000.001,\"dur\":"));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

/* Of three levels that come and go together each is one event. */
static void levels_of_one_change_are_one_event_each(void **state)
{
	const char *const stacks[] = { "main", "main;x;y;z", "main", NULL };
	struct fgt_ring_slice *slice = one_thread(stacks);
	struct fixture_buffer buffer = write_chrome(slice, FGT_STATE_FRAMES_NO);

	(void)state;
	assert_non_null(strstr(
		buffer.bytes,
		"{\"name\":\"main\",\"ph\":\"B\",\"pid\":4242,\"tid\":4242,"
		"\"ts\":0},\n"
		"{\"name\":\"x\",\"ph\":\"X\",\"pid\":4242,\"tid\":4242,"
		"\"ts\":5000,\"dur\":10000},\n"
		"{\"name\":\"y\",\"ph\":\"X\",\"pid\":4242,\"tid\":4242,"
		"\"ts\":5000,\"dur\":10000},\n"
		"{\"name\":\"z\",\"ph\":\"X\",\"pid\":4242,\"tid\":4242,"
		"\"ts\":5000,\"dur\":10000},\n"
		"{\"name\":\"main\",\"ph\":\"E\",\"pid\":4242,\"tid\":4242,"
		"\"ts\":30000}\n"));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void names_that_select_devtools_in_speedscope_are_changed(void **state)
{
	const char *const stacks[] = {
		"Profile;CpuProfile;ProfileChunk;Profiler", NULL
	};

	(void)state;
	assert_events(one_thread(stacks), FGT_STATE_FRAMES_NO,
		      "B Profile() 0.000|B CpuProfile() 0.000|"
		      "B ProfileChunk() 0.000|B Profiler 0.000|"
		      "E Profiler 10.000|E ProfileChunk() 10.000|"
		      "E CpuProfile() 10.000|E Profile() 10.000");
}

static void runs_without_a_stack_have_a_marker(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2);

	(void)state;
	fixture_thread(slice, 4242, "main");
	fixture_run(slice, 0, 0, 2, FGT_NODE_NONE, FIXTURE_FUTEX);
	assert_events(slice, FGT_STATE_FRAMES_NO,
		      "B [stack unknown] 0.000|E [stack unknown] 20.000");
}

static void deep_stacks_lose_their_middle_and_have_a_marker(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2);
	uint32_t node = FGT_NODE_NONE;
	struct fixture_buffer buffer;
	unsigned int begins = 0;

	(void)state;
	for (uint32_t i = 0; i < FGT_SLICE_DEPTH_MAX; i++) {
		char name[32];

		snprintf(name, sizeof(name), "level_%u", i);
		node = fixture_node(slice, node, fixture_frame(slice, name));
	}
	fixture_thread(slice, 4242, "main");
	fixture_run(slice, 0, 0, 2, node, FGT_STATE_RUNNING);
	buffer = write_chrome(slice, FGT_STATE_FRAMES_ROOT);
	for (const char *c = buffer.bytes; (c = strstr(c, "\"ph\":\"X\"")); c++)
		begins++;
	assert_int_equal(begins, 500);
	assert_non_null(strstr(buffer.bytes, "\"level_0\""));
	assert_non_null(strstr(buffer.bytes, "\"level_1031\""));
	assert_null(strstr(buffer.bytes, "\"level_300\""));
	assert_non_null(strstr(buffer.bytes, "\"[frames elided]\""));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void metadata_names_process_threads_and_rate(void **state)
{
	static const char *const expected[] = {
		"{\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":\"M\","
		"\"pid\":4242,\"tid\":4242,\"ts\":0,"
		"\"args\":{\"name\":\"app\"}},\n",
		"{\"name\":\"hz\",\"ph\":\"M\",\"pid\":4242,\"tid\":4242,"
		"\"ts\":0,\"args\":{\"hz\":99.5}}",
		"\"args\":{\"nominal_hz\":100}}",
		"{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":4242,"
		"\"tid\":4243,\"ts\":0,"
		"\"args\":{\"name\":\"worker \xef\xbf\xbd\\u003c1>\"}}",
		"\"args\":{\"name\":\"thread 4250\"}}",
		"\"displayTimeUnit\":\"ns\"",
		"\"wall_clock_of_ts_0\":\"2026-01-01T00:00:00.000000000Z\"",
		"\"missed_ticks\":3,\"evicted_ticks\":1,\"lapped_ticks\":2",
	};
	struct fgt_ring_slice *slice = fixture_rich();
	struct fixture_buffer buffer =
		write_chrome(slice, FGT_STATE_FRAMES_ROOT);

	(void)state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		assert_non_null(strstr(buffer.bytes, expected[i]));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void main_thread_sorts_first(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2);
	uint32_t stack = fixture_stack(slice, "main");
	struct fixture_buffer buffer;

	(void)state;
	fixture_thread(slice, 100, "old"); /* tids wrapped around */
	fixture_thread(slice, 4242, "main");
	fixture_run(slice, 0, 0, 2, stack, FGT_STATE_RUNNING);
	fixture_run(slice, 1, 0, 2, stack, FGT_STATE_RUNNING);
	buffer = write_chrome(slice, FGT_STATE_FRAMES_ROOT);
	assert_non_null(strstr(buffer.bytes, "\"tid\":4242,\"ts\":0,"
					     "\"args\":{\"sort_index\":0}}"));
	assert_non_null(strstr(buffer.bytes, "\"tid\":100,\"ts\":0,"
					     "\"args\":{\"sort_index\":1}}"));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(slice);
}

static void assert_second_block(uint32_t kind, const char *expected)
{
	struct fgt_ring_slice *slice = fixture_new(2);

	fixture_main(slice, 2, "nap", FIXTURE_FUTEX);
	fixture_wait(slice, kind, 4242, "/a");
	fixture_edge(slice, 0, 1, 9000, 8000);
	fixture_edge(slice, 0, 1, 5000, 4960);
	assert_events(slice, FGT_STATE_FRAMES_LEAF, expected);
}

/* It got the lock, and waits for something else; of the same descriptor it may
 * be another wait, which was not asked. The next tick's has its own reason. */
static void block_that_no_tick_found_has_no_reason(void **state)
{
	(void)state;
	assert_second_block(
		FGT_WAIT_MUTEX,
		"B nap 0.000|B futex ← main 0.000|E futex ← main 1.000|"
		"B [not sampled: last known stack] 1.000|B running 1.000|"
		"E running 2.000|B blocked 2.000|E blocked 5.000|"
		"E [not sampled: last known stack] 5.000|"
		"B futex ← main 5.040|E futex ← main 20.000|E nap 20.000");
	assert_second_block(
		FGT_WAIT_DESCRIPTOR,
		"B nap 0.000|B futex /a 0.000|E futex /a 1.000|"
		"B [not sampled: last known stack] 1.000|B running 1.000|"
		"E running 2.000|E [not sampled: last known stack] 2.000|"
		"B futex 2.000|E futex 5.000|"
		"B futex /a 5.040|E futex /a 20.000|E nap 20.000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_and_returns_nest),
		cmocka_unit_test(state_frame_is_at_root_leaf_or_absent),
		cmocka_unit_test(change_of_state_reopens_below_a_root_frame),
		cmocka_unit_test(equal_neighbours_merge),
		cmocka_unit_test(a_function_at_two_addresses_is_one_level),
		cmocka_unit_test(inlined_calls_are_separate_levels),
		cmocka_unit_test(missed_ticks_close_the_stack),
		cmocka_unit_test(gap_between_two_runs_closes_the_stack),
		cmocka_unit_test(ticks_at_a_lowered_rate_leave_no_gap),
		cmocka_unit_test(one_missed_tick_is_bridged),
		cmocka_unit_test(threads_open_when_born_and_close_when_gone),
		cmocka_unit_test(
			same_name_never_closes_and_opens_at_one_instant),
		cmocka_unit_test(the_earlier_instant_is_one_nanosecond_away),
		cmocka_unit_test(levels_of_one_change_are_one_event_each),
		cmocka_unit_test(
			names_that_select_devtools_in_speedscope_are_changed),
		cmocka_unit_test(runs_without_a_stack_have_a_marker),
		cmocka_unit_test(
			deep_stacks_lose_their_middle_and_have_a_marker),
		cmocka_unit_test(metadata_names_process_threads_and_rate),
		cmocka_unit_test(main_thread_sorts_first),
		cmocka_unit_test(block_that_no_tick_found_has_no_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
