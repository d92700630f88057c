/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chrome traces of slices that know when blocks really began and ended: event
 * by event, and what becomes of edges that cannot be.
 */
#include "ringbuf/slice/merge.h"
#include "ringbuf/slice/pace.h"
#include "tests/unit/upload/chrome_kit.h"

/* Blocked at ticks 0 and 1, at work at 2, blocked at 3 in another call. */
static struct fgt_ring_slice *sleeper(void)
{
	struct fgt_ring_slice *slice = fixture_new(4);

	fixture_main(slice, 2, "main;nap", FIXTURE_FUTEX);
	fixture_run(slice, 0, 2, 1, fixture_stack(slice, "main;work"),
		    FGT_STATE_RUNNING);
	fixture_run(slice, 0, 3, 1, fixture_stack(slice, "main;wait"),
		    FIXTURE_EPOLL);
	return slice;
}

static void blocks_begin_and_end_at_their_edges(void **state)
{
	struct fgt_ring_slice *slice = sleeper();

	(void)state;
	fixture_edge(slice, 0, 2, 3000, 0);
	fixture_edge(slice, 0, 3, 0, 1500);
	assert_events(slice, FGT_STATE_FRAMES_ROOT,
		      "B futex 0.000|B main 0.000|B nap 0.000|"
		      "E nap 17.000|E main 17.000|E futex 17.000|"
		      "B running 17.000|B main 17.000|B work 17.000|"
		      "E work 28.500|E main 28.500|E running 28.500|"
		      "B epoll_wait 28.500|B main 28.500|B wait 28.500|"
		      "E wait 40.000|E main 40.000|E epoll_wait 40.000");
}

static void thread_that_ran_between_equal_blocks_has_two(void **state)
{
	struct fgt_ring_slice *slice = sleeper();

	(void)state;
	fixture_edge(slice, 0, 1, 7000, 2000);
	slice->run_count = 1;
	assert_events(slice, FGT_STATE_FRAMES_ROOT,
		      "B futex 0.000|B main 0.000|B nap 0.000|E nap 3.000|"
		      "E main 3.000|E futex 3.000|B running 3.000|"
		      "B main 3.000|B nap 3.000|"
		      "B [not sampled: last known stack] 3.000|"
		      "E [not sampled: last known stack] 8.000|"
		      "E nap 8.000|E main 8.000|"
		      "E running 8.000|B futex 8.000|B main 8.000|B nap 8.000|"
		      "E nap 20.000|E main 20.000|E futex 20.000");
}

static void
between_two_blocks_a_thread_ran_with_the_stack_of_the_first(void **state)
{
	struct fgt_ring_slice *slice = sleeper();

	(void)state;
	/* From the first call to the second one at once. */
	slice->runs[1] = slice->runs[2];
	slice->runs[1].first_tick = 2;
	slice->run_count = 2;
	fixture_edge(slice, 0, 2, 3000, 1000);
	assert_events(slice, FGT_STATE_FRAMES_NO,
		      "B main 0.000|B nap 0.000|"
		      "B [not sampled: last known stack] 17.000|"
		      "E [not sampled: last known stack] 19.000|E nap 19.000|"
		      "B wait 19.000|E wait 30.000|E main 30.000");
}

/* Both ways, with the stacks that the thread was last seen with. */
static void what_lies_between_ticks_alike_is_drawn(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(4);

	(void)state;
	fixture_main(slice, 2, "main;work", FGT_STATE_RUNNING);
	fixture_run(slice, 0, 2, 2, fixture_stack(slice, "main;nap"),
		    FIXTURE_FUTEX);
	fixture_edge(slice, 0, 1, 2000, 5000);
	fixture_edge(slice, 0, 2, 0, 4000);
	fixture_edge(slice, 0, 3, 6000, 3000);
	assert_events(slice, FGT_STATE_FRAMES_NO,
		      "B main 0.000|B work 0.000|E work 5.000|B nap 5.000|"
		      "B [not sampled: last known stack] 5.000|"
		      "E [not sampled: last known stack] 8.000|"
		      "E nap 8.000|B work 8.000|E work 16.000|B nap 16.000|"
		      "E nap 24.000|B work 24.000|"
		      "B [not sampled: last known stack] 24.000|"
		      "E [not sampled: last known stack] 27.000|"
		      "E work 27.000|B nap 27.000|E nap 40.000|E main 40.000");
}

/* The runs and the block between ticks have samples on both sides. */
static void only_where_samples_differ_is_there_a_marker(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(6);
	uint32_t work = fixture_stack(slice, "work");

	(void)state;
	fixture_thread(slice, 4242, "main");
	fixture_run(slice, 0, 0, 1, work, FGT_STATE_RUNNING);
	fixture_run(slice, 0, 1, 2, fixture_stack(slice, "nap"), FIXTURE_FUTEX);
	fixture_run(slice, 0, 3, 2, work, FGT_STATE_RUNNING);
	fixture_run(slice, 0, 5, 1, fixture_stack(slice, "read"),
		    FIXTURE_EPOLL);
	fixture_edge(slice, 0, 1, 0, 4000);
	fixture_edge(slice, 0, 2, 6000, 5000);
	fixture_edge(slice, 0, 3, 7000, 0);
	fixture_edge(slice, 0, 4, 2000, 4000);
	fixture_edge(slice, 0, 5, 0, 8000);
	assert_events(slice, FGT_STATE_FRAMES_NO,
		      "B work 0.000|E work 6.000|B nap 6.000|E nap 14.000|"
		      "B work 14.000|E work 15.000|B nap 15.000|E nap 23.000|"
		      "B work 23.000|E work 36.000|B nap 36.000|"
		      "B [not sampled: last known stack] 36.000|"
		      "E [not sampled: last known stack] 38.000|E nap 38.000|"
		      "B work 38.000|E work 42.000|B read 42.000|"
		      "E read 60.000");
}

/* It would be three events for each time that a thread is woken. */
static void brief_run_without_a_sample_is_a_gap(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(3);

	(void)state;
	fixture_main(slice, 3, "main;nap", FIXTURE_FUTEX);
	fixture_edge(slice, 0, 1, 2040, 2000);
	fixture_edge(slice, 0, 2, 2060, 2000);
	assert_events(slice, FGT_STATE_FRAMES_LEAF,
		      "B main 0.000|B nap 0.000|B futex 0.000|"
		      "E futex 7.960|B futex 8.000|E futex 17.940|"
		      "B [not sampled: last known stack] 17.940|"
		      "B running 17.940|E running 18.000|"
		      "E [not sampled: last known stack] 18.000|"
		      "B futex 18.000|E futex 30.000|E nap 30.000|"
		      "E main 30.000");
}

/* Two runs between blocked ticks, then a block before the next run. */
static void each_of_several_edges_is_drawn(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(3);

	(void)state;
	fixture_main(slice, 2, "nap", FIXTURE_FUTEX);
	fixture_run(slice, 0, 2, 1, fixture_stack(slice, "work"),
		    FGT_STATE_RUNNING);
	fixture_edge(slice, 0, 1, 9000, 8000);
	fixture_edge(slice, 0, 1, 5000, 4000);
	fixture_edge(slice, 0, 2, 6000, 5000);
	fixture_edge(slice, 0, 2, 1000, 0);
	assert_events(slice, FGT_STATE_FRAMES_LEAF,
		      "B nap 0.000|B futex 0.000|E futex 1.000|E nap 1.000|"
		      "B work 1.000|B [not sampled: last known stack] 1.000|"
		      "B running 1.000|E running 2.000|"
		      "E [not sampled: last known stack] 2.000|E work 2.000|"
		      "B nap 2.000|B futex 2.000|E futex 5.000|E nap 5.000|"
		      "B work 5.000|B [not sampled: last known stack] 5.000|"
		      "B running 5.000|E running 6.000|"
		      "E [not sampled: last known stack] 6.000|E work 6.000|"
		      "B nap 6.000|B futex 6.000|E futex 14.000|E nap 14.000|"
		      "B work 14.000|B [not sampled: last known stack] 14.000|"
		      "B running 14.000|E running 15.000|"
		      "E [not sampled: last known stack] 15.000|E work 15.000|"
		      "B nap 15.000|B [not sampled: last known stack] 15.000|"
		      "B blocked 15.000|E blocked 19.000|"
		      "E [not sampled: last known stack] 19.000|E nap 19.000|"
		      "B work 19.000|B running 19.000|E running 30.000|"
		      "E work 30.000");
}

/* Some of what happened would be more than what happened. */
static void edges_that_do_not_lead_on_are_left_out(void **state)
{
	struct fgt_ring_slice *slice = sleeper();

	(void)state;
	slice->runs[1] = slice->runs[2];
	slice->runs[1].first_tick = 2;
	slice->run_count = 2;
	fixture_edge(slice, 0, 1, 5000, 0);
	fixture_edge(slice, 0, 2, 0, 1000);
	assert_events(slice, FGT_STATE_FRAMES_NO,
		      "B main 0.000|B nap 0.000|E nap 15.000|"
		      "B wait 15.000|E wait 30.000|E main 30.000");
}

/* A wait for a CPU begins and ends midway, where blocks do not end it. */
static void waits_for_a_cpu_lie_between_edges(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(4);

	(void)state;
	fixture_main(slice, 2, "main;nap", FGT_STATE_RUNNABLE);
	fixture_run(slice, 0, 2, 1, fixture_stack(slice, "main;work"),
		    FGT_STATE_RUNNING);
	fixture_run(slice, 0, 3, 1, fixture_stack(slice, "main;wait"),
		    FIXTURE_FUTEX);
	fixture_edge(slice, 0, 2, 3000, 0);
	fixture_edge(slice, 0, 3, 0, 1500);
	assert_events(
		slice, FGT_STATE_FRAMES_NO,
		"B main 0.000|B nap 0.000|E nap 17.000|B work 17.000|"
		"E work 28.500|B wait 28.500|E wait 40.000|E main 40.000");
}

static void a_wait_after_a_block_goes_on_from_midway(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(3);

	(void)state;
	fixture_main(slice, 1, "work", FGT_STATE_RUNNING);
	fixture_run(slice, 0, 1, 1, fixture_stack(slice, "nap"),
		    FGT_STATE_RUNNABLE);
	fixture_run(slice, 0, 2, 1, fixture_stack(slice, "nap"), FIXTURE_FUTEX);
	fixture_edge(slice, 0, 1, 0, 8000);
	/* It had been put off, and ran on before it blocked. */
	fixture_edge(slice, 0, 2, 0, 2000);
	assert_events(slice, FGT_STATE_FRAMES_ROOT,
		      "B running 0.000|B work 0.000|E work 2.000|"
		      "E running 2.000|B blocked 2.000|B nap 2.000|"
		      "B [not sampled: last known stack] 2.000|"
		      "E [not sampled: last known stack] 6.000|E nap 6.000|"
		      "E blocked 6.000|B runnable 6.000|B nap 6.000|"
		      "E nap 14.000|E runnable 14.000|B running 14.000|"
		      "B work 14.000|B [not sampled: last known stack] 14.000|"
		      "E [not sampled: last known stack] 18.000|"
		      "E work 18.000|E running 18.000|B futex 18.000|"
		      "B nap 18.000|E nap 30.000|E futex 30.000");
}

/* Whatever a file claims: ts never goes back, nothing stays open. */
static void impossible_edges_are_left_out(void **state)
{
	struct fgt_ring_slice *slice = sleeper();

	(void)state;
	fixture_edge(slice, 0, 0, 5000, UINT32_MAX);
	fixture_edge(slice, 0, 1, 2000, 7000); /* left before it came */
	fixture_edge(slice, 0, 2, 20001, 3000); /* before the slice */
	fixture_edge(slice, 0, 3, 0, 16000); /* before the run before */
	assert_events(
		slice, FGT_STATE_FRAMES_NO,
		"B main 0.000|B nap 0.000|E nap 15.000|B work 15.000|"
		"E work 25.000|B wait 25.000|E wait 40.000|E main 40.000");
}

/* Samples fall, the thread goes to sleep, and only then does the sampler get a
 * CPU and read the tick's time. */
static void an_edge_may_lie_before_the_last_tick(void **state)
{
	struct fgt_ring_slice *slice = sleeper();

	(void)state;
	fixture_edge(slice, 0, 3, 0, 13000);
	assert_events(
		slice, FGT_STATE_FRAMES_NO,
		"B main 0.000|B nap 0.000|E nap 15.000|B work 15.000|"
		"E work 17.000|B wait 17.000|E wait 40.000|E main 40.000");
}

static void block_after_missed_ticks_begins_at_its_edge(void **state)
{
	struct fgt_ring_slice *slice = sleeper();

	(void)state;
	for (uint32_t i = 2; i < 4; i++)
		slice->tick_ns[i] += 5 * FIXTURE_PERIOD_NS;
	slice->runs[1].state = FIXTURE_EPOLL;
	fixture_edge(slice, 0, 2, 45000, 4000);
	slice->run_count = 2;
	assert_events(slice, FGT_STATE_FRAMES_NO,
		      "B main 0.000|B nap 0.000|E nap 20.000|E main 20.000|"
		      "B main 66.000|B work 66.000|"
		      "E work 80.000|E main 80.000");
}

static void edges_stay_with_their_threads(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(3);
	uint32_t nap = fixture_stack(slice, "nap");

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		fixture_thread(slice, 10 + (int32_t)i, "t");
		fixture_run(slice, i, 0, 2, nap, FIXTURE_FUTEX);
		fixture_run(slice, i, 2, 1, nap, FGT_STATE_RUNNING);
	}
	fixture_edge(slice, 0, 1, 0, 5); /* one end only: not shown */
	fixture_edge(slice, 2, 2, 4000, 0);
	assert_events(
		slice, FGT_STATE_FRAMES_LEAF,
		"B nap 0.000|B futex 0.000|E futex 15.000|B running 15.000|"
		"E running 30.000|E nap 30.000|B nap 0.000|B futex 0.000|"
		"E futex 15.000|B running 15.000|E running 30.000|"
		"E nap 30.000|B nap 0.000|B futex 0.000|E futex 16.000|"
		"B running 16.000|E running 30.000|E nap 30.000");
}

/* ---- Whatever a file claims --------------------------------------------- */

static uint64_t next_random(uint64_t *random)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	return *random >> 33;
}

/* Nearer than what is drawn between them is apart, or as far as can be. */
static void put_ticks_strangely(struct fgt_ring_slice *slice, bool is_near,
				uint64_t *random)
{
	slice->period_ns = is_near ? 1 + next_random(random) % 4
				   : UINT64_C(1) << next_random(random) % 64;
	for (uint32_t i = 1; i < slice->tick_count; i++) {
		unsigned int shift = i == 5 ? 31 : 29;
		uint64_t apart_ns =
			1 + (is_near ? next_random(random) % 4
				     : next_random(random) << shift);

		slice->tick_ns[i] = slice->tick_ns[i - 1] + apart_ns;
	}
}

static struct fgt_ring_slice *random_slice(uint64_t *random)
{
	static const char *const stacks[] = { "a", "a;b", "a;b;a", "b;a", "c" };
	static const uint32_t states[] = { FGT_STATE_RUNNING, FIXTURE_FUTEX,
					   FIXTURE_EPOLL, FGT_STATE_UNKNOWN };
	struct fgt_ring_slice *slice = fixture_new(12);

	fixture_thread(slice, 4242, "main");
	for (uint32_t i = 1; i < 12; i++) /* some are missed, some are near */
		slice->tick_ns[i] = slice->tick_ns[i - 1] +
				    (next_random(random) % 4
					     ? 10000
					     : next_random(random) % 40000);
	for (uint32_t i = 1; i < 12; i++)
		slice->tick_ns[i] += 2000 * i;
	slice->period_ns = 10000;
	for (uint32_t tick = 0, count; tick < 12; tick += count) {
		count = 1 + (uint32_t)next_random(random) % 3;
		if (count > 12 - tick)
			count = 12 - tick;
		fixture_run(
			slice, 0, tick, count,
			fixture_stack(slice, stacks[next_random(random) % 5]),
			states[next_random(random) % 4]);
		tick += next_random(random) % 8 == 0;
	}
	for (uint32_t tick = 0; tick < 12; tick++)
		for (uint32_t us = 50; us > 10 && next_random(random) % 4;
		     us -= 10)
			fixture_edge(slice, 0, tick,
				     us - (uint32_t)next_random(random) % 10,
				     us - (uint32_t)next_random(random) % 10);
	return slice;
}

/* Time never goes back, and what closes is what was opened last. An X may lie
 * in another one of the same times. */
static void assert_order(const char *json)
{
	const char *line = json;
	char open[64][200];
	long double last = 0, whole_ts = -1, whole_dur = -1;
	int depth = 0;

	while ((line = strstr(line, "\n{\"name\":\""))) {
		char name[200], phase, buffer[EVENT_LINE_MAX];
		long double ts, dur = -2;

		line++;
		if (sscanf(event_line(line, buffer),
			   "{\"name\":\"%199[^\"]\",\"ph\":\"%c\",\"pid\":"
			   "4242,\"tid\":4242,\"ts\":%Lf,\"dur\":%Lf}",
			   name, &phase, &ts, &dur) < 3 ||
		    phase == 'M')
			continue;
		if (ts == whole_ts && dur == whole_dur)
			continue;
		/* µs; sums are rounded where times are of centuries. */
		assert_true(ts >= last - 0.002L);
		last = ts;
		if (phase == 'X') {
			last = ts + dur;
			whole_ts = ts;
			whole_dur = dur;
		} else if (phase == 'B') {
			strcpy(open[depth++], name);
		} else {
			assert_true(depth > 0);
			assert_string_equal(name, open[--depth]);
		}
	}
	assert_int_equal(depth, 0);
}

static void no_edge_breaks_time_or_nesting(void **state)
{
	uint64_t random = 1;

	(void)state;
	for (uint32_t round = 0; round < 20000; round++) {
		struct fgt_ring_slice *slice = random_slice(&random);
		struct fixture_buffer buffer;

		if (round % 4 < 2)
			put_ticks_strangely(slice, round % 4, &random);
		assert_true(fgt_slice_is_valid(slice));
		buffer =
			write_chrome(slice, (enum fgt_state_frames)(round % 4));
		assert_order(buffer.bytes);
		fixture_buffer_done(&buffer);
		fgt_ring_slice_free(slice);
	}
}

/* It was sampled at 0, 40 and 80 ms, another process each 10 ms. */
static void edges_of_slower_process_are_drawn(void **state)
{
	struct fgt_ring_slice *fast = fixture_new(9), *slow = sleeper(), *both;
	const struct fgt_ring_slice *slices[] = { fast, slow };
	struct fixture_buffer buffer;
	char events[4096];

	(void)state;
	fixture_run(fast, fixture_thread(fast, 1, "fast"), 0, 9,
		    fixture_stack(fast, "main"), FGT_STATE_RUNNING);
	slow->tick_count = 3;
	slow->run_count = 2;
	for (uint32_t i = 0; i < 3; i++)
		slow->tick_ns[i] = fast->tick_ns[4 * i];
	assert_int_equal(fgt_pace_add(slow, 0, 4), 0);
	slow->state_count--; /* of the run that was left out */
	fixture_edge(slow, 0, 2, 35000, 30000);
	fixture_edge(slow, 0, 2, 5000, 0);
	assert_true(fgt_slice_is_valid(slow));
	assert_int_equal(fgt_slice_merge(slices, 2, &both), 0);
	buffer = write_chrome(both, FGT_STATE_FRAMES_NO);
	summarise(buffer.bytes, 0, events, sizeof(events));
	assert_non_null(strstr(events, "45.000"));
	assert_non_null(strstr(events, "50.000"));
	assert_non_null(strstr(events, "B work 75.000"));
	fixture_buffer_done(&buffer);
	fgt_ring_slice_free(fast);
	fgt_ring_slice_free(slow);
	fgt_ring_slice_free(both);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_begin_and_end_at_their_edges),
		cmocka_unit_test(thread_that_ran_between_equal_blocks_has_two),
		cmocka_unit_test(
			between_two_blocks_a_thread_ran_with_the_stack_of_the_first),
		cmocka_unit_test(brief_run_without_a_sample_is_a_gap),
		cmocka_unit_test(each_of_several_edges_is_drawn),
		cmocka_unit_test(only_where_samples_differ_is_there_a_marker),
		cmocka_unit_test(edges_that_do_not_lead_on_are_left_out),
		cmocka_unit_test(waits_for_a_cpu_lie_between_edges),
		cmocka_unit_test(a_wait_after_a_block_goes_on_from_midway),
		cmocka_unit_test(impossible_edges_are_left_out),
		cmocka_unit_test(an_edge_may_lie_before_the_last_tick),
		cmocka_unit_test(block_after_missed_ticks_begins_at_its_edge),
		cmocka_unit_test(edges_stay_with_their_threads),
		cmocka_unit_test(what_lies_between_ticks_alike_is_drawn),
		cmocka_unit_test(no_edge_breaks_time_or_nesting),
		cmocka_unit_test(edges_of_slower_process_are_drawn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
