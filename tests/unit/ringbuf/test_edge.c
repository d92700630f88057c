/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edges of blocks: what a ring keeps of them, at what cost, and what becomes
 * of them in a cut and in a narrower slice.
 */
#include "tests/unit/ringbuf/ring_kit.h"

#include "ringbuf/slice/edge.h"
#include "tests/unit/ringbuf/slice_fixture.h"

#define MS_NS UINT64_C(1000000)
#define FUTEX 64u
#define READ  65u

static uint64_t at(uint64_t tick)
{
	return tick * PERIOD_NS;
}

static uint64_t used_bytes(const struct fgt_ring *ring)
{
	struct fgt_ring_stats stats;

	fgt_ring_get_stats(ring, &stats);
	return stats.log_used_bytes;
}

/* A tick in which the thread has that state (always the same stack) and came
 * on a CPU and left it so long before; what it costs besides the tick. */
static uint64_t cost_of(struct fgt_ring *ring, uint32_t slot, uint64_t tick,
			uint32_t state, uint64_t on_ns, uint64_t off_ns)
{
	uint64_t before = used_bytes(ring);

	fgt_ring_tick_begin(ring, at(tick), 0, 0);
	assert_int_equal(fgt_ring_set_edge(ring, slot,
					   on_ns ? at(tick) - on_ns : 0,
					   off_ns ? at(tick) - off_ns : 0),
			 0);
	kit_set(ring, slot, 7, 2, state);
	fgt_ring_tick_commit(ring);
	return used_bytes(ring) - before - 8;
}

static void assert_edge(const struct fgt_ring_slice *slice, uint32_t index,
			uint32_t tick, uint32_t on_us, uint32_t off_us)
{
	assert_true(index < slice->edge_count);
	assert_int_equal(slice->edges[index].tick, tick);
	assert_int_equal(slice->edges[index].on_us, on_us);
	assert_int_equal(slice->edges[index].off_us, off_us);
}

static void an_edge_costs_one_word_where_a_block_has_one(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const uint64_t on = 3 * MS_NS, off = 1 * MS_NS;
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	kit_tick(ring, at(1));
	cost_of(ring, slot, 2, FGT_STATE_RUNNING, 0, 0);
	assert_int_equal(cost_of(ring, slot, 3, FGT_STATE_RUNNING, on, off), 0);
	assert_int_equal(cost_of(ring, slot, 4, FUTEX, 0, 0), 8);
	assert_int_equal(cost_of(ring, slot, 5, FUTEX, 0, 0), 0);
	assert_int_equal(cost_of(ring, slot, 6, FUTEX, on, off), 8);
	assert_int_equal(cost_of(ring, slot, 7, READ, on, off), 16);
	assert_int_equal(cost_of(ring, slot, 8, FGT_STATE_RUNNING, on, off),
			 16);
	assert_int_equal(cost_of(ring, slot, 9, FUTEX, on, off), 16);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->edge_count, 4);
	assert_edge(slice, 0, 5, 3001, 1001);
	assert_edge(slice, 1, 6, 3001, 1001);
	assert_edge(slice, 2, 7, 3001, 0); /* it ran at the tick */
	assert_edge(slice, 3, 8, 0, 1001); /* it ran before */
}

static void an_edge_may_come_before_or_after_the_stack(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	for (uint64_t tick = 1; tick <= 4; tick++) {
		fgt_ring_tick_begin(ring, at(tick), 0, 0);
		if (tick == 2)
			fgt_ring_set_edge(ring, slot, 0, at(2) - 10000);
		if (tick <= 2)
			kit_set(ring, slot, tick, 2, FUTEX);
		if (tick >= 2)
			fgt_ring_set_edge(ring, slot, at(tick) - 20000,
					  at(tick) - 10000);
		fgt_ring_tick_commit(ring);
	}
	assert_int_equal(fgt_ring_set_edge(ring, 99, 1, 1), -EINVAL);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->run_count, 2);
	assert_int_equal(kit_leaf(slice, kit_run(slice, 1, 3)), 2);
	assert_int_equal(slice->edge_count, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_edge(slice, i, i + 1, 21, 11);
}

static void edge_that_cannot_be_kept_is_unknown(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	fgt_ring_tick_begin(ring, 9000 * MS_NS, 0, 0);
	kit_set(ring, slot, 7, 2, FUTEX);
	fgt_ring_tick_commit(ring);
	/* Too long ago, in the future, and just now. */
	fgt_ring_tick_begin(ring, 9010 * MS_NS, 0, 0);
	fgt_ring_set_edge(ring, slot, 7000 * MS_NS, 9011 * MS_NS);
	fgt_ring_tick_commit(ring);
	fgt_ring_tick_begin(ring, 9020 * MS_NS, 0, 0);
	fgt_ring_set_edge(ring, slot, 9020 * MS_NS, 8000 * MS_NS);
	fgt_ring_tick_commit(ring);
	slice = kit_cut(ring, 0, UINT64_MAX);
	assert_int_equal(slice->edge_count, 1);
	assert_edge(slice, 0, 2, 1, 1020001);
	assert_int_equal(fgt_edge_ns(slice, 2, 1), 9020 * MS_NS - 1000);
	assert_int_equal(fgt_edge_ns(slice, 2, 0), 0);
	/* Before the slice begins. */
	assert_int_equal(fgt_edge_ns(slice, 2, 20001), 0);
	assert_int_equal(fgt_edge_ns(slice, 2, 20000), slice->tick_ns[0]);
}

/* Two threads, one of which falls asleep again at every tenth tick. */
static void sleep_again(struct fgt_ring *ring, const uint32_t slots[2],
			uint64_t tick)
{
	fgt_ring_tick_begin(ring, at(tick), 0, 0);
	if (tick == 1)
		for (int i = 0; i < 2; i++)
			kit_set(ring, slots[i], 7, 2, FUTEX);
	if (tick % 10 == 0)
		fgt_ring_set_edge(ring, slots[1], at(tick) - 2000 - tick * 1000,
				  at(tick) - 1000);
	fgt_ring_tick_commit(ring);
}

static void assert_tenth_ticks(const struct fgt_ring_slice *slice,
			       uint32_t thread)
{
	uint32_t seen = 0;

	assert_true(fgt_slice_is_valid(slice));
	for (uint32_t i = 0; i < slice->tick_count; i++) {
		uint64_t tick = slice->tick_ns[i] / PERIOD_NS;

		if (tick % 10)
			continue;
		assert_edge(slice, seen, i, (uint32_t)tick + 3, 2);
		assert_int_equal(slice->edges[seen++].thread, thread);
	}
	assert_int_equal(slice->edge_count, seen);
}

static void a_cut_has_the_edges_of_its_ticks(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 3, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	uint32_t slots[2] = { kit_thread(ring, 50), kit_thread(ring, 60) };

	(void)state;
	/* Nine seconds pass: most of it is too old at the end. */
	for (uint64_t tick = 1; tick <= 900; tick++)
		sleep_again(ring, slots, tick);
	slice = kit_cut(ring, 0, UINT64_MAX);
	assert_int_equal(slice->tick_count, 303);
	assert_tenth_ticks(slice, 1);
	assert_int_equal(fgt_slice_narrow(slice, at(700), at(760), 0, &part),
			 0);
	assert_int_equal(part->edge_count, 7);
	assert_tenth_ticks(part, 1);
	fgt_ring_slice_free(part);
	part = NULL;
	assert_int_equal(fgt_slice_narrow(slice, at(701), at(709), 0, &part),
			 0);
	assert_int_equal(part->edge_count, 0);
	fgt_ring_slice_free(part);
	part = NULL;
	/* The other thread gets a smaller number. */
	assert_int_equal(fgt_slice_narrow(slice, 0, UINT64_MAX, 60, &part), 0);
	assert_tenth_ticks(part, 0);
	fgt_ring_slice_free(part);
	part = NULL;
	assert_int_equal(fgt_slice_narrow(slice, 0, UINT64_MAX, 50, &part), 0);
	assert_int_equal(part->edge_count, 0);
	fgt_ring_slice_free(slice);
	slice = kit_cut(ring, at(790), at(800));
	assert_int_equal(slice->edge_count, 2);
	assert_tenth_ticks(slice, 1);
}

/* The threads are as many as fit, each with an edge and a new state at each
 * tick. */
static void a_flood_of_edges_stays_in_bounds(void **state)
{
	FGT_AUTO(fgt_ring_free)
	struct fgt_ring *ring = kit_ring(101, 30, 1 << 20);
	uint32_t slots[1000], count = 0;

	(void)state;
	while (count < 1000 && fgt_ring_thread_add(ring, (int32_t)count + 1, 7,
						   "t", &slots[count]) == 0)
		count++;
	assert_true(count > 10);
	for (uint64_t tick = 1; tick <= 2000; tick++) {
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *slice = NULL;

		fgt_ring_tick_begin(ring, at(tick), 0, 0);
		for (uint32_t i = 0; i < count; i++) {
			kit_set(ring, slots[i], 7, 2, FUTEX + tick % 2);
			fgt_ring_set_edge(ring, slots[i], at(tick) - 9000,
					  at(tick) - 4000);
		}
		fgt_ring_tick_commit(ring);
		if (tick % 100)
			continue;
		slice = kit_cut(ring, 0, UINT64_MAX);
		kit_validate(slice);
		assert_int_equal(slice->edge_count, slice->run_count);
		for (uint32_t i = 0; i < slice->edge_count; i++) {
			assert_int_equal(slice->edges[i].on_us, 10);
			assert_int_equal(slice->edges[i].off_us, 5);
		}
	}
}

static void disorder_is_not_valid(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_rich();
	struct fgt_edge *edges = slice->edges;

	(void)state;
	edges[1].tick = edges[0].tick;
	assert_false(fgt_slice_is_valid(slice));
	edges[1].tick = edges[0].tick - 1;
	assert_false(fgt_slice_is_valid(slice));
	fgt_edges_sort(slice);
	assert_true(fgt_slice_is_valid(slice));
	edges[2].thread = slice->thread_count;
	assert_false(fgt_slice_is_valid(slice));
	edges[2].thread = 0;
	edges[2].tick = slice->tick_count;
	assert_false(fgt_slice_is_valid(slice));
	edges[2].tick--;
	assert_true(fgt_slice_is_valid(slice));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_edge_costs_one_word_where_a_block_has_one),
		cmocka_unit_test(an_edge_may_come_before_or_after_the_stack),
		cmocka_unit_test(edge_that_cannot_be_kept_is_unknown),
		cmocka_unit_test(a_cut_has_the_edges_of_its_ticks),
		cmocka_unit_test(a_flood_of_edges_stays_in_bounds),
		cmocka_unit_test(disorder_is_not_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
