/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One writer at full speed in a small ring, readers that cut it at the same
 * time. Every frame holds its tick and thread, so that a slice mixed from two
 * laps is found. Made for the thread sanitizer (preset tsan).
 */
#include "tests/unit/ringbuf/ring/ring_kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* Cuts of each reader; threads that change at every tick. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CUTS_WANTED 100
#define BUSY_MAX    30
#else
#define CUTS_WANTED 600
#define BUSY_MAX    100
#endif
#define READERS	   3
#define LAZY	   4 /* threads that change every LAZY_TICKS */
#define LAZY_TICKS 64
#define LIFE_TICKS 40 /* of the one short-lived thread */
#define DEPTH	   5
#define TICKS_MAX  3000000
#define SHORT_TID  1000000

struct scene {
	struct fgt_ring *ring;
	uint32_t busy;
	uint64_t stacks; /* of a thread, before they repeat */
	_Atomic uint64_t cuts, lapped_cuts, again, waits, wakes;
	_Atomic bool is_over, has_fault;
	uint32_t images[BUSY_MAX + LAZY];
};

struct reader {
	struct scene *scene;
	pthread_t thread;
	uint64_t random;
	const char *fault; /* NULL: none */
};

static uint64_t address_of(uint64_t tick, uint32_t thread, uint32_t level)
{
	return tick << 16 | thread << 8 | level;
}

static void set_stack(struct scene *scene, uint32_t slot, uint64_t key,
		      uint32_t thread)
{
	struct fgt_frame frames[DEPTH];
	int error;

	for (uint32_t i = 0; i < DEPTH; i++)
		frames[i] = (struct fgt_frame){
			.address = address_of(key, thread, i),
			.image = scene->images[thread],
		};
	error = fgt_ring_set(scene->ring, slot, frames, DEPTH, thread, 0);
	assert_int_equal(error, 0);
}

/* What has no room is left out: most of it, where keys do not repeat. */
static void set_wait(struct scene *scene, uint32_t slot, uint64_t key,
		     uint32_t thread)
{
	struct fgt_wait wait = { .kind = FGT_WAIT_MUTEX,
				 .address = address_of(key, thread, 0) };

	snprintf(wait.text, sizeof(wait.text), "%llx",
		 (unsigned long long)wait.address);
	assert_int_equal(fgt_ring_set_wait(scene->ring, slot, &wait), 0);
}

static void add_wake(struct scene *scene, uint32_t slot, uint64_t tick)
{
	const struct fgt_frame frames[] = { { .address = tick << 20 | 1 },
					    { .address = 2 } };
	const struct fgt_wake_source waker = { .tid = (int32_t)tick,
					       .frames = frames,
					       .frame_count = 2 };
	int error = fgt_ring_add_wake(scene->ring, slot, tick * PERIOD_NS,
				      (uint32_t)tick, &waker);

	assert_true(!error || error == -ENOSPC);
}

static void add_images(struct scene *scene)
{
	for (uint32_t i = 0; i < BUSY_MAX + LAZY; i++) {
		struct fgt_image image = { .bias = i % 9 };

		snprintf(image.path, sizeof(image.path), "/lib/%u", i % 9);
		assert_int_equal(fgt_ring_image_get(scene->ring, &image,
						    &scene->images[i]),
				 0);
	}
}

static uint32_t add_short_lived(struct scene *scene, uint64_t tick)
{
	char name[16];
	uint32_t slot;

	snprintf(name, sizeof(name), "s%u", (uint32_t)tick);
	assert_int_equal(
		fgt_ring_thread_add(scene->ring, SHORT_TID, tick, name, &slot),
		0);
	return slot;
}

static void write_ticks(struct scene *scene)
{
	uint32_t slots[BUSY_MAX + LAZY], short_lived = 0;

	for (uint32_t i = 0; i < scene->busy + LAZY; i++)
		slots[i] = kit_thread(scene->ring, (int32_t)i + 1);
	for (uint64_t tick = 1;
	     tick < TICKS_MAX && !atomic_load(&scene->has_fault); tick++) {
		fgt_ring_tick_begin(scene->ring, tick * PERIOD_NS, tick, 0);
		for (uint32_t i = 0; i < scene->busy; i++) {
			set_stack(scene, slots[i], tick % scene->stacks, i);
			set_wait(scene, slots[i], tick % scene->stacks, i);
		}
		add_wake(scene, slots[tick % scene->busy], tick);
		for (uint32_t i = 0; i < LAZY; i++)
			if (tick % LAZY_TICKS == i || tick == 1)
				set_stack(scene, slots[scene->busy + i], tick,
					  scene->busy + i);
		if (tick % LIFE_TICKS == 0 && tick > LIFE_TICKS)
			fgt_ring_thread_end(scene->ring, short_lived);
		if (tick % LIFE_TICKS == 0)
			short_lived = add_short_lived(scene, tick);
		fgt_ring_tick_commit(scene->ring);
		if (atomic_load(&scene->cuts) >= CUTS_WANTED * READERS &&
		    atomic_load(&scene->lapped_cuts))
			break;
	}
}

/* ---- Readers: no assertions, cmocka's jump must stay in its thread ---- */

static const char *check_short_lived(const struct fgt_ring_slice *slice,
				     const struct fgt_run *run,
				     uint64_t first_tick)
{
	const struct fgt_slice_thread *thread = &slice->threads[run->thread];
	uint64_t first = first_tick + run->first_tick;
	char name[16];

	snprintf(name, sizeof(name), "s%u", (uint32_t)thread->start_time);
	if (strcmp(fgt_slice_string(slice, thread->name), name) != 0)
		return "another thread's name";
	if (first < thread->start_time ||
	    first + run->tick_count > thread->start_time + LIFE_TICKS)
		return "run outside its thread's life";
	if (run->stack != FGT_NODE_NONE)
		return "stack of another thread";
	return NULL;
}

static const char *check_wait(const struct fgt_ring_slice *slice,
			      const struct fgt_run *run)
{
	const struct fgt_slice_wait *wait = &slice->waits[run->wait - 1];
	char text[32];

	if (wait->kind != FGT_WAIT_MUTEX ||
	    wait->address != kit_leaf(slice, run))
		return "reason of another tick";
	snprintf(text, sizeof(text), "%llx", (unsigned long long)wait->address);
	return strcmp(text, fgt_slice_string(slice, wait->text)) == 0
		       ? NULL
		       : "text of another reason";
}

static const char *check_wake(const struct scene *scene,
			      const struct fgt_ring_slice *slice,
			      const struct fgt_slice_wake *wake)
{
	const struct fgt_slice_waker *waker = &slice->wakers[wake->waker];
	const struct fgt_run stack = { .stack = waker->stack };
	uint64_t tick = wake->at_ns / PERIOD_NS;

	if (wake->delay_us != tick || (uint64_t)waker->tid != tick)
		return "waker of another tick";
	if ((uint64_t)slice->threads[wake->thread].tid !=
	    tick % scene->busy + 1)
		return "wake-up of another thread";
	return kit_leaf(slice, &stack) == (tick << 20 | 1)
		       ? NULL
		       : "stack of another waker";
}

static const char *check_run(const struct scene *scene,
			     const struct fgt_ring_slice *slice,
			     const struct fgt_run *run, uint64_t first_tick)
{
	uint32_t thread = (uint32_t)slice->threads[run->thread].tid - 1;
	uint64_t first = first_tick + run->first_tick, tick;
	uint32_t node = run->stack, level = 0;
	char path[16];

	if (thread == SHORT_TID - 1)
		return check_short_lived(slice, run, first_tick);
	if (thread >= scene->busy + LAZY || node == FGT_NODE_NONE)
		return "no such thread or stack";
	tick = kit_leaf(slice, run) >> 16;
	if (thread < scene->busy
		    ? tick != first % scene->stacks || run->tick_count != 1
		    : tick > first || run->tick_count > LAZY_TICKS)
		return "stack of another tick";
	snprintf(path, sizeof(path), "/lib/%u", thread % 9);
	for (; node != FGT_NODE_NONE; node = slice->nodes[node].parent) {
		const struct fgt_frame *frame =
			&slice->frames[slice->nodes[node].frame].frame;

		if (frame->address != address_of(tick, thread, level++))
			return "frame of another stack";
		if (!frame->image ||
		    strcmp(path,
			   fgt_slice_string(
				   slice,
				   slice->images[frame->image - 1].path)) != 0)
			return "image of another frame";
	}
	if (level != DEPTH || run->state != thread)
		return "depth or state of another stack";
	return run->wait ? check_wait(slice, run) : NULL;
}

static const char *check_slice(struct scene *scene,
			       const struct fgt_ring_slice *slice)
{
	uint64_t first_tick = slice->tick_ns[0] / PERIOD_NS;
	const char *fault = NULL;

	if (!fgt_slice_is_valid(slice))
		return "not valid";
	for (uint32_t i = 0; i < slice->tick_count; i++)
		if (slice->tick_ns[i] != (first_tick + i) * PERIOD_NS)
			return "a tick is missing";
	for (uint32_t i = 0; i < slice->anchor_count; i++)
		if (slice->anchors[i].wall_ns !=
		    slice->anchors[i].mono_ns / PERIOD_NS)
			return "anchor of another second";
	for (uint32_t i = 0; i < slice->run_count && !fault; i++)
		fault = check_run(scene, slice, &slice->runs[i], first_tick);
	for (uint32_t i = 0; i < slice->wake_count && !fault; i++)
		fault = check_wake(scene, slice, &slice->wakes[i]);
	atomic_fetch_add(&scene->waits, slice->wait_count);
	atomic_fetch_add(&scene->wakes, slice->wake_count);
	return fault;
}

static const char *cut_and_check(struct reader *reader)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct scene *scene = reader->scene;
	uint64_t from_ns = 0, to_ns = UINT64_MAX;
	struct fgt_ring_stats stats;
	int error;

	reader->random = reader->random * 6364136223846793005u + 1;
	fgt_ring_get_stats(scene->ring, &stats);
	if (reader->random >> 62)
		from_ns = stats.newest_ns -
			  (reader->random >> 32) % 500 * PERIOD_NS;
	if (reader->random >> 61 & 1)
		to_ns = from_ns + 100 * (uint64_t)PERIOD_NS;
	if (from_ns > to_ns)
		return NULL;
	error = fgt_ring_cut(scene->ring, from_ns, to_ns, &slice);
	if (error == -EAGAIN)
		atomic_fetch_add(&scene->again, 1);
	if (error)
		return error == -EAGAIN || error == -ENODATA ? NULL
							     : "cut failed";
	atomic_fetch_add(&scene->cuts, 1);
	if (slice->lapped_ticks)
		atomic_fetch_add(&scene->lapped_cuts, 1);
	return check_slice(scene, slice);
}

static void *read_ring(void *argument)
{
	struct reader *reader = argument;

	while (!reader->fault && !atomic_load(&reader->scene->is_over))
		reader->fault = cut_and_check(reader);
	if (reader->fault)
		atomic_store(&reader->scene->has_fault, true);
	return NULL;
}

static void run_scene(uint32_t busy, uint64_t stacks)
{
	struct scene scene = { .ring = kit_ring(10000, 30, 1 << 20),
			       .busy = busy,
			       .stacks = stacks };
	struct reader readers[READERS];
	struct fgt_ring_stats stats;

	add_images(&scene);
	for (uint32_t i = 0; i < READERS; i++) {
		readers[i] = (struct reader){ .scene = &scene, .random = i };
		assert_int_equal(pthread_create(&readers[i].thread, NULL,
						read_ring, &readers[i]),
				 0);
	}
	write_ticks(&scene);
	atomic_store(&scene.is_over, true);
	for (uint32_t i = 0; i < READERS; i++)
		pthread_join(readers[i].thread, NULL);
	fgt_ring_get_stats(scene.ring, &stats);
	print_message("%llu ticks, %llu cuts, %llu lapped, %llu again\n",
		      (unsigned long long)stats.ticks,
		      (unsigned long long)scene.cuts,
		      (unsigned long long)scene.lapped_cuts,
		      (unsigned long long)scene.again);
	for (uint32_t i = 0; i < READERS; i++)
		if (readers[i].fault)
			fail_msg("%s", readers[i].fault);
	assert_true(scene.cuts >= CUTS_WANTED);
	assert_true(scene.lapped_cuts > 0);
	assert_true(scene.waits > 0 && scene.wakes > 0);
	assert_int_equal(stats.overflows, 0);
	fgt_ring_free(scene.ring);
}

/* Faults R1 and R2. Tables are what is reused: a new stack for each thread at
 * each tick. */
static void lapped_reader_of_stacks_gets_an_error_or_true_data(void **state)
{
	(void)state;
	run_scene(6, UINT64_MAX);
}

/* Fault R1. The log is what is reused: many threads that take turns in few
 * stacks. */
static void lapped_reader_of_ticks_gets_an_error_or_true_data(void **state)
{
	(void)state;
	run_scene(BUSY_MAX, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			lapped_reader_of_stacks_gets_an_error_or_true_data),
		cmocka_unit_test(
			lapped_reader_of_ticks_gets_an_error_or_true_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
