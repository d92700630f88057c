/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring as callers see it, with a clock moved by hand; has the properties
 * that the tests of sentry-go and of Go's flight recorder check.
 */
#include "tests/unit/ringbuf/ring/ring_kit.h"

/* Fault T4. 100 ticks before, then exactly as many as the ring keeps. */
static void overfull_ring_yields_its_last_ticks_only(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint64_t tick = 0, from_ns, to_ns;

	(void)state;
	kit_thread(ring, 1);
	while (tick < 100)
		kit_tick(ring, ++tick * PERIOD_NS);
	from_ns = (tick + 1) * PERIOD_NS;
	while (tick < 3130)
		kit_tick(ring, ++tick * PERIOD_NS);
	to_ns = tick * PERIOD_NS;
	while (tick < 3135)
		kit_tick(ring, ++tick * PERIOD_NS);
	slice = kit_cut(ring, from_ns, to_ns);
	kit_validate(slice);
	assert_int_equal(slice->tick_count, 3025);
	assert_int_equal(slice->evicted_ticks, 5);
	assert_int_equal(slice->tick_ns[0], 106 * (uint64_t)PERIOD_NS);
	assert_int_equal(slice->tick_ns[3024], to_ns);
	fgt_ring_slice_free(slice);
	slice = kit_cut(ring, 0, UINT64_MAX);
	assert_int_equal(slice->tick_count, 3030);
	assert_int_equal(slice->evicted_ticks, 105);
}

/* Sample k of a thread lies at least k periods in. */
static void ticks_keep_their_rate_and_the_slice_has_it(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;

	(void)state;
	kit_thread(ring, 1);
	for (uint64_t tick = 1; tick <= 51; tick++)
		kit_tick(ring, tick * PERIOD_NS);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->period_ns, PERIOD_NS);
	for (uint64_t k = 0; k < slice->tick_count; k++)
		assert_int_equal(slice->tick_ns[k] - slice->tick_ns[0],
				 k * PERIOD_NS);
	assert_true(slice->effective_hz > 100.99 &&
		    slice->effective_hz < 101.01);
	assert_int_equal(slice->missed_ticks, 0);
}

/* Tables grow only by what is new. */
static void tables_grow_by_what_is_new_only(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	struct fgt_ring_stats empty, before, stats;
	uint32_t slots[4];

	(void)state;
	fgt_ring_get_stats(ring, &empty);
	assert_int_equal(empty.ticks, 0);
	assert_int_equal(empty.changes, 0);
	assert_int_equal(empty.threads, 0);
	assert_int_equal(empty.oldest_ns, 0);
	for (int i = 0; i < 4; i++)
		slots[i] = kit_thread(ring, 10 + i);
	for (uint64_t pass = 1; pass <= 3; pass++) {
		fgt_ring_get_stats(ring, &before);
		fgt_ring_tick_begin(ring, pass * PERIOD_NS, 0, 0);
		for (int i = 0; i < 4; i++)
			kit_set(ring, slots[i], i ? 100 : 100 + pass, 8, 64);
		fgt_ring_tick_commit(ring);
		fgt_ring_get_stats(ring, &stats);
		assert_int_equal(stats.ticks, pass);
		assert_int_equal(stats.size_bytes, empty.size_bytes);
		if (pass == 1)
			continue;
		/* Another address at every depth except the root. */
		assert_int_equal(stats.nodes, before.nodes + 7);
		assert_int_equal(stats.frames, before.frames + 1);
		assert_int_equal(stats.changes, before.changes + 1);
	}
	assert_int_equal(stats.threads, 4);
}

/* G3, S2: nothing to cut with fewer than two ticks. */
static void fewer_than_two_ticks_are_no_data(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(0, 0, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint64_t oldest_ns, newest_ns;

	(void)state;
	kit_thread(ring, 1);
	assert_int_equal(fgt_ring_cut(ring, 0, UINT64_MAX, &slice), -ENODATA);
	kit_tick(ring, 1000);
	assert_int_equal(fgt_ring_cut(ring, 0, UINT64_MAX, &slice), -ENODATA);
	assert_int_equal(fgt_ring_range(ring, &oldest_ns, &newest_ns),
			 -ENODATA);
	kit_tick(ring, 2000);
	assert_int_equal(fgt_ring_cut(ring, 0, 1999, &slice), -ENODATA);
	assert_int_equal(fgt_ring_cut(ring, 1001, 2000, &slice), -ENODATA);
	assert_null(slice);
	slice = kit_cut(ring, 1000, 2000); /* inclusive */
	kit_validate(slice);
	assert_int_equal(fgt_ring_range(ring, &oldest_ns, &newest_ns), 0);
	assert_int_equal(oldest_ns, 1000);
	assert_int_equal(newest_ns, 2000);
}

static void a_blank_slice_is_of_its_process_and_time(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(0, 0, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const struct fgt_process_info process = { .pid = 4711,
						  .name = "blank" };

	(void)state;
	fgt_ring_set_process(ring, &process);
	assert_int_equal(fgt_ring_blank(ring, 5, 5, &slice), -EINVAL);
	assert_int_equal(fgt_ring_blank(ring, 1000, 9000, &slice), 0);
	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(slice->process.pid, 4711);
	assert_string_equal(slice->process.name, "blank");
	assert_int_equal(slice->tick_ns[0], 1000);
	assert_int_equal(slice->tick_ns[1], 9000);
	assert_int_equal(slice->thread_count + slice->run_count, 0);
}

static void range_outside_the_ring_is_refused_at_once(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 1, 0);
	struct fgt_ring_slice *slice = NULL;

	(void)state;
	kit_thread(ring, 1);
	for (uint64_t tick = 1; tick <= 1000; tick++)
		kit_tick(ring, tick * PERIOD_NS);
	/* sentry-go never returns from the first of these. */
	assert_int_equal(fgt_ring_cut(ring, 0, 100 * PERIOD_NS, &slice),
			 -ENODATA);
	assert_int_equal(fgt_ring_cut(ring, 1001 * (uint64_t)PERIOD_NS,
				      UINT64_MAX, &slice),
			 -ENODATA);
	assert_int_equal(fgt_ring_cut(ring, 5, 4, &slice), -EINVAL);
	assert_null(slice);
}

/* G4: two slices at once are both whole, and equal. */
static void two_cuts_of_one_range_are_equal(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *left = NULL, *right = NULL;
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	for (uint64_t tick = 1; tick <= 300; tick++) {
		fgt_ring_tick_begin(ring, tick * PERIOD_NS, 0, 0);
		kit_set(ring, slot, 100 + tick / 3, 5, 0);
		fgt_ring_tick_commit(ring);
	}
	left = kit_cut(ring, 0, UINT64_MAX);
	right = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(left);
	assert_int_equal(left->run_count, 101);
	assert_int_equal(left->run_count, right->run_count);
	assert_memory_equal(left->runs, right->runs,
			    left->run_count * sizeof(*left->runs));
	assert_memory_equal(left->nodes, right->nodes,
			    left->node_count * sizeof(*left->nodes));
}

/* G5, G6: round after round the event just before the cut is in it. */
static void last_tick_before_the_cut_is_in_it(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 2, 0);
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	for (uint64_t tick = 1; tick <= 500; tick++) {
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *slice = NULL;
		uint64_t now_ns = tick * PERIOD_NS;

		fgt_ring_tick_begin(ring, now_ns, 0, 0);
		kit_set(ring, slot, 100 + tick, 5, 0);
		fgt_ring_tick_commit(ring);
		if (tick == 1)
			continue;
		slice = kit_cut(ring, 0, now_ns);
		assert_int_equal(slice->tick_ns[slice->tick_count - 1], now_ns);
		assert_int_equal(
			kit_leaf(slice,
				 kit_run(slice, 1, slice->tick_count - 1)),
			100 + tick);
	}
}

/* G7: a ring of a second, run for minutes, holds about a second. */
static void small_ring_holds_no_more_than_it_should(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 1, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_ring_stats stats;

	(void)state;
	kit_thread(ring, 1);
	for (uint64_t tick = 1; tick <= 30000; tick++)
		kit_tick(ring, tick * PERIOD_NS);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->tick_count, 101);
	assert_true(slice->anchor_count <= 3);
	fgt_ring_get_stats(ring, &stats);
	assert_true(stats.log_used_bytes <= (3 * 103 + 3) * 8);
	assert_int_equal(stats.evicted_ticks, 0);
}

static void idle_thread_costs_eight_bytes_a_second(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_ring_stats stats;
	uint64_t ticks = 0;

	(void)state;
	for (int32_t tid = 1; tid <= 1000; tid++)
		kit_thread(ring, tid);
	while (ticks < 3030)
		kit_tick(ring, ++ticks * PERIOD_NS);
	fgt_ring_get_stats(ring, &stats);
	/* One word a tick, and one a thread in each second begun. */
	assert_true(stats.log_used_bytes <= 8 * (ticks + 1000 * 30));
	assert_int_equal(stats.changes, 1000);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->run_count, 1000);
	assert_int_equal(slice->runs[999].tick_count, 3030);
}

static void changed_sample_costs_eight_bytes(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	struct fgt_ring_stats before, after;
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	for (uint64_t tick = 1; tick <= 12; tick++) {
		if (tick == 3)
			fgt_ring_get_stats(ring, &before);
		fgt_ring_tick_begin(ring, tick * PERIOD_NS, 0, 0);
		kit_set(ring, slot, tick % 2 ? 100 : 200, 5, 0);
		fgt_ring_tick_commit(ring);
	}
	fgt_ring_get_stats(ring, &after);
	assert_int_equal(after.log_used_bytes - before.log_used_bytes,
			 10 * (8 + 8));
	assert_int_equal(after.nodes, before.nodes);
}

static void clock_that_stands_or_runs_back_still_moves_the_ring(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;

	(void)state;
	kit_thread(ring, 1);
	kit_tick(ring, 5000);
	kit_tick(ring, 5000);
	kit_tick(ring, 10);
	kit_tick(ring, UINT64_MAX);
	kit_tick(ring, UINT64_MAX);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->tick_count, 5);
	assert_int_equal(slice->tick_ns[1], 5001);
	assert_int_equal(slice->tick_ns[2], 5002);
}

/* Fault T1. */
static void wall_clock_step_gets_its_own_anchor(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(10, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const uint64_t second = 1000000000;

	(void)state;
	kit_thread(ring, 1);
	for (uint64_t tick = 1; tick <= 50; tick++) {
		uint64_t mono_ns = tick * (second / 10);
		uint64_t step_ns = tick > 25 ? 3600 * second : 0;

		fgt_ring_tick_begin(ring, mono_ns, mono_ns + 7 + step_ns, 0);
		fgt_ring_tick_commit(ring);
	}
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->anchor_count, 5);
	assert_int_equal(fgt_slice_wall_ns(slice, second), second + 7);
	assert_int_equal(fgt_slice_wall_ns(slice, 4 * second),
			 4 * second + 7 + 3600 * second);
	fgt_ring_slice_free(slice);
	/* A slice that begins within a second has that second's anchor. */
	slice = kit_cut(ring, second * 35 / 10, second * 38 / 10);
	assert_int_equal(slice->anchor_count, 1);
	assert_true(slice->anchors[0].mono_ns <= slice->tick_ns[0]);
	assert_int_equal(fgt_slice_wall_ns(slice, slice->tick_ns[0]),
			 slice->tick_ns[0] + 7 + 3600 * second);
}

static void options_out_of_range_are_refused(void **state)
{
	const struct fgt_ring_options bad[] = {
		{ .hz = 10001 },
		{ .seconds = 3601 },
		{ .size_bytes = (1 << 20) - 1 },
	};
	struct fgt_ring *ring = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(fgt_ring_new(&bad[i], &ring), -EINVAL);
	assert_null(ring);
	fgt_ring_free(NULL);
	ring = kit_ring(10000, 3600, 1 << 20);
	assert_int_equal(fgt_ring_fd(ring), -1);
	fgt_ring_free(ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overfull_ring_yields_its_last_ticks_only),
		cmocka_unit_test(ticks_keep_their_rate_and_the_slice_has_it),
		cmocka_unit_test(tables_grow_by_what_is_new_only),
		cmocka_unit_test(fewer_than_two_ticks_are_no_data),
		cmocka_unit_test(a_blank_slice_is_of_its_process_and_time),
		cmocka_unit_test(range_outside_the_ring_is_refused_at_once),
		cmocka_unit_test(two_cuts_of_one_range_are_equal),
		cmocka_unit_test(last_tick_before_the_cut_is_in_it),
		cmocka_unit_test(small_ring_holds_no_more_than_it_should),
		cmocka_unit_test(idle_thread_costs_eight_bytes_a_second),
		cmocka_unit_test(changed_sample_costs_eight_bytes),
		cmocka_unit_test(
			clock_that_stands_or_runs_back_still_moves_the_ring),
		cmocka_unit_test(wall_clock_step_gets_its_own_anchor),
		cmocka_unit_test(options_out_of_range_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
