/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reasons of blocked threads in the ring: what is recorded is what is cut, what
 * it costs, and what happens without room.
 */
#include "tests/unit/ringbuf/ring/ring_kit.h"

#include <stdio.h>

#define FUTEX  (FGT_STATE_SYSCALL_FIRST + 202)
#define WAITED 5 /* tid of the thread that most tests have */

static struct fgt_wait lock_at(uint64_t address)
{
	return (struct fgt_wait){ .kind = FGT_WAIT_MUTEX,
				  .owner_tid = 17,
				  .address = address,
				  .timeout_ns = 2000000,
				  .number = -1,
				  .text = "held" };
}

static void set_lock(struct fgt_ring *ring, uint32_t slot, uint64_t address)
{
	struct fgt_wait wait = lock_at(address);

	assert_int_equal(fgt_ring_set_wait(ring, slot, &wait), 0);
}

static void begin(struct fgt_ring *ring, uint64_t tick)
{
	fgt_ring_tick_begin(ring, tick * PERIOD_NS, tick, 0);
}

/* A tick at which the thread blocks in a lock. */
static void block_tick(struct fgt_ring *ring, uint32_t slot, uint64_t tick,
		       uint64_t address)
{
	begin(ring, tick);
	kit_set(ring, slot, 100, 3, FUTEX);
	set_lock(ring, slot, address);
	fgt_ring_tick_commit(ring);
}

/* The lock that the thread waits for at a tick, 0: none. */
static uint64_t lock_of(const struct fgt_ring_slice *slice, uint32_t tick)
{
	const struct fgt_run *run = kit_run(slice, WAITED, tick);

	assert_non_null(run);
	return run->wait ? slice->waits[run->wait - 1].address : 0;
}

static uint64_t log_bytes(const struct fgt_ring *ring)
{
	struct fgt_ring_stats stats;

	fgt_ring_get_stats(ring, &stats);
	return stats.log_used_bytes;
}

static void reason_is_cut_as_it_was_set(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot = kit_thread(ring, WAITED);
	const struct fgt_slice_wait *wait;

	(void)state;
	block_tick(ring, slot, 1, 0x7f0012345678);
	kit_tick(ring, 2 * PERIOD_NS);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->run_count, 1);
	assert_int_equal(slice->wait_count, 1);
	assert_int_equal(slice->runs[0].wait, 1);
	wait = slice->waits;
	assert_int_equal(wait->kind, FGT_WAIT_MUTEX);
	assert_int_equal(wait->owner_tid, 17);
	assert_int_equal(wait->address, 0x7f0012345678);
	assert_int_equal(wait->timeout_ns, 2000000);
	assert_int_equal(wait->number, -1);
	assert_string_equal(fgt_slice_string(slice, wait->text), "held");
	assert_int_equal(wait->object, 0);
}

static void reason_holds_until_state_or_stack_change(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot = kit_thread(ring, WAITED);
	struct fgt_edge_list edges = { .count = 2 };

	(void)state;
	block_tick(ring, slot, 1, 0x10);
	/* Key frames, equal sets and edges leave it. */
	for (uint64_t tick = 2; tick <= 300; tick++) {
		begin(ring, tick);
		if (tick == 50)
			kit_set(ring, slot, 100, 3, FUTEX);
		edges.ns[0] = tick * PERIOD_NS - 5000000;
		edges.ns[1] = tick * PERIOD_NS - 4000000;
		edges.is_on_first = true;
		if (tick == 60)
			assert_int_equal(fgt_ring_set_edges(ring, slot, &edges),
					 0);
		fgt_ring_tick_commit(ring);
	}
	begin(ring, 301);
	kit_set(ring, slot, 101, 3, FUTEX);
	fgt_ring_tick_commit(ring);
	block_tick(ring, slot, 302, 0x20);
	begin(ring, 303);
	assert_int_equal(fgt_ring_set_state(ring, slot, FUTEX + 1, 0, 0), 0);
	fgt_ring_tick_commit(ring);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->run_count, 4);
	assert_int_equal(slice->runs[0].tick_count, 300);
	assert_int_equal(lock_of(slice, 299), 0x10);
	assert_int_equal(lock_of(slice, 300), 0);
	assert_int_equal(lock_of(slice, 301), 0x20);
	assert_int_equal(lock_of(slice, 302), 0);
}

static void new_reason_begins_a_run_with_its_credit(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot = kit_thread(ring, WAITED);

	(void)state;
	block_tick(ring, slot, 1, 0x10);
	for (uint64_t tick = 2; tick <= 9; tick++)
		kit_tick(ring, tick * PERIOD_NS);
	begin(ring, 10);
	set_lock(ring, slot, 0x20); /* the order is free */
	assert_int_equal(fgt_ring_set_state(ring, slot, FUTEX, 0, 3), 0);
	fgt_ring_tick_commit(ring);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->run_count, 2);
	assert_int_equal(lock_of(slice, 5), 0x10);
	assert_int_equal(lock_of(slice, 6), 0x20);
	assert_int_equal(lock_of(slice, 9), 0x20);
}

static void reason_is_for_blocked_ticks_only(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot = kit_thread(ring, WAITED);

	(void)state;
	begin(ring, 1);
	kit_set(ring, slot, 100, 3, FGT_STATE_RUNNING);
	set_lock(ring, slot, 0x10);
	fgt_ring_tick_commit(ring);
	block_tick(ring, slot, 2, 0x20);
	kit_tick(ring, 3 * PERIOD_NS);
	/* It ran at the last two ticks, and has blocked again. */
	begin(ring, 4);
	assert_int_equal(
		fgt_ring_set_past(ring, slot, NULL, 0, FGT_STATE_RUNNING, 1),
		0);
	fgt_ring_tick_commit(ring);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(lock_of(slice, 0), 0);
	assert_int_equal(lock_of(slice, 1), 0x20);
	assert_int_equal(lock_of(slice, 2), 0);
	assert_int_equal(kit_run(slice, WAITED, 2)->state, FGT_STATE_RUNNING);
	assert_int_equal(lock_of(slice, 3), 0);
	assert_int_equal(kit_run(slice, WAITED, 3)->state, FUTEX);
	assert_int_equal(slice->wait_count, 1);
}

static void reason_of_a_thread_that_is_put_off_is_forgotten(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot;

	(void)state;
	kit_tick(ring, PERIOD_NS);
	begin(ring, 2);
	slot = kit_thread(ring, WAITED);
	set_lock(ring, slot, 0x10);
	assert_int_equal(fgt_ring_thread_put_off(ring, slot), 0);
	fgt_ring_tick_commit(ring);
	begin(ring, 3);
	kit_set(ring, slot, 100, 3, FUTEX);
	fgt_ring_tick_commit(ring);
	kit_tick(ring, 4 * PERIOD_NS);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_null(kit_run(slice, WAITED, 1));
	assert_int_equal(lock_of(slice, 2), 0);
}

static void reason_costs_8_bytes_and_an_equal_one_nothing(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	uint32_t slot = kit_thread(ring, WAITED);
	uint64_t before;

	(void)state;
	kit_tick(ring, PERIOD_NS);
	before = log_bytes(ring);
	block_tick(ring, slot, 2, 0x10); /* TICK, WAIT, CHANGE */
	assert_int_equal(log_bytes(ring) - before, 24);
	before = log_bytes(ring);
	block_tick(ring, slot, 3, 0x10);
	assert_int_equal(log_bytes(ring) - before, 8);
	block_tick(ring, slot, 4, 0x20);
	assert_int_equal(log_bytes(ring) - before, 8 + 24);
}

static void equal_reasons_of_all_threads_are_one(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_wait wait = lock_at(0x10);

	(void)state;
	begin(ring, 1);
	for (int32_t tid = 1; tid <= 100; tid++) {
		uint32_t slot = kit_thread(ring, tid);

		kit_set(ring, slot, (uint64_t)tid << 20, 3, FUTEX);
		/* What lies behind the text is not part of it. */
		memset(wait.text, tid, sizeof(wait.text));
		snprintf(wait.text, sizeof(wait.text), "held");
		assert_int_equal(fgt_ring_set_wait(ring, slot, &wait), 0);
	}
	fgt_ring_tick_commit(ring);
	kit_tick(ring, 2 * PERIOD_NS);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->wait_count, 1);
	for (uint32_t i = 0; i < slice->run_count; i++)
		assert_int_equal(slice->runs[i].wait, 1);
}

/* Tick 1 runs, 2 waits without names, 3 and 4 with them, 5 for others. */
static void names_of_events_are_those_of_the_first_tick_too(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_wait wait = { .kind = FGT_WAIT_EVENTS, .number = 5 };
	uint32_t slot = kit_thread(ring, WAITED);

	(void)state;
	begin(ring, 1);
	kit_set(ring, slot, 100, 3, FGT_STATE_RUNNING);
	fgt_ring_tick_commit(ring);
	begin(ring, 2);
	kit_set(ring, slot, 100, 3, FUTEX);
	assert_int_equal(fgt_ring_set_wait(ring, slot, &wait), 0);
	fgt_ring_tick_commit(ring);
	begin(ring, 3);
	strcpy(wait.text, "2 sockets");
	assert_int_equal(fgt_ring_set_wait(ring, slot, &wait), 0);
	fgt_ring_tick_commit(ring);
	kit_tick(ring, 4 * PERIOD_NS);
	begin(ring, 5);
	wait.number = 6;
	wait.text[0] = '\0';
	assert_int_equal(fgt_ring_set_wait(ring, slot, &wait), 0);
	fgt_ring_tick_commit(ring);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->run_count, 3);
	assert_int_equal(slice->runs[0].wait, 0);
	assert_int_equal(slice->runs[1].tick_count, 3);
	assert_string_equal(
		fgt_slice_string(slice,
				 slice->waits[slice->runs[1].wait - 1].text),
		"2 sockets");
	assert_int_equal(slice->waits[slice->runs[2].wait - 1].number, 6);
}

/* No tick goes for it, and there is room again as soon as they are too old. */
static void reason_without_room_is_unknown_and_counted(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 3, 1 << 20);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot = kit_thread(ring, WAITED), known = 0;
	struct fgt_ring_stats stats;

	(void)state;
	for (uint64_t tick = 1; tick <= 300; tick++)
		block_tick(ring, slot, tick, tick << 12);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	fgt_ring_get_stats(ring, &stats);
	assert_int_equal(stats.evicted_ticks, 0);
	assert_in_range(stats.lost_waits, 1, 250);
	for (uint32_t tick = 0; tick < 300; tick++) {
		uint64_t lock = lock_of(slice, tick);

		assert_true(!lock || lock == (uint64_t)(tick + 1) << 12);
		known += lock != 0;
	}
	assert_int_equal(known, 300 - stats.lost_waits);
	block_tick(ring, slot, 1000, 0x10);
	block_tick(ring, slot, 2000, 0x20);
	kit_tick(ring, 2001 * (uint64_t)PERIOD_NS);
	fgt_ring_slice_free(slice);
	slice = kit_cut(ring, 2000 * (uint64_t)PERIOD_NS, UINT64_MAX);
	assert_int_equal(lock_of(slice, 0), 0x20);
}

static void reasons_that_no_tick_has_are_given_back(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 1, 1 << 20);
	struct fgt_ring_stats stats;

	(void)state;
	/* Far more than there is room for, of threads that end. */
	for (uint64_t tick = 1; tick <= 5000; tick++) {
		uint32_t slot = kit_thread(ring, WAITED);

		block_tick(ring, slot, 2 * tick, tick << 12);
		begin(ring, 2 * tick + 1);
		set_lock(ring, slot, 1);
		assert_int_equal(fgt_ring_thread_end(ring, slot), 0);
		fgt_ring_tick_commit(ring);
	}
	fgt_ring_get_stats(ring, &stats);
	assert_int_equal(stats.lost_waits, 0);
}

static void wrong_reasons_are_refused(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	uint32_t slot = kit_thread(ring, WAITED);
	struct fgt_wait wait = { .kind = FGT_WAIT_KINDS };

	(void)state;
	begin(ring, 1);
	assert_int_equal(fgt_ring_set_wait(ring, slot, &wait), -EINVAL);
	wait.kind = FGT_WAIT_SLEEP;
	assert_int_equal(fgt_ring_set_wait(ring, 99, &wait), -EINVAL);
	assert_int_equal(fgt_ring_set_wait(ring, slot, &wait), 0);
	fgt_ring_tick_commit(ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reason_is_cut_as_it_was_set),
		cmocka_unit_test(reason_holds_until_state_or_stack_change),
		cmocka_unit_test(new_reason_begins_a_run_with_its_credit),
		cmocka_unit_test(reason_is_for_blocked_ticks_only),
		cmocka_unit_test(
			reason_of_a_thread_that_is_put_off_is_forgotten),
		cmocka_unit_test(reason_costs_8_bytes_and_an_equal_one_nothing),
		cmocka_unit_test(equal_reasons_of_all_threads_are_one),
		cmocka_unit_test(
			names_of_events_are_those_of_the_first_tick_too),
		cmocka_unit_test(reason_without_room_is_unknown_and_counted),
		cmocka_unit_test(reasons_that_no_tick_has_are_given_back),
		cmocka_unit_test(wrong_reasons_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
