/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wake-ups in the ring: what is recorded is what is cut, and what happens
 * without room.
 */
#include "tests/unit/ringbuf/ring/ring_kit.h"

#define WAITED 5 /* tid of the thread that most tests have */

static void begin(struct fgt_ring *ring, uint64_t tick)
{
	fgt_ring_tick_begin(ring, tick * PERIOD_NS, tick, 0);
}

static int wake(struct fgt_ring *ring, uint32_t slot, uint64_t at_ns,
		int32_t tid, uint64_t leaf)
{
	const struct fgt_frame frames[] = { { .address = leaf },
					    { .address = 1 } };
	const struct fgt_wake_source waker = {
		.pid = 900,
		.tid = tid,
		.context = FGT_WAKE_TASK,
		.name = "flusher",
		.frames = frames,
		.frame_count = leaf ? 2 : 0,
	};

	return fgt_ring_add_wake(ring, slot, at_ns, (uint32_t)tid * 10, &waker);
}

static void wake_up_is_cut_as_it_was_added(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot = kit_thread(ring, WAITED);
	const struct fgt_wake_source timer = { .context = FGT_WAKE_TIMER };
	const struct fgt_slice_waker *waker;

	(void)state;
	kit_tick(ring, PERIOD_NS);
	begin(ring, 2);
	assert_int_equal(wake(ring, slot, 2 * PERIOD_NS - 1234567, 901, 77), 0);
	assert_int_equal(fgt_ring_add_wake(ring, slot, 2 * PERIOD_NS + 99,
					   FGT_WAKE_DELAY_UNKNOWN, &timer),
			 0);
	fgt_ring_tick_commit(ring);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->wake_count, 2);
	assert_int_equal(slice->waker_count, 2);
	assert_int_equal(slice->wakes[0].at_ns, 2 * PERIOD_NS - 1234567);
	assert_int_equal(slice->wakes[0].thread, 0);
	assert_int_equal(slice->wakes[0].delay_us, 9010);
	waker = &slice->wakers[slice->wakes[0].waker];
	assert_int_equal(waker->pid, 900);
	assert_int_equal(waker->tid, 901);
	assert_int_equal(waker->context, FGT_WAKE_TASK);
	assert_string_equal(fgt_slice_string(slice, waker->name), "flusher");
	assert_int_equal(kit_depth(slice, waker->stack), 2);
	/* Later than its tick: at it. */
	assert_int_equal(slice->wakes[1].at_ns, 2 * PERIOD_NS);
	assert_int_equal(slice->wakes[1].delay_us, FGT_WAKE_DELAY_UNKNOWN);
	waker = &slice->wakers[slice->wakes[1].waker];
	assert_int_equal(waker->tid, 0);
	assert_int_equal(waker->context, FGT_WAKE_TIMER);
	assert_int_equal(waker->stack, FGT_NODE_NONE);
}

#define BLOCKED (FGT_STATE_SYSCALL_FIRST + 7)

static void delay_that_was_not_known_is_found_by_the_edges(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot = kit_thread(ring, WAITED);
	const uint64_t tick_ns = 2 * PERIOD_NS;
	const struct fgt_edge_list edges = { .count = 2,
					     .is_on_first = true,
					     .ns = { tick_ns - 4000000,
						     tick_ns - 3000000 } };
	const struct fgt_wake_source timer = { .context = FGT_WAKE_TIMER };
	const uint64_t before_ns[] = { 6000000, 4250000, 2000000 };

	(void)state;
	begin(ring, 1);
	kit_set(ring, slot, 100, 3, BLOCKED);
	fgt_ring_tick_commit(ring);
	begin(ring, 2);
	for (int i = 0; i < 3; i++)
		assert_int_equal(
			fgt_ring_add_wake(ring, slot, tick_ns - before_ns[i],
					  FGT_WAKE_DELAY_UNKNOWN, &timer),
			0);
	assert_int_equal(fgt_ring_set_edges(ring, slot, &edges), 0);
	fgt_ring_tick_commit(ring);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->wake_count, 3);
	/* It was woken again before it got a CPU, so far as is known. */
	assert_int_equal(slice->wakes[0].delay_us, FGT_WAKE_DELAY_UNKNOWN);
	assert_in_range(slice->wakes[1].delay_us, 248, 250);
	assert_int_equal(slice->wakes[2].delay_us, FGT_WAKE_DELAY_UNKNOWN);
}

static void wake_ups_are_by_thread_and_time_and_within_the_range(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slots[3] = { kit_thread(ring, 3), kit_thread(ring, 2),
			      kit_thread(ring, 1) };
	const uint64_t late_ns = PERIOD_NS / 2;

	(void)state;
	for (uint64_t tick = 1; tick <= 10; tick++) {
		begin(ring, tick);
		for (uint32_t i = 0; i < 6; i++)
			assert_int_equal(wake(ring, slots[i % 3],
					      tick * PERIOD_NS - late_ns -
						      (i < 3) * i * 1000,
					      1, 0),
					 0);
		fgt_ring_lose_wakes(ring, tick);
		fgt_ring_tick_commit(ring);
	}
	slice = kit_cut(ring, 4 * PERIOD_NS, 7 * PERIOD_NS);
	kit_validate(slice);
	/* Of ticks 5 to 7; those of tick 4 were before it. */
	assert_int_equal(slice->wake_count, 3 * 6);
	assert_int_equal(slice->waker_count, 1);
	assert_int_equal(slice->lost_wakes, 5 + 6 + 7);
	for (uint32_t i = 0; i < slice->wake_count; i++)
		assert_int_equal(slice->wakes[i].thread, i / 6);
}

static void wake_up_without_a_record_of_its_thread_has_no_effect(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot, other, ended = kit_thread(ring, WAITED);

	(void)state;
	kit_tick(ring, PERIOD_NS);
	begin(ring, 2);
	slot = kit_thread(ring, 7);
	assert_int_equal(wake(ring, slot, 2 * PERIOD_NS, 1, 5), 0);
	assert_int_equal(fgt_ring_thread_end(ring, slot), 0);
	assert_int_equal(wake(ring, ended, 2 * PERIOD_NS, 2, 6), 0);
	assert_int_equal(fgt_ring_thread_end(ring, ended), 0);
	assert_int_equal(wake(ring, ended, 2 * PERIOD_NS, 2, 6), -EINVAL);
	fgt_ring_tick_commit(ring);
	begin(ring, 3);
	other = kit_thread(ring, 8);
	assert_int_equal(other, slot); /* it must not get the other's */
	fgt_ring_tick_commit(ring);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->wake_count, 1);
	assert_int_equal(slice->threads[slice->wakes[0].thread].tid, WAITED);
}

/* Many: a part of the log and no more, and their stacks go with them. */
static void wake_ups_without_room_are_counted(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 4, 1 << 20);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot = kit_thread(ring, WAITED), lost = 0;
	struct fgt_ring_stats stats;

	(void)state;
	for (uint64_t tick = 1; tick <= 404; tick++) {
		begin(ring, tick);
		for (uint32_t i = 0; i < 50; i++) {
			int error = wake(ring, slot, tick * PERIOD_NS - i,
					 (int32_t)i + 1, (i + 1) << 8);

			assert_true(!error || error == -ENOSPC);
			lost += error != 0;
		}
		fgt_ring_tick_commit(ring);
	}
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	fgt_ring_get_stats(ring, &stats);
	assert_int_equal(stats.evicted_ticks, 0);
	assert_int_equal(stats.lost_wakes, lost);
	assert_in_range(lost, 1, 404 * 50 - 1);
	assert_int_equal(slice->lost_wakes, lost);
	/* The first tick has 49 before its instant. */
	assert_int_equal(slice->wake_count, 404 * 50 - lost - 49);
	assert_true(stats.log_used_bytes < stats.log_size_bytes / 3);
	assert_true(stats.nodes > 50);
	kit_tick(ring, 2000 * (uint64_t)PERIOD_NS);
	kit_tick(ring, 3000 * (uint64_t)PERIOD_NS);
	kit_tick(ring, 4000 * (uint64_t)PERIOD_NS);
	fgt_ring_get_stats(ring, &stats);
	assert_int_equal(stats.nodes, 1); /* of overflow */
}

static void too_many_wakers_are_lost_and_given_back(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 1, 1 << 20);
	uint32_t slot = kit_thread(ring, WAITED);
	struct fgt_ring_stats stats;
	int error = 0;
	int32_t tid = 0;

	(void)state;
	begin(ring, 1);
	while (!error)
		error = wake(ring, slot, PERIOD_NS, ++tid, 9);
	assert_int_equal(error, -ENOSPC);
	fgt_ring_tick_commit(ring);
	kit_tick(ring, 5000 * (uint64_t)PERIOD_NS);
	kit_tick(ring, 7000 * (uint64_t)PERIOD_NS);
	/* Each second as many as a table of them has room for, nearly. */
	for (uint64_t tick = 1; tick <= 5000; tick++) {
		begin(ring, 10000 + tick);
		tid++;
		assert_int_equal(wake(ring, slot, (10000 + tick) * PERIOD_NS,
				      tid, (uint64_t)tid << 8),
				 0);
		fgt_ring_tick_commit(ring);
	}
	fgt_ring_get_stats(ring, &stats);
	assert_int_equal(stats.lost_wakes, 1);
	assert_int_equal(stats.overflows, 0);
}

static void wrong_wake_ups_are_refused(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	uint32_t slot = kit_thread(ring, WAITED);
	const struct fgt_frame frame = { .image = 9 };
	struct fgt_wake_source waker = { .context = FGT_WAKE_CONTEXTS };

	(void)state;
	begin(ring, 1);
	assert_int_equal(fgt_ring_add_wake(ring, slot, 1, 0, &waker), -EINVAL);
	waker.context = FGT_WAKE_TASK;
	assert_int_equal(fgt_ring_add_wake(ring, 99, 1, 0, &waker), -EINVAL);
	waker.frames = &frame;
	waker.frame_count = 1;
	assert_int_equal(fgt_ring_add_wake(ring, slot, 1, 0, &waker), -EINVAL);
	fgt_ring_tick_commit(ring);
}

static uint64_t moved_ns(const struct fgt_ring *ring)
{
	/* A cut that holds none of the moves. */
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice =
		kit_cut(ring, 20 * PERIOD_NS, UINT64_MAX);

	return slice->threads[0].moved_ns;
}

static void run_until(struct fgt_ring *ring, uint64_t tick)
{
	for (uint64_t i = tick; i < 22; i++)
		kit_tick(ring, i * PERIOD_NS);
}

static void latest_move_is_known_to_cuts_after_it(void **state)
{
	const struct fgt_edge_list edges = {
		.count = 2,
		.is_on_first = true,
		.ns = { 2 * PERIOD_NS - 4000000, 2 * PERIOD_NS - 3000000 }
	};
	/* Changed, changed by credit, switched, woken, came later; moved, and
	 * edges do not show it; the same, and changed by credit. */
	static const uint64_t wanted_ticks[] = { 2, 1, 2, 2, 2, 1, 2, 2 };
	const struct fgt_frame frame = { .address = 9 };
	const struct fgt_wait wait = { .kind = FGT_WAIT_SLEEP };

	(void)state;
	for (int i = 0; i < 8; i++) {
		FGT_AUTO(fgt_ring_free)
		struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
		uint32_t slot = kit_thread(ring, WAITED);

		begin(ring, 1);
		if (i == 4)
			fgt_ring_thread_put_off(ring, slot);
		else
			kit_set(ring, slot, 100, 3, BLOCKED);
		fgt_ring_tick_commit(ring);
		begin(ring, 2);
		if (i == 0 || i == 4)
			kit_set(ring, slot, 100, 4, BLOCKED);
		if (i == 1 || i == 7)
			fgt_ring_set(ring, slot, &frame, 1, BLOCKED, 1);
		if (i == 2)
			fgt_ring_set_edges(ring, slot, &edges);
		if (i == 3)
			wake(ring, slot, 2 * PERIOD_NS - 5, 901, 77);
		if (i == 5) /* a reason that is known later is no move */
			fgt_ring_set_wait(ring, slot, &wait);
		if (i >= 6)
			fgt_ring_set_moved(ring, slot);
		fgt_ring_tick_commit(ring);
		run_until(ring, 3);
		assert_int_equal(moved_ns(ring), wanted_ticks[i] * PERIOD_NS);
	}
}

static void wake_up_that_comes_late_was_when_it_was(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	uint32_t slot = kit_thread(ring, WAITED);

	(void)state;
	kit_tick(ring, PERIOD_NS);
	kit_tick(ring, 2 * PERIOD_NS);
	kit_tick(ring, 3 * PERIOD_NS);
	begin(ring, 4);
	wake(ring, slot, 2 * PERIOD_NS - 5, 901, 77);
	fgt_ring_tick_commit(ring);
	run_until(ring, 5);
	assert_int_equal(moved_ns(ring), 2 * PERIOD_NS - 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wake_up_is_cut_as_it_was_added),
		cmocka_unit_test(latest_move_is_known_to_cuts_after_it),
		cmocka_unit_test(wake_up_that_comes_late_was_when_it_was),
		cmocka_unit_test(
			delay_that_was_not_known_is_found_by_the_edges),
		cmocka_unit_test(
			wake_ups_are_by_thread_and_time_and_within_the_range),
		cmocka_unit_test(
			wake_up_without_a_record_of_its_thread_has_no_effect),
		cmocka_unit_test(wake_ups_without_room_are_counted),
		cmocka_unit_test(too_many_wakers_are_lost_and_given_back),
		cmocka_unit_test(wrong_wake_ups_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
