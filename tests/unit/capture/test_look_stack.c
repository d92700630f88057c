/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of threads that may run meanwhile: a block that is read again, and
 * calls that had been made by the tick. The thread is this one, its stack an
 * array.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/capture/look/look_parts.h"

#define WORDS	   64u
#define NOWHERE	   0x10u /* no code */
#define SP	   0x7000u
#define FRAME_SIZE 16u
#define RETURNS	   8u /* below the SP of a frame that has returned */

struct fixture {
	struct fgt_look look;
	struct fgt_look_thread thread_look;
	struct fgt_active_thread active;
	struct fgt_thread *thread;
	struct fgt_image_cache *cache;
	struct fgt_tick tick;
	uint64_t words[WORDS]; /* its stack */
};

static int set_up(void **state)
{
	const struct fgt_ring_options options = { .hz = 101, .seconds = 2 };
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	struct fgt_look *look = &fixture->look;
	struct fgt_ring *ring;

	assert_non_null(fixture);
	assert_int_equal(fgt_process_open(getpid(), &look->process, NULL), 0);
	assert_int_equal(fgt_image_cache_new(&fixture->cache), 0);
	assert_int_equal(fgt_ring_new(&options, &ring), 0);
	assert_int_equal(fgt_stacks_init(&look->stacks, &look->process,
					 fixture->cache, ring, 0),
			 0);
	assert_int_equal(fgt_thread_store_init(&look->threads.table), 0);
	fixture->thread = fgt_thread_store_add(&look->threads.table, gettid());
	assert_non_null(fixture->thread);
	fixture->thread->active = &fixture->active;
	fixture->active.look = &fixture->thread_look;
	fixture->tick.buffer = malloc(2 * FGT_SNAPSHOT_MAX_BYTES);
	fixture->tick.other_buffer =
		fixture->tick.buffer + FGT_SNAPSHOT_MAX_BYTES;
	fixture->tick.frames =
		calloc(look->stacks.capacity, sizeof(struct fgt_frame));
	assert_true(fixture->tick.buffer && fixture->tick.frames);
	fixture->tick.mono_ns = 5000000000u;
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_ring *ring = fixture->look.stacks.ring;

	fgt_stacks_done(&fixture->look.stacks);
	fgt_ring_free(ring);
	fgt_image_cache_free(fixture->cache);
	fgt_process_close(&fixture->look.process);
	fgt_thread_store_done(&fixture->look.threads.table);
	free(fixture->tick.buffer);
	free(fixture->tick.frames);
	free(fixture);
	return 0;
}

/* ---- A block that is read again ----------------------------------------- */

/* It blocks where a function of libc begins, called from an address. */
static struct fgt_snapshot begin(struct fixture *fixture, uint64_t caller)
{
	struct fgt_snapshot snapshot;

	fixture->words[0] = caller;
	assert_true(fgt_look_stack_begin(&fixture->look, &fixture->tick,
					 fixture->thread,
					 (uintptr_t)fixture->words,
					 (uintptr_t)getppid, &snapshot) > 0);
	return snapshot;
}

static uint64_t count_stacks(const struct fixture *fixture)
{
	struct fgt_unwind_stats stats;

	fgt_unwinder_get_stats(fixture->look.stacks.unwinder, &stats);
	return stats.stacks;
}

static void words_of_a_thread_that_runs_are_no_stack(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_stacks *stacks = &fixture->look.stacks;
	struct fgt_frame block[8];
	struct fgt_snapshot snapshot;
	size_t count;

	assert_int_equal(fgt_stacks_refresh(stacks, 1, false, NULL), 1);
	snapshot = begin(fixture, (uintptr_t)getpid + 1);
	count = fgt_look_stack_blocked(&fixture->look, &fixture->tick,
				       fixture->thread, &snapshot, 0);
	assert_in_range(count, 2, 8);
	memcpy(block, fixture->tick.frames, count * sizeof(*block));
	snapshot = begin(fixture, (uintptr_t)getpid + 1);
	assert_true(fgt_look_stack_again(&fixture->look, &fixture->tick,
					 fixture->thread, &snapshot, block,
					 count));

	stacks->is_stale = fixture->thread->is_incomplete = false;
	stacks->read_ns = stacks->patience_ns = 0;
	snapshot = begin(fixture, NOWHERE);
	assert_false(fgt_look_stack_again(&fixture->look, &fixture->tick,
					  fixture->thread, &snapshot, block,
					  count));
	assert_int_equal(count_stacks(fixture), 2);
	assert_false(stacks->is_stale || fixture->thread->is_incomplete);
	assert_int_equal(stacks->read_ns, 0);
	/* Of a thread that is blocked, such a word is news of the maps. */
	snapshot = begin(fixture, NOWHERE);
	fgt_look_stack_blocked(&fixture->look, &fixture->tick, fixture->thread,
			       &snapshot, 0);
	assert_int_equal(count_stacks(fixture), 3);
	assert_true(fixture->thread->is_incomplete);
	assert_int_equal(stacks->read_ns, fixture->tick.mono_ns);
}

/* ---- Calls that had been made (look_kernel.c) --------------------------- */

/* Of a stack of six frames, all of whose calls had been made by the tick. */
static size_t known_of(struct fixture *fixture, uint32_t root_flags,
		       size_t shared)
{
	struct fgt_unwound_frame *unwound = fixture->look.stacks.unwound;
	struct fgt_look_words *words = &fixture->thread_look.words;

	for (uint32_t i = 0; i < 6; i++) {
		unwound[i] = (struct fgt_unwound_frame){
			.pc = 100 + i,
			.flags = i == 5 ? root_flags : FGT_FRAME_CALLER,
			.sp_low = SP + i * FRAME_SIZE,
		};
		if (i)
			fixture->words[i * FRAME_SIZE / 8] = 100 + i;
	}
	*words = (struct fgt_look_words){
		.sample_sp = SP,
		.bytes = (uint8_t *)fixture->words,
		.start = SP - RETURNS,
		.len = sizeof(fixture->words),
	};
	return fgt_look_words_known(&fixture->look, fixture->thread, 6, shared);
}

static void first_functions_of_a_thread_are_known(void **state)
{
	struct fixture *fixture = *state;

	fixture->look.process.pid++;
	assert_int_equal(known_of(fixture, FGT_FRAME_CALLER, 0), 3);
	assert_int_equal(known_of(fixture, FGT_FRAME_CALLER, 5), 5);
	fixture->look.process.pid--;
	/* Its fourth is main(). */
	assert_int_equal(known_of(fixture, FGT_FRAME_CALLER, 0), 4);
}

static void last_functions_of_a_stack_cut_short_are_not_known(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(known_of(fixture, FGT_FRAME_MARKER, 0), 1);
	assert_int_equal(known_of(fixture, FGT_FRAME_MARKER, 3), 3);
}

int main(void)
{
#define LOOK(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		LOOK(words_of_a_thread_that_runs_are_no_stack),
		LOOK(first_functions_of_a_thread_are_known),
		LOOK(last_functions_of_a_stack_cut_short_are_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
