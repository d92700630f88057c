/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a ring remembers of threads and stacks: lives, credit, markers, depth,
 * images and missed ticks.
 */
#include "tests/unit/ringbuf/ring/ring_kit.h"

/* Ticks 1, 2, 3 … of a ring whose clock counts in periods. */
static uint64_t at(uint64_t tick)
{
	return tick * PERIOD_NS;
}

static void begin(struct fgt_ring *ring, uint64_t tick)
{
	fgt_ring_tick_begin(ring, at(tick), 0, 0);
}

static void set_with_credit(struct fgt_ring *ring, uint32_t slot, uint64_t leaf,
			    uint32_t state, uint32_t credit_ticks)
{
	const struct fgt_frame frames[2] = { { .address = leaf },
					     { .address = 1 } };

	assert_int_equal(
		fgt_ring_set(ring, slot, frames, 2, state, credit_ticks), 0);
}

/* The leaf of a thread at each tick of a slice, 0 where it has none. */
static void assert_leaves(const struct fgt_ring_slice *slice, int32_t tid,
			  const uint64_t *leaves, uint32_t count)
{
	assert_int_equal(slice->tick_count, count);
	for (uint32_t i = 0; i < count; i++) {
		const struct fgt_run *run = kit_run(slice, tid, i);

		assert_int_equal(run ? kit_leaf(slice, run) : 0, leaves[i]);
	}
}

static void thread_has_no_run_outside_its_life(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const uint64_t first[] = { 5, 5, 5, 5, 0, 0 };
	const uint64_t second[] = { 0, 0, 6, 6, 6, 6 };
	uint32_t slots[2], again;

	(void)state;
	slots[0] = kit_thread(ring, 70);
	begin(ring, 1);
	set_with_credit(ring, slots[0], 5, 64, 0);
	fgt_ring_tick_commit(ring);
	kit_tick(ring, at(2));
	slots[1] = kit_thread(ring, 50);
	begin(ring, 3);
	set_with_credit(ring, slots[1], 6, 65, 9); /* born just now */
	fgt_ring_tick_commit(ring);
	kit_tick(ring, at(4));
	begin(ring, 5);
	assert_int_equal(fgt_ring_thread_end(ring, slots[0]), 0);
	assert_int_equal(fgt_ring_thread_end(ring, slots[0]), -EINVAL);
	fgt_ring_tick_commit(ring);
	/* Its slot is not free while its ticks are there. */
	assert_int_equal(fgt_ring_thread_add(ring, 90, 7, "x", &again), 0);
	assert_int_not_equal(again, slots[0]);
	assert_int_equal(fgt_ring_thread_end(ring, again), 0);
	kit_tick(ring, at(6));
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->thread_count, 2);
	assert_int_equal(slice->threads[0].tid, 50);
	assert_leaves(slice, 70, first, 6);
	assert_leaves(slice, 50, second, 6);
	assert_int_equal(kit_run(slice, 50, 3)->state, 65);
}

static void thread_that_is_put_off_has_no_tick_until_it_is_set(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const uint64_t late[] = { 0, 0, 6, 6, 6 };
	struct fgt_ring_stats stats;
	uint32_t slots[2];

	(void)state;
	kit_tick(ring, at(1));
	begin(ring, 2);
	slots[0] = kit_thread(ring, 70);
	slots[1] = kit_thread(ring, 50);
	assert_int_equal(fgt_ring_thread_put_off(ring, slots[0]), 0);
	assert_int_equal(fgt_ring_thread_put_off(ring, slots[1]), 0);
	fgt_ring_tick_commit(ring);
	/* One has gone meanwhile; credit reaches back to the first tick. */
	begin(ring, 3);
	assert_int_equal(fgt_ring_thread_end(ring, slots[0]), 0);
	set_with_credit(ring, slots[1], 6, 65, 9);
	fgt_ring_tick_commit(ring);
	kit_tick(ring, at(4));
	begin(ring, 5);
	assert_int_equal(fgt_ring_thread_put_off(ring, slots[1]), -EINVAL);
	fgt_ring_tick_commit(ring);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_int_equal(slice->thread_count, 1);
	assert_leaves(slice, 50, late, 5);
	fgt_ring_get_stats(ring, &stats);
	assert_int_equal(stats.threads, 1);
}

static void credit_moves_the_start_of_a_run_back(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const uint64_t whole[] = { 10, 11, 13, 13, 13, 13, 10, 10 };
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	for (uint64_t tick = 1; tick <= 8; tick++) {
		begin(ring, tick);
		if (tick <= 3)
			set_with_credit(ring, slot, 9 + tick, 0, 0);
		if (tick == 6) /* swallows 12, cuts nothing of 11 */
			set_with_credit(ring, slot, 13, 0, 3);
		if (tick == 7)
			set_with_credit(ring, slot, 10, 0, 0);
		if (tick == 8) /* what it does already: no effect */
			set_with_credit(ring, slot, 10, 0, 3);
		fgt_ring_tick_commit(ring);
	}
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_leaves(slice, 1, whole, 8);
	assert_int_equal(slice->run_count, 4);
	fgt_ring_slice_free(slice);
	/* Credit that is set later reaches into an earlier range. */
	slice = kit_cut(ring, at(2), at(4));
	assert_leaves(slice, 1, whole + 1, 3);
	fgt_ring_slice_free(slice);
	slice = kit_cut(ring, at(4), at(5));
	assert_leaves(slice, 1, whole + 3, 2);
}

static void late_sample_changes_earlier_ticks_only(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const struct fgt_frame late = { .address = 12 };
	const uint64_t whole[] = { 10, 10, 12, 12, 13, 12, 13 };
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	for (uint64_t tick = 1; tick <= 7; tick++) {
		begin(ring, tick);
		if (tick == 1) { /* none before it */
			assert_int_equal(
				fgt_ring_set_past(ring, slot, &late, 1, 0, 1),
				0);
			set_with_credit(ring, slot, 10, 0, 0);
		}
		if (tick == 5) {
			set_with_credit(ring, slot, 13, 64, 0);
			assert_int_equal(
				fgt_ring_set_past(ring, slot, &late, 1, 0, 2),
				0);
		}
		if (tick == 7) /* and continues what it did at the last one */
			assert_int_equal(
				fgt_ring_set_past(ring, slot, &late, 1, 0, 1),
				0);
		fgt_ring_tick_commit(ring);
	}
	assert_int_equal(fgt_ring_set_past(ring, slot, &late, 1, 0, 0),
			 -EINVAL);
	assert_int_equal(fgt_ring_set_past(ring, slot + 1, &late, 1, 0, 1),
			 -EINVAL);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_leaves(slice, 1, whole, 7);
	assert_int_equal(slice->run_count, 5);
	assert_int_equal(slice->runs[2].state, 64);
	fgt_ring_slice_free(slice);
	slice = kit_cut(ring, at(3), at(4));
	assert_leaves(slice, 1, whole + 2, 2);
}

static void past_without_frames_changes_the_state_alone(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const uint64_t whole[] = { 10, 10, 10, 10, 13 };
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	for (uint64_t tick = 1; tick <= 5; tick++) {
		begin(ring, tick);
		if (tick == 1)
			set_with_credit(ring, slot, 10, 64, 0);
		if (tick == 5) {
			set_with_credit(ring, slot, 13, 0, 0);
			assert_int_equal(fgt_ring_set_past(ring, slot, NULL, 0,
							   FGT_STATE_RUNNABLE,
							   2),
					 0);
		}
		fgt_ring_tick_commit(ring);
	}
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_leaves(slice, 1, whole, 5);
	assert_int_equal(slice->run_count, 3);
	assert_int_equal(slice->runs[0].state, 64);
	assert_int_equal(slice->runs[1].state, FGT_STATE_RUNNABLE);
}

static void
credit_reaches_across_seconds_but_not_before_the_thread(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t slot = kit_thread(ring, 1), late = 0;

	(void)state;
	for (uint64_t tick = 1; tick <= 600; tick++) {
		if (tick == 150)
			late = kit_thread(ring, 2);
		begin(ring, tick);
		if (tick == 1)
			set_with_credit(ring, slot, 10, 64, 0);
		if (tick == 590) {
			set_with_credit(ring, slot, 20, 0, 490);
			set_with_credit(ring, late, 20, 0, UINT32_MAX);
		}
		fgt_ring_tick_commit(ring);
	}
	slice = kit_cut(ring, at(90), at(160));
	kit_validate(slice);
	assert_int_equal(slice->run_count, 3);
	assert_int_equal(slice->runs[0].tick_count, 10); /* 90 … 99 */
	assert_int_equal(kit_leaf(slice, &slice->runs[1]), 20);
	assert_int_equal(slice->runs[1].first_tick, 10);
	assert_int_equal(slice->runs[2].first_tick, 60); /* 150, its first */
	assert_int_equal(kit_leaf(slice, &slice->runs[2]), 20);
}

static void second_set_in_a_tick_replaces_the_first(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const uint64_t leaves[] = { 7, 7, 8 };
	struct fgt_ring_stats stats;
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	for (uint64_t tick = 1; tick <= 3; tick++) {
		begin(ring, tick);
		set_with_credit(ring, slot, 99, 1, 2);
		set_with_credit(ring, slot, tick < 3 ? 7 : 8, 64, 0);
		fgt_ring_tick_commit(ring);
	}
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_leaves(slice, 1, leaves, 3);
	fgt_ring_get_stats(ring, &stats);
	assert_int_equal(stats.changes, 2);
	/* overflow, root, 7, 8: nothing of 99 stayed. */
	assert_int_equal(stats.nodes, 4);
	assert_int_equal(stats.frames, 4);
}

static void marker_becomes_the_leaf_and_replaces_another(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const uint64_t leaves[] = { 700, FGT_MARKER_KERNEL,
				    FGT_MARKER_NOT_SAMPLED,
				    FGT_MARKER_NOT_SAMPLED };
	uint32_t slot = kit_thread(ring, 1), other = kit_thread(ring, 2);

	(void)state;
	begin(ring, 1);
	set_with_credit(ring, slot, 700, 64, 0);
	fgt_ring_tick_commit(ring);
	for (uint32_t tick = 2; tick <= 4; tick++) {
		const uint32_t marker = tick < 4 ? (uint32_t)leaves[tick - 1]
						 : 0;

		begin(ring, tick);
		assert_int_equal(
			fgt_ring_set_state(ring, slot, tick, marker, 0), 0);
		assert_int_equal(fgt_ring_set_state(ring, other, 0, marker, 0),
				 0);
		fgt_ring_tick_commit(ring);
	}
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	assert_leaves(slice, 1, leaves, 4);
	assert_int_equal(kit_depth(slice, kit_run(slice, 1, 3)->stack), 3);
	assert_int_equal(kit_run(slice, 1, 3)->state, 4);
	/* A thread without a stack gets only the marker. */
	assert_int_equal(kit_depth(slice, kit_run(slice, 2, 1)->stack), 1);
	/* … unless the marker means the last stack. */
	assert_int_equal(kit_run(slice, 2, 2)->stack, FGT_NODE_NONE);
	assert_int_equal(kit_run(slice, 2, 0)->state, FGT_STATE_UNKNOWN);
}

static void truncation_marker_stays_under_a_leaf_marker(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	const struct fgt_frame frame = {
		.address = FGT_MARKER_TRUNCATED_UNREADABLE,
		.flags = FGT_FRAME_MARKER,
	};
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	begin(ring, 1);
	assert_int_equal(fgt_ring_set(ring, slot, &frame, 1, 0, 0), 0);
	fgt_ring_tick_commit(ring);
	begin(ring, 2);
	assert_int_equal(
		fgt_ring_set_state(ring, slot, 0, FGT_MARKER_KERNEL, 0), 0);
	fgt_ring_tick_commit(ring);
	slice = kit_cut(ring, 0, UINT64_MAX);
	assert_int_equal(kit_depth(slice, kit_run(slice, 1, 1)->stack), 2);
}

static void bad_slots_states_and_images_are_refused(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	const struct fgt_frame frame = { .address = 4, .image = 3 };
	uint32_t slot = kit_thread(ring, 1);

	(void)state;
	begin(ring, 1);
	assert_int_equal(fgt_ring_set(ring, slot + 1, NULL, 0, 0, 0), -EINVAL);
	assert_int_equal(fgt_ring_set(ring, UINT32_MAX, NULL, 0, 0, 0),
			 -EINVAL);
	assert_int_equal(fgt_ring_set(ring, slot, NULL, 0, FGT_STATE_GONE, 0),
			 -EINVAL);
	assert_int_equal(fgt_ring_set(ring, slot, &frame, 1, 0, 0), -EINVAL);
	assert_int_equal(fgt_ring_set_state(ring, slot, 0, FGT_MARKER_COUNT, 0),
			 -EINVAL);
	assert_int_equal(fgt_ring_thread_end(ring, 99), -EINVAL);
	fgt_ring_thread_rename(ring, 99, "none");
	fgt_ring_image_put(ring, 55);
	fgt_ring_tick_commit(ring);
	fgt_ring_tick_commit(ring); /* none is open */
	fgt_ring_image_put(ring, FGT_IMAGE_NONE);
}

static void rename_is_seen_by_the_next_cut(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	uint32_t slot = kit_thread(ring, 1);
	const char *const names[] = { "first", "a name that is too long", "" };
	const char *const shown[] = { "first", "a name that is ", "" };

	(void)state;
	kit_tick(ring, at(1));
	kit_tick(ring, at(2));
	for (int i = 0; i < 3; i++) {
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *slice = NULL;

		fgt_ring_thread_rename(ring, slot, names[i]);
		slice = kit_cut(ring, 0, UINT64_MAX);
		assert_string_equal(
			fgt_slice_string(slice, slice->threads[0].name),
			shown[i]);
	}
}

static void deep_stack_loses_its_middle_to_a_marker(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	static struct fgt_frame frames[5000];
	uint32_t slot = kit_thread(ring, 1), node, elided = 0;

	(void)state;
	for (uint32_t i = 0; i < 5000; i++)
		frames[i].address = 1000 + i;
	begin(ring, 1);
	assert_int_equal(fgt_ring_set(ring, slot, frames, 5000, 0, 0), 0);
	fgt_ring_tick_commit(ring);
	begin(ring, 2);
	assert_int_equal(
		fgt_ring_set_state(ring, slot, 0, FGT_MARKER_KERNEL, 0), 0);
	fgt_ring_tick_commit(ring);
	slice = kit_cut(ring, 0, UINT64_MAX);
	kit_validate(slice);
	node = kit_run(slice, 1, 1)->stack;
	assert_in_range(kit_depth(slice, node), FGT_STACK_DEPTH_MAX,
			FGT_SLICE_DEPTH_MAX);
	node = slice->nodes[node].parent;
	assert_int_equal(kit_leaf(slice, kit_run(slice, 1, 0)), 1000);
	for (; slice->nodes[node].parent != FGT_NODE_NONE;
	     node = slice->nodes[node].parent) {
		const struct fgt_frame *frame =
			&slice->frames[slice->nodes[node].frame].frame;

		if (frame->flags & FGT_FRAME_MARKER)
			elided += frame->address == FGT_MARKER_ELIDED;
	}
	assert_int_equal(elided, 1);
	assert_int_equal(slice->frames[slice->nodes[node].frame].frame.address,
			 5999);
}

/* Fault T3. */
static void missed_ticks_count_within_the_range_only(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(101, 30, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_ring_stats stats;

	(void)state;
	kit_thread(ring, 1);
	for (uint64_t tick = 1; tick <= 5; tick++) {
		fgt_ring_tick_begin(ring, at(tick * 10), 0, tick * 100);
		fgt_ring_tick_commit(ring);
	}
	slice = kit_cut(ring, at(20), at(40));
	assert_int_equal(slice->missed_ticks, 300 + 400);
	assert_true(slice->effective_hz > 10 && slice->effective_hz < 10.2);
	fgt_ring_get_stats(ring, &stats);
	assert_int_equal(stats.missed_ticks, 1500);
}

static void image_lives_as_long_as_a_tick_uses_it(void **state)
{
	FGT_AUTO(fgt_ring_free) struct fgt_ring *ring = kit_ring(10, 1, 0);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_image image = { .path = "/lib/x.so", .bias = 4096 };
	struct fgt_frame frame = { .address = 42 };
	struct fgt_ring_stats stats;
	uint32_t slot = kit_thread(ring, 1), again;

	(void)state;
	image.build_id_len = 20;
	image.build_id[19] = 9;
	assert_int_equal(fgt_ring_image_get(ring, &image, &frame.image), 0);
	image.path[50] = 'x'; /* behind the end of the text: the same image */
	assert_int_equal(fgt_ring_image_get(ring, &image, &again), 0);
	assert_int_equal(again, frame.image);
	for (uint64_t tick = 1; tick <= 40; tick++) {
		fgt_ring_tick_begin(ring, tick * 100000000, 0, 0);
		if (tick == 1)
			fgt_ring_set(ring, slot, &frame, 1, 0, 0);
		if (tick == 5)
			fgt_ring_set(ring, slot, NULL, 0, 0, 0);
		fgt_ring_tick_commit(ring);
		if (tick != 6)
			continue;
		fgt_ring_image_put(ring, again);
		fgt_ring_image_put(ring, again);
		slice = kit_cut(ring, 0, UINT64_MAX);
	}
	kit_validate(slice);
	assert_int_equal(slice->image_count, 1);
	assert_string_equal(fgt_slice_string(slice, slice->images[0].path),
			    "/lib/x.so");
	assert_int_equal(slice->images[0].bias, 4096);
	assert_int_equal(slice->images[0].build_id[19], 9);
	fgt_ring_get_stats(ring, &stats);
	assert_int_equal(stats.images, 0);
	assert_int_equal(stats.nodes, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thread_has_no_run_outside_its_life),
		cmocka_unit_test(
			thread_that_is_put_off_has_no_tick_until_it_is_set),
		cmocka_unit_test(credit_moves_the_start_of_a_run_back),
		cmocka_unit_test(late_sample_changes_earlier_ticks_only),
		cmocka_unit_test(past_without_frames_changes_the_state_alone),
		cmocka_unit_test(
			credit_reaches_across_seconds_but_not_before_the_thread),
		cmocka_unit_test(second_set_in_a_tick_replaces_the_first),
		cmocka_unit_test(marker_becomes_the_leaf_and_replaces_another),
		cmocka_unit_test(truncation_marker_stays_under_a_leaf_marker),
		cmocka_unit_test(bad_slots_states_and_images_are_refused),
		cmocka_unit_test(rename_is_seen_by_the_next_cut),
		cmocka_unit_test(deep_stack_loses_its_middle_to_a_marker),
		cmocka_unit_test(missed_ticks_count_within_the_range_only),
		cmocka_unit_test(image_lives_as_long_as_a_tick_uses_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
