/* SPDX-License-Identifier: Apache-2.0 */
/* A rate that is lowered on purpose: from the ring to the slice's weights. */
#include "ringbuf/slice/pace.h"
#include "ringbuf/slice/slice_codec.h"
#include "tests/unit/ringbuf/ring/ring_kit.h"
#include "tests/unit/ringbuf/slice_fixture.h"

/* Ticks at one pace; the time that the next one has. */
static uint64_t tick_at(struct fgt_ring *ring, uint64_t now_ns,
			uint32_t periods, uint32_t count)
{
	fgt_ring_set_pace(ring, periods);
	for (uint32_t i = 0; i < count; i++) {
		kit_tick(ring, now_ns);
		now_ns += (uint64_t)periods * PERIOD_NS;
	}
	return now_ns;
}

/* 10 ticks of one period, 20 of 4, 5 of 128 (a segment each), 10 of one. */
static struct fgt_ring *make_ring(uint64_t *ret_end_ns)
{
	struct fgt_ring *ring = kit_ring(101, 30, 0);
	uint64_t now_ns = PERIOD_NS;

	kit_set(ring, kit_thread(ring, 7), 100, 5, FGT_STATE_RUNNING);
	now_ns = tick_at(ring, now_ns, 1, 10);
	now_ns = tick_at(ring, now_ns, 4, 20);
	now_ns = tick_at(ring, now_ns, 128, 5);
	*ret_end_ns = tick_at(ring, now_ns, 1, 10);
	return ring;
}

static void assert_paces(const struct fgt_ring_slice *slice, uint32_t count,
			 const struct fgt_pace *expected)
{
	assert_int_equal(slice->pace_count, count);
	for (uint32_t i = 0; i < count; i++) {
		const struct fgt_pace *pace = &slice->paces[i];

		assert_int_equal(pace->first_tick, expected[i].first_tick);
		assert_int_equal(pace->periods, expected[i].periods);
		assert_int_equal(pace->periods_before,
				 expected[i].periods_before);
	}
}

static void a_slice_knows_what_each_tick_stands_for(void **state)
{
	const struct fgt_pace paces[] = { { 10, 4, 10 },
					  { 30, 128, 90 },
					  { 35, 1, 730 } };
	uint64_t end_ns, lowered;
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = make_ring(&end_ns);
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_cut(ring, 0, end_ns);

	(void)state;
	kit_validate(slice);
	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(slice->tick_count, 45);
	assert_int_equal(slice->missed_ticks, 0);
	assert_int_equal(slice->tick_ns[44], end_ns - PERIOD_NS);
	assert_paces(slice, 3, paces);
	assert_int_equal(fgt_pace_at(slice, 9), 1);
	assert_int_equal(fgt_pace_at(slice, 10), 4);
	assert_int_equal(fgt_pace_at(slice, 34), 128);
	assert_int_equal(fgt_pace_at(slice, 44), 1);
	assert_int_equal(fgt_pace_ns(slice, 12), 4 * slice->period_ns);
	/* All ticks stand for all of the time. */
	assert_int_equal(fgt_pace_weight(slice, 0, 45), 740);
	assert_int_equal(fgt_pace_weight(slice, 0, 45) * (uint64_t)PERIOD_NS,
			 end_ns - PERIOD_NS);
	assert_int_equal(fgt_pace_weight(slice, 8, 4), 2 + 8);
	assert_int_equal(fgt_pace_slowest(slice, &lowered), 128);
	assert_int_equal(lowered, 80 + 640);
}

static void a_cut_begins_with_the_pace_in_force(void **state)
{
	const struct fgt_pace paces[] = { { 0, 4, 0 }, { 5, 128, 20 } };
	uint64_t end_ns;
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = make_ring(&end_ns);
	uint64_t from_ns = PERIOD_NS + (10 + 15 * 4) * (uint64_t)PERIOD_NS;
	uint64_t to_ns = from_ns + (5 * 4 + 2 * 128) * (uint64_t)PERIOD_NS;
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_cut(ring, from_ns, to_ns);

	(void)state;
	kit_validate(slice);
	assert_int_equal(slice->tick_count, 8);
	assert_paces(slice, 2, paces);
}

static void full_rate_has_no_paces(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	uint64_t end_ns, lowered;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;

	(void)state;
	kit_thread(ring, 7);
	end_ns = tick_at(ring, PERIOD_NS, 1, 300);
	slice = kit_cut(ring, 0, end_ns);
	assert_int_equal(slice->pace_count, 0);
	assert_int_equal(fgt_pace_weight(slice, 3, 90), 90);
	assert_int_equal(fgt_pace_slowest(slice, &lowered), 1);
	assert_int_equal(lowered, 0);
}

/* Ticks that the writer reports as missed count at any pace, and only those. */
static void missed_ticks_are_counted_apart_from_the_pace(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = NULL, *part = NULL;
	uint64_t now_ns;

	(void)state;
	kit_set(ring, kit_thread(ring, 7), 100, 5, FGT_STATE_RUNNING);
	now_ns = tick_at(ring, PERIOD_NS, 8, 10);
	now_ns += 3 * 8 * (uint64_t)PERIOD_NS;
	fgt_ring_tick_begin(ring, now_ns, now_ns, 3);
	fgt_ring_tick_commit(ring);
	now_ns = tick_at(ring, now_ns + 8 * (uint64_t)PERIOD_NS, 8, 10);
	slice = kit_cut(ring, 0, now_ns);
	assert_int_equal(slice->missed_ticks, 3);
	/* A narrower part counts by the gaps between its ticks. */
	assert_int_equal(fgt_slice_narrow(slice, slice->tick_ns[2],
					  slice->tick_ns[20], 0, &part),
			 0);
	assert_int_equal(part->missed_ticks, 3);
	fgt_ring_slice_free(FGT_TAKE(part));
	assert_int_equal(fgt_slice_narrow(slice, slice->tick_ns[11],
					  slice->tick_ns[20], 0, &part),
			 0);
	assert_int_equal(part->missed_ticks, 0);
	assert_int_equal(part->pace_count, 1);
	assert_int_equal(part->paces[0].first_tick, 0);
}

static void narrowing_keeps_what_ticks_stand_for(void **state)
{
	const struct fgt_pace paces[] = { { 0, 4, 0 },
					  { 10, 128, 40 },
					  { 15, 1, 680 } };
	uint64_t end_ns;
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = make_ring(&end_ns);
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_cut(ring, 0, end_ns);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;

	(void)state;
	assert_int_equal(fgt_slice_narrow(slice, slice->tick_ns[20],
					  slice->tick_ns[40], 0, &part),
			 0);
	assert_true(fgt_slice_is_valid(part));
	assert_paces(part, 3, paces);
	assert_int_equal(fgt_pace_weight(part, 0, 21),
			 fgt_pace_weight(slice, 20, 21));
}

static void paces_come_through_a_file(void **state)
{
	uint64_t end_ns;
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = make_ring(&end_ns);
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_cut(ring, 0, end_ns);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *back = NULL;
	struct fixture_buffer buffer;
	struct fgt_sink sink = fixture_buffer_sink(&buffer);
	char *key;

	(void)state;
	assert_int_equal(fgt_slice_encode(slice, &sink), 0);
	assert_int_equal(fgt_slice_decode((uint8_t *)buffer.bytes, buffer.len,
					  &back, NULL),
			 0);
	assert_paces(back, slice->pace_count, slice->paces);
	fgt_ring_slice_free(FGT_TAKE(back));
	/* A file of before there were any: the key is one that is skipped. */
	key = memmem(buffer.bytes, buffer.len, "\xa5paces", 6);
	assert_non_null(key);
	memcpy(key, "\xa5other", 6);
	fixture_drop_checksum(&buffer);
	assert_int_equal(fgt_slice_decode((uint8_t *)buffer.bytes, buffer.len,
					  &back, NULL),
			 0);
	assert_int_equal(back->pace_count, 0);
	fixture_buffer_done(&buffer);
}

static void false_paces_are_not_valid(void **state)
{
	const struct fgt_pace good = { 3, 4, 3 };
	const struct fgt_pace bad[] = { { 3, 0, 3 },
					{ 3, FGT_PACE_MAX + 1, 3 },
					{ 30, 4, 30 },
					{ 3, 4, 4 } };
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(30);

	(void)state;
	assert_int_equal(fgt_pace_add(slice, 3, 4), 0);
	assert_memory_equal(slice->paces, &good, sizeof(good));
	assert_true(fgt_slice_is_valid(slice));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		slice->paces[0] = bad[i];
		assert_false(fgt_slice_is_valid(slice));
	}
	slice->paces[0] = good;
	assert_int_equal(fgt_pace_add(slice, 5, 8), 0);
	assert_true(fgt_slice_is_valid(slice));
	slice->paces[1].first_tick = 3;
	assert_false(fgt_slice_is_valid(slice));
}

static void later_pace_of_a_tick_counts(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(30);

	(void)state;
	assert_int_equal(fgt_pace_add(slice, 0, 1), 0);
	assert_int_equal(slice->pace_count, 0);
	assert_int_equal(fgt_pace_add(slice, 0, 2), 0);
	assert_int_equal(fgt_pace_add(slice, 0, 4), 0);
	assert_int_equal(slice->pace_count, 1);
	assert_int_equal(fgt_pace_at(slice, 0), 4);
	assert_int_equal(fgt_pace_add(slice, 6, 4), 0);
	assert_int_equal(slice->pace_count, 1);
	assert_int_equal(fgt_pace_add(slice, 0, 1), 0);
	assert_int_equal(slice->pace_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slice_knows_what_each_tick_stands_for),
		cmocka_unit_test(a_cut_begins_with_the_pace_in_force),
		cmocka_unit_test(full_rate_has_no_paces),
		cmocka_unit_test(missed_ticks_are_counted_apart_from_the_pace),
		cmocka_unit_test(narrowing_keeps_what_ticks_stand_for),
		cmocka_unit_test(paces_come_through_a_file),
		cmocka_unit_test(false_paces_are_not_valid),
		cmocka_unit_test(later_pace_of_a_tick_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
