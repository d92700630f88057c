/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of the ring: a ring driven by hand, and the checks that
 * every slice must pass. Header only; for tests.
 */
#ifndef FGT_TESTS_RING_KIT_H
#define FGT_TESTS_RING_KIT_H

#include "ringbuf/ring/ring.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define PERIOD_NS 9900990u /* of 101 Hz */

static inline struct fgt_ring *kit_ring(unsigned int hz, unsigned int seconds,
					size_t size_bytes)
{
	const struct fgt_ring_options options = { .hz = hz,
						  .seconds = seconds,
						  .size_bytes = size_bytes };
	struct fgt_ring *ring = NULL;

	assert_int_equal(fgt_ring_new(&options, &ring), 0);
	return ring;
}

static inline uint32_t kit_thread(struct fgt_ring *ring, int32_t tid)
{
	uint32_t slot = UINT32_MAX;

	assert_int_equal(fgt_ring_thread_add(ring, tid, 7, "worker", &slot), 0);
	return slot;
}

/* A stack of depth frames, leaf first, that ends in a common root. */
static inline void kit_set(struct fgt_ring *ring, uint32_t slot, uint64_t leaf,
			   uint32_t depth, uint32_t state)
{
	struct fgt_frame frames[FGT_STACK_DEPTH_MAX] = { 0 };

	for (uint32_t i = 0; i < depth; i++)
		frames[i].address = i + 1 == depth ? 1 : leaf + depth - i;
	if (depth)
		frames[0].address = leaf;
	assert_int_equal(fgt_ring_set(ring, slot, frames, depth, state, 0), 0);
}

/* One tick in which nothing changes. */
static inline void kit_tick(struct fgt_ring *ring, uint64_t mono_ns)
{
	fgt_ring_tick_begin(ring, mono_ns, mono_ns + 1000000, 0);
	fgt_ring_tick_commit(ring);
}

static inline struct fgt_ring_slice *kit_cut(const struct fgt_ring *ring,
					     uint64_t from_ns, uint64_t to_ns)
{
	struct fgt_ring_slice *slice = NULL;

	assert_int_equal(fgt_ring_cut(ring, from_ns, to_ns, &slice), 0);
	return slice;
}

static inline void kit_mark(bool *marks, uint32_t count, uint32_t index)
{
	assert_true(index < count);
	marks[index] = true;
}

static inline void kit_assert_all(const bool *marks, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		assert_true(marks[i]);
}

static inline void kit_mark_stacks(const struct fgt_ring_slice *slice,
				   bool *nodes, bool *frames, bool *images)
{
	for (uint32_t i = slice->node_count; i-- > 0;) {
		const struct fgt_slice_node *node = &slice->nodes[i];

		if (node->parent != FGT_NODE_NONE)
			kit_mark(nodes, i, node->parent);
		kit_mark(frames, slice->frame_count, node->frame);
	}
	for (uint32_t i = 0; i < slice->frame_count; i++)
		if (slice->frames[i].frame.image)
			kit_mark(images, slice->image_count,
				 slice->frames[i].frame.image - 1);
}

/* Checks that the slice is valid, and that its runs, waits and wakers use all
 * of it. */
static inline void kit_validate(const struct fgt_ring_slice *slice)
{
	bool *threads = calloc(slice->thread_count + 1, 1);
	bool *nodes = calloc(slice->node_count + 1, 1);
	bool *frames = calloc(slice->frame_count + 1, 1);
	bool *images = calloc(slice->image_count + 1, 1);
	bool states[FGT_STATE_MAX + 1] = { false };
	uint32_t state_count = 0;

	assert_true(fgt_slice_is_valid(slice));
	assert_true(slice->tick_count >= 2);
	assert_true(slice->tick_ns[0] >= slice->requested_from_ns);
	assert_true(slice->tick_ns[slice->tick_count - 1] <=
		    slice->requested_to_ns);
	for (uint32_t i = 0; i < slice->run_count; i++) {
		kit_mark(threads, slice->thread_count, slice->runs[i].thread);
		if (slice->runs[i].stack != FGT_NODE_NONE)
			kit_mark(nodes, slice->node_count,
				 slice->runs[i].stack);
		state_count += !states[slice->runs[i].state];
		states[slice->runs[i].state] = true;
	}
	for (uint32_t i = 0; i < slice->wait_count; i++)
		threads[fgt_slice_find_thread(
			slice, slice->waits[i].owner_tid)] = true;
	for (uint32_t i = 0; i < slice->waker_count; i++)
		if (slice->wakers[i].stack != FGT_NODE_NONE)
			kit_mark(nodes, slice->node_count,
				 slice->wakers[i].stack);
	assert_int_equal(state_count, slice->state_count);
	kit_mark_stacks(slice, nodes, frames, images);
	kit_assert_all(threads, slice->thread_count);
	kit_assert_all(nodes, slice->node_count);
	kit_assert_all(frames, slice->frame_count);
	kit_assert_all(images, slice->image_count);
	free(threads);
	free(nodes);
	free(frames);
	free(images);
}

/* Index of the thread with that tid, or UINT32_MAX. */
static inline uint32_t kit_find(const struct fgt_ring_slice *slice, int32_t tid)
{
	for (uint32_t i = 0; i < slice->thread_count; i++)
		if (slice->threads[i].tid == tid)
			return i;
	return UINT32_MAX;
}

/* The run of a thread at a tick, NULL if it did not exist then. */
static inline const struct fgt_run *kit_run(const struct fgt_ring_slice *slice,
					    int32_t tid, uint32_t tick)
{
	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];

		if (slice->threads[run->thread].tid == tid &&
		    run->first_tick <= tick &&
		    tick - run->first_tick < run->tick_count)
			return run;
	}
	return NULL;
}

static inline uint64_t kit_leaf(const struct fgt_ring_slice *slice,
				const struct fgt_run *run)
{
	if (run->stack == FGT_NODE_NONE)
		return 0;
	return slice->frames[slice->nodes[run->stack].frame].frame.address;
}

static inline uint32_t kit_depth(const struct fgt_ring_slice *slice,
				 uint32_t node)
{
	uint32_t depth = 0;

	for (; node != FGT_NODE_NONE; node = slice->nodes[node].parent)
		depth++;
	return depth;
}

#endif
