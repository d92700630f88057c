/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edges of blocks: what a ring keeps of them, at what cost, and what becomes
 * of them in a cut and in a narrower slice.
 */
#include "tests/unit/ringbuf/ring/ring_kit.h"

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

static void assert_edge(const struct fgt_ring_slice *slice, uint32_t index,
			uint32_t tick, uint32_t on_us, uint32_t off_us)
{
	assert_true(index < slice->edge_count);
	assert_int_equal(slice->edges[index].tick, tick);
	assert_int_equal(slice->edges[index].on_us, on_us);
	assert_int_equal(slice->edges[index].off_us, off_us);
}

static int set_edges(struct fgt_ring *ring, uint32_t slot, bool is_on_first,
		     uint32_t count, uint64_t first_ns, uint64_t step_ns)
{
	struct fgt_edge_list edges = { .count = count,
				       .is_on_first = is_on_first };

	for (uint32_t i = 0; i < count && i < FGT_EDGE_LIST_MAX; i++)
		edges.ns[i] = first_ns + i * step_ns;
	return fgt_ring_set_edges(ring, slot, &edges);
}

/* A tick in which the thread has that state (always the same stack), after so
 * many edges, the last of them 1 ms ago; what it costs besides the tick. */
static uint64_t cost_of(struct fgt_ring *ring, uint32_t slot, uint64_t tick,
			uint32_t state, bool is_on_first, uint32_t count)
{
	uint64_t before = used_bytes(ring);

	fgt_ring_tick_begin(ring, at(tick), 0, 0);
	assert_int_equal(set_edges(ring, slot, is_on_first, count,
				   at(tick) - count * MS_NS, MS_NS),
			 0);
	kit_set(ring, slot, 7, 2, state);
	fgt_ring_tick_commit(ring);
	return used_bytes(ring) - before - 8;
}

static void two_edges_cost_one_word(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	kit_tick(ring, at(1));
	cost_of(ring, slot, 2, FGT_STATE_RUNNING, false, 0);
	assert_int_equal(cost_of(ring, slot, 3, FGT_STATE_RUNNING, false, 2),
			 8);
	assert_int_equal(cost_of(ring, slot, 4, FUTEX, false, 1), 16);
	assert_int_equal(cost_of(ring, slot, 5, FUTEX, true, 0), 0);
	assert_int_equal(cost_of(ring, slot, 6, FUTEX, true, 4), 16);
	assert_int_equal(cost_of(ring, slot, 7, FGT_STATE_RUNNING, true, 3),
			 24);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->edge_count, 6);
	assert_edge(slice, 0, 2, 1001, 2001);
	assert_edge(slice, 1, 3, 0, 1001);
	assert_edge(slice, 2, 5, 4001, 3001);
	assert_edge(slice, 3, 5, 2001, 1001);
	assert_edge(slice, 4, 6, 3001, 2001);
	assert_edge(slice, 5, 6, 1001, 0);
}

/* All of them or none. */
static void edges_that_contradict_the_states_are_dropped(void **state)
{
	static const struct {
		uint32_t before, after;
		bool is_on_first;
		uint32_t count;
		bool is_kept;
	} cases[] = {
		{ FUTEX, FUTEX, true, 2, true },
		{ FUTEX, FUTEX, false, 2, false },
		{ FUTEX, FUTEX, true, 1, false },
		{ FUTEX, FGT_STATE_RUNNING, true, 3, true },
		{ FUTEX, FGT_STATE_RUNNING, true, 2, false },
		{ FGT_STATE_RUNNING, FGT_STATE_RUNNING, false, 2, true },
		{ FGT_STATE_RUNNING, FGT_STATE_RUNNING, true, 2, false },
		{ FGT_STATE_RUNNING, FUTEX, false, 1, true },
		{ FGT_STATE_RUNNING, FUTEX, true, 1, false },
		/* Woken, or put off. */
		{ FGT_STATE_RUNNABLE, FUTEX, true, 2, true },
		{ FGT_STATE_RUNNABLE, FUTEX, false, 1, true },
		{ FGT_STATE_RUNNING, FGT_STATE_RUNNABLE, false, 1, true },
		{ FGT_STATE_RUNNING, FGT_STATE_RUNNABLE, false, 2, true },
		{ FGT_STATE_RUNNING, FGT_STATE_RUNNABLE, true, 2, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		FGT_AUTO(fgt_ring_free)
		struct fgt_ring *ring = kit_ring(101, 30, 0);
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *slice = NULL;
		uint32_t slot = kit_thread(ring, 1);

		cost_of(ring, slot, 1, cases[i].before, false, 0);
		cost_of(ring, slot, 2, cases[i].after, cases[i].is_on_first,
			cases[i].count);
		slice = kit_cut(ring, 0, UINT64_MAX);
		assert_int_equal(slice->edge_count,
				 cases[i].is_kept ? (cases[i].count + 1) / 2
						  : 0);
	}
}

static void edges_may_come_before_or_after_the_stack(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	for (uint64_t tick = 1; tick <= 4; tick++) {
		fgt_ring_tick_begin(ring, at(tick), 0, 0);
		if (tick == 2)
			set_edges(ring, slot, false, 1, at(2) - 10000, 0);
		if (tick <= 2)
			kit_set(ring, slot, tick, 2, FUTEX);
		if (tick >= 2)
			set_edges(ring, slot, true, 2, at(tick) - 20000, 10000);
		fgt_ring_tick_commit(ring);
	}
	assert_int_equal(set_edges(ring, 99, true, 1, 1, 0), -EINVAL);
	assert_int_equal(
		set_edges(ring, slot, true, FGT_EDGE_LIST_MAX + 1, 1, 1),
		-EINVAL);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->run_count, 2);
	assert_int_equal(kit_leaf(slice, kit_run(slice, 1, 3)), 2);
	assert_int_equal(slice->edge_count, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_edge(slice, i, i + 1, 21, 11);
}

static void edges_that_cannot_be_kept_are_unknown(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	fgt_ring_tick_begin(ring, 9000 * MS_NS, 0, 0);
	kit_set(ring, slot, 7, 2, FUTEX);
	fgt_ring_tick_commit(ring);
	/* Too long ago; in the future. */
	fgt_ring_tick_begin(ring, 9010 * MS_NS, 0, 0);
	set_edges(ring, slot, true, 2, 7000 * MS_NS, 2005 * MS_NS);
	fgt_ring_tick_commit(ring);
	fgt_ring_tick_begin(ring, 9020 * MS_NS, 0, 0);
	set_edges(ring, slot, true, 2, 9015 * MS_NS, 6 * MS_NS);
	fgt_ring_tick_commit(ring);
	/* Just possible. */
	fgt_ring_tick_begin(ring, 9030 * MS_NS, 0, 0);
	set_edges(ring, slot, true, 2, 8010 * MS_NS, 1020 * MS_NS);
	fgt_ring_tick_commit(ring);
	slice = kit_cut(ring, 0, UINT64_MAX);
	assert_int_equal(slice->edge_count, 1);
	assert_edge(slice, 0, 3, 1020001, 1);
}

/* A cut refuses edges that are alike. */
static void edges_within_one_us_keep_their_order(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	cost_of(ring, slot, 1, FUTEX, false, 0);
	for (uint64_t tick = 2; tick <= 3; tick++) {
		fgt_ring_tick_begin(ring, at(tick), 0, 0);
		set_edges(ring, slot, true, 4, at(tick) - 10000, tick - 2);
		fgt_ring_tick_commit(ring);
	}
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->edge_count, 4);
	assert_edge(slice, 0, 1, 14, 13);
	assert_edge(slice, 1, 1, 12, 11);
	assert_edge(slice, 2, 2, 13, 12);
	assert_edge(slice, 3, 2, 11, 10);
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
		set_edges(ring, slots[1], true, 2,
			  at(tick) - 2000 - tick * 1000, 1000 + tick * 1000);
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
			set_edges(ring, slots[i], true, FGT_EDGE_LIST_MAX,
				  at(tick) - 9000, 500);
		}
		fgt_ring_tick_commit(ring);
		if (tick % 100)
			continue;
		slice = kit_cut(ring, 0, UINT64_MAX);
		kit_validate(slice);
		/* Those of an eighth of the threads found room. */
		assert_in_range(slice->edge_count, slice->run_count / 20 * 19,
				slice->run_count);
	}
}

static void disorder_is_not_valid(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_rich();
	struct fgt_edge *edges = slice->edges;

	(void)state;
	/* Two of one tick follow each other in time. */
	edges[1] = edges[0];
	assert_false(fgt_slice_is_valid(slice));
	edges[1].on_us = 1;
	edges[1].off_us = 0;
	assert_true(fgt_slice_is_valid(slice));
	edges[1].off_us = UINT32_MAX;
	assert_false(fgt_slice_is_valid(slice));
	edges[1].off_us = 0;
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
		cmocka_unit_test(two_edges_cost_one_word),
		cmocka_unit_test(edges_that_contradict_the_states_are_dropped),
		cmocka_unit_test(edges_may_come_before_or_after_the_stack),
		cmocka_unit_test(edges_that_cannot_be_kept_are_unknown),
		cmocka_unit_test(edges_within_one_us_keep_their_order),
		cmocka_unit_test(a_cut_has_the_edges_of_its_ticks),
		cmocka_unit_test(a_flood_of_edges_stays_in_bounds),
		cmocka_unit_test(disorder_is_not_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
