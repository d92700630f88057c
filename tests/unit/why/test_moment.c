/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of threads at one tick, and cycles of locks. */
#include "upload/why/filter.h"
#include "upload/why/moment.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <time.h>

#include "tests/unit/ringbuf/slice_fixture.h"

static bool is_whole;

static uint64_t tick_ns(uint32_t tick)
{
	return FIXTURE_START_NS + tick * FIXTURE_PERIOD_NS;
}

/* Four threads at the same place; those with an owner have a reason each. */
static struct fgt_ring_slice *make(const int32_t owners[4])
{
	struct fgt_ring_slice *slice = fixture_new(10);
	uint32_t stack = fixture_stack(slice, "main;take;lock");

	for (int32_t i = 0; i < 4; i++) {
		uint32_t thread = fixture_thread(slice, 4242 + i, "t");

		fixture_run(slice, thread, 2, 5, stack, FIXTURE_FUTEX);
		if (owners[i])
			fixture_wait(slice, FGT_WAIT_MUTEX, owners[i], "");
	}
	assert_true(fgt_slice_is_valid(slice));
	return slice;
}

static void equal_stacks_are_one_group(void **state)
{
	struct fgt_ring_slice *slice = make((int32_t[]){ 0, 4242, 0, 0 });
	struct fgt_moment *moment;

	(void)state;
	assert_int_equal(fgt_moment_new(slice, tick_ns(6), 0, NULL, &moment),
			 0);
	assert_int_equal(moment->tick, 6);
	assert_int_equal(moment->thread_count, 4);
	assert_int_equal(moment->group_count, 2);
	assert_int_equal(moment->groups[0].count, 3);
	assert_int_equal(moment->groups[0].first_tick, 2);
	assert_int_equal(moment->threads[1], 2);
	assert_int_equal(moment->groups[1].count, 1);
	assert_int_equal(moment->cycle_count, 0);
	fgt_moment_free(moment);
	assert_int_equal(fgt_moment_new(slice, tick_ns(6), 4243, NULL, &moment),
			 0);
	assert_int_equal(moment->thread_count, 1);
	fgt_moment_free(moment);
	fgt_ring_slice_free(slice);
}

static void holder_is_the_thread_that_has_the_number_then(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(10);
	uint32_t stack = fixture_stack(slice, "main;take;lock");
	uint32_t first = fixture_thread(slice, 4242, "t");
	uint32_t ended = fixture_thread(slice, 4243, "t");
	uint32_t second = fixture_thread(slice, 4243, "t");
	struct fgt_moment *moment;

	(void)state;
	fixture_run(slice, first, 2, 5, stack, FIXTURE_FUTEX);
	fixture_wait(slice, FGT_WAIT_MUTEX, 4243, "");
	fixture_run(slice, ended, 0, 2, stack, FIXTURE_FUTEX);
	fixture_run(slice, second, 2, 5, stack, FIXTURE_FUTEX);
	fixture_wait(slice, FGT_WAIT_MUTEX, 4242, "");
	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(fgt_moment_new(slice, tick_ns(4), 0, NULL, &moment),
			 0);
	assert_int_equal(moment->thread_count, 2);
	assert_int_equal(moment->cycle_count, 1);
	assert_int_equal(slice->runs[moment->cycle_runs[1]].thread, second);
	fgt_moment_free(moment);
	fgt_ring_slice_free(slice);
}

static void last_tick_needs_no_more_than_what_goes_on_at_it(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	struct fgt_ring_slice *slice = fixture_new(10);
	uint32_t stack = fixture_stack(slice, "main;take;lock");
	uint32_t other = fixture_stack(slice, "main;compute");
	uint32_t thread = fixture_thread(slice, 4242, "t");
	uint32_t ended = fixture_thread(slice, 4243, "ended");
	struct fgt_moment *moment;

	(void)state;
	fixture_run(slice, thread, 0, 2, stack, FIXTURE_FUTEX);
	fixture_run(slice, thread, 2, 1, other, FGT_STATE_RUNNING);
	fixture_run(slice, thread, 3, 3, stack, FIXTURE_FUTEX);
	fixture_run(slice, thread, 6, 4, stack, FIXTURE_FUTEX);
	fixture_wait(slice, FGT_WAIT_MUTEX, 4243, "");
	fixture_run(slice, ended, 0, 9, other, FGT_STATE_RUNNING);
	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(fgt_moment_narrow(slice, 0, false, &part, &is_whole),
			 0);
	fgt_ring_slice_free(slice);
	assert_true(fgt_slice_is_valid(part));
	assert_int_equal(part->run_count, 2);
	assert_int_equal(part->node_count, 3);
	assert_int_equal(fgt_moment_new(part, UINT64_MAX, 0, NULL, &moment), 0);
	assert_int_equal(moment->tick, 9);
	assert_int_equal(moment->groups[0].first_tick, 3);
	assert_int_equal(moment->threads[0], 0);
	assert_int_equal(part->waits[0].owner_tid, 4243);
	fgt_moment_free(moment);
}

/* The last thing that is known of a process that has ended. */
static void end_is_the_last_tick_with_threads(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	struct fgt_ring_slice *slice = make((int32_t[]){ 0, 0, 0, 0 });
	struct fgt_moment *moment;

	(void)state;
	assert_int_equal(fgt_moment_new(slice, UINT64_MAX, 0, NULL, &moment),
			 0);
	assert_int_equal(moment->tick, 6);
	fgt_moment_free(moment);
	assert_int_equal(fgt_moment_narrow(slice, 0, false, &part, &is_whole),
			 0);
	fgt_ring_slice_free(slice);
	assert_int_equal(part->run_count, 4);
}

/* The first thread is there to the last, without a stack; the others end one
 * after another, one of them long before. */
static void killed_process_still_has_its_threads(void **state)
{
	static const uint32_t ends[] = { 58, 57, 59, 30 };
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	struct fgt_ring_slice *slice = fixture_new(60);
	uint32_t stack = fixture_stack(slice, "main;take;lock");
	struct fgt_moment *moment;

	(void)state;
	for (int32_t i = 0; i < 4; i++) {
		uint32_t thread = fixture_thread(slice, 4242 + i, "t");

		slice->threads[thread].moved_ns = tick_ns(ends[i]);
		fixture_run(slice, thread, 2, ends[i] - 2, stack,
			    FIXTURE_FUTEX);
		if (!i)
			fixture_run(slice, thread, 58, 2, FGT_NODE_NONE,
				    FGT_STATE_UNKNOWN);
	}
	assert_int_equal(fgt_moment_narrow(slice, 0, true, &part, &is_whole),
			 0);
	assert_int_equal(fgt_moment_new(part, UINT64_MAX, 0, NULL, &moment), 0);
	assert_int_equal(part->tick_ns[moment->tick], tick_ns(56));
	assert_int_equal(moment->thread_count, 3);
	assert_int_equal(moment->group_count, 1);
	assert_int_equal(part->tick_ns[moment->groups[0].first_tick],
			 tick_ns(2));
	fgt_moment_free(moment);
	strcpy(slice->ended_by, "SIGKILL");
	assert_int_equal(fgt_moment_new(slice, UINT64_MAX, 0, NULL, &moment),
			 0);
	assert_int_equal(moment->tick, 56);
	assert_int_equal(moment->thread_count, 3);
	fgt_moment_free(moment);
	fgt_ring_slice_free(slice);
}

/* Two of them are asked one after the other, the third has ended before. */
static void now_is_the_last_tick_that_all_processes_have(void **state)
{
	static const uint32_t ends[] = { 39, 40, 5 };
	struct fgt_ring_slice *slice = fixture_new(40);
	uint32_t stack = fixture_stack(slice, "main;take;lock");
	struct fgt_moment *moment;

	(void)state;
	slice->processes = calloc(3, sizeof(*slice->processes));
	assert_non_null(slice->processes);
	slice->process_count = 3;
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t thread = fixture_thread(slice, 4242 + (int)i, "t");

		slice->threads[thread].process = i;
		fixture_run(slice, thread, 0, ends[i], stack, FIXTURE_FUTEX);
	}
	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(fgt_moment_new(slice, UINT64_MAX, 0, NULL, &moment),
			 0);
	assert_int_equal(moment->tick, 38);
	assert_int_equal(moment->thread_count, 2);
	fgt_moment_free(moment);
	fgt_ring_slice_free(slice);
}

static void time_without_threads_is_no_data(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(10), *part;

	(void)state;
	assert_int_equal(fgt_moment_narrow(slice, 0, false, &part, &is_whole),
			 -ENODATA);
	fgt_ring_slice_free(slice);
}

/* Seen for longer than it waits, a thread waits again and again; a stack that
 * was cut short may be the same one. */
static void a_wait_is_no_longer_than_its_time(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);
	FGT_AUTO(fgt_moment_free) struct fgt_moment *moment = NULL;
	char cut[32];
	uint32_t stack = fixture_stack(slice, "main;nap;sleep");
	uint32_t naps = fixture_thread(slice, 4242, "naps");
	uint32_t sleeps = fixture_thread(slice, 4243, "sleeps");
	uint32_t waits = fixture_thread(slice, 4244, "waits");
	const struct fgt_moment_group *groups;

	(void)state;
	snprintf(cut, sizeof(cut), "#%d;nap;sleep", FGT_MARKER_TRUNCATED_LATE);
	fixture_run(slice, naps, 1, 9, stack, FIXTURE_FUTEX);
	fixture_wait(slice, FGT_WAIT_SLEEP, 0, "")->timeout_ns =
		3 * FIXTURE_PERIOD_NS;
	fixture_run(slice, sleeps, 6, 4, stack, FIXTURE_FUTEX);
	fixture_wait(slice, FGT_WAIT_MUTEX, 0, "")->timeout_ns =
		3 * FIXTURE_PERIOD_NS;
	fixture_run(slice, waits, 1, 2, fixture_stack(slice, cut),
		    FIXTURE_EPOLL);
	fixture_run(slice, waits, 3, 7, stack, FIXTURE_EPOLL);
	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(fgt_moment_new(slice, UINT64_MAX, 0, NULL, &moment),
			 0);
	assert_int_equal(moment->group_count, 3);
	groups = moment->groups;
	assert_true(groups[0].is_repeated && !groups[0].is_begin_known);
	assert_int_equal(groups[0].first_tick, 5);
	assert_true(!groups[1].is_repeated && groups[1].is_begin_known);
	assert_int_equal(groups[1].first_tick, 6);
	assert_int_equal(groups[2].first_tick, 1);
}

static void cycles_are_listed_once(void **state)
{
	/* 4242 and 4243 wait for each other; 4244 for them; 4245 for a thread
	 * that does not exist. */
	struct fgt_ring_slice *slice =
		make((int32_t[]){ 4243, 4242, 4242, 99 });
	struct fgt_moment *moment;

	(void)state;
	assert_int_equal(fgt_moment_new(slice, tick_ns(9), 0, NULL, &moment),
			 -ENODATA);
	assert_int_equal(fgt_moment_new(slice, tick_ns(4), 0, NULL, &moment),
			 0);
	assert_int_equal(moment->cycle_count, 1);
	assert_int_equal(moment->cycle_ends[0], 2);
	assert_int_equal(slice->runs[moment->cycle_runs[0]].thread, 0);
	assert_int_equal(slice->runs[moment->cycle_runs[1]].thread, 1);
	fgt_moment_free(moment);
	fgt_ring_slice_free(slice);
}

/* 4242 waits for 4243, that for 4244, which the kernel did not let wait; 4245 waits
 * for 4242. */
static void refused_lock_closes_a_cycle(void **state)
{
	struct fgt_ring_slice *slice =
		make((int32_t[]){ 4243, 4244, 4243, 4242 });
	struct fgt_moment *moment;

	(void)state;
	for (int i = 0; i < 4; i++)
		slice->waits[i].kind = FGT_WAIT_PI_LOCK;
	slice->waits[2].owner_tid = 0;
	assert_int_equal(fgt_moment_new(slice, tick_ns(4), 0, NULL, &moment),
			 0);
	assert_int_equal(moment->cycle_count, 1);
	assert_int_equal(moment->cycle_ends[0], 4);
	fgt_moment_free(moment);
	/* The kernel did not follow this one. */
	slice->waits[1].kind = FGT_WAIT_MUTEX;
	assert_int_equal(fgt_moment_new(slice, tick_ns(4), 0, NULL, &moment),
			 0);
	assert_int_equal(moment->cycle_count, 0);
	fgt_moment_free(moment);
	fgt_ring_slice_free(slice);
}

/* As a hostile file may have them: from each the others were followed. */
static void chains_of_many_threads_take_no_time(void **state)
{
	const int32_t count = 20000;
	struct fgt_ring_slice *slice = fixture_new(10);
	uint32_t stack = fixture_stack(slice, "main;take;lock");
	struct fgt_moment *moment;
	clock_t began;

	(void)state;
	/* Each waits for the next one, the last for the one before it. */
	for (int32_t i = 0; i < count; i++) {
		uint32_t thread = fixture_thread(slice, 1000 + i, "t");

		fixture_run(slice, thread, 2, 5, stack, FIXTURE_FUTEX);
		fixture_wait(slice, FGT_WAIT_MUTEX,
			     i < count - 1 ? 1001 + i : 1000 + i - 1, "");
	}
	began = clock();
	assert_int_equal(fgt_moment_new(slice, tick_ns(4), 0, NULL, &moment),
			 0);
	assert_true(clock() - began < 2 * CLOCKS_PER_SEC);
	assert_int_equal(moment->cycle_count, 1);
	assert_int_equal(moment->cycle_ends[0], 2);
	assert_int_equal(slice->runs[moment->cycle_runs[0]].thread, count - 2);
	fgt_moment_free(moment);
	fgt_ring_slice_free(slice);
}

static void filter_leaves_cycles_whole(void **state)
{
	struct fgt_ring_slice *slice =
		make((int32_t[]){ 4243, 4242, 4242, 99 });
	const struct fgt_filter filter = { .thread = "424[35]" };
	struct fgt_moment *moment;
	bool *shown;

	(void)state;
	assert_int_equal(fgt_filter_mark(&filter, slice, &shown), 0);
	assert_int_equal(fgt_moment_new(slice, tick_ns(4), 0, shown, &moment),
			 0);
	assert_int_equal(moment->thread_count, 2);
	assert_int_equal(slice->threads[moment->threads[0]].tid, 4243);
	assert_int_equal(slice->threads[moment->threads[1]].tid, 4245);
	assert_int_equal(moment->cycle_count, 1);
	assert_int_equal(moment->cycle_ends[0], 2);
	fgt_moment_free(moment);
	free(shown);
	fgt_ring_slice_free(slice);
}

static void time_before_the_slice_has_no_threads(void **state)
{
	struct fgt_ring_slice *slice = make((int32_t[]){ 0, 0, 0, 0 });
	struct fgt_moment *moment = NULL;

	(void)state;
	assert_int_equal(fgt_moment_new(slice, 1, 0, NULL, &moment), -ENODATA);
	assert_int_equal(fgt_moment_new(slice, tick_ns(1), 0, NULL, &moment),
			 -ENODATA);
	assert_int_equal(fgt_moment_new(slice, tick_ns(4), 7, NULL, &moment),
			 -ENODATA);
	assert_null(moment);
	fgt_ring_slice_free(slice);
}

/* At 0, 10, 20 … ms. */
static void a_thread_that_ran_between_ticks_began_later(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	struct fgt_ring_slice *slice = fixture_new(10);
	uint32_t stack = fixture_stack(slice, "main;nap;clock_nanosleep");
	struct fgt_moment *moment;

	(void)state;
	for (int32_t i = 0; i < 3; i++)
		fixture_run(slice, fixture_thread(slice, 4242 + i, "t"), 0, 10,
			    stack, FIXTURE_FUTEX);
	fixture_edge(slice, 0, 3, 5000, 4000);
	fixture_edge(slice, 0, 7, 5000, 4000);
	fixture_wake(slice, 1, FIXTURE_PERIOD_NS / 1000000 * 5 - 4, 4242,
		     stack);
	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(fgt_moment_new(slice, tick_ns(9), 4242, NULL, &moment),
			 0);
	assert_int_equal(moment->groups[0].first_tick, 7);
	fgt_moment_free(moment);
	assert_int_equal(fgt_moment_new(slice, tick_ns(6), 4242, NULL, &moment),
			 0);
	assert_int_equal(moment->groups[0].first_tick, 3);
	fgt_moment_free(moment);
	assert_int_equal(fgt_moment_narrow(slice, 0, false, &part, &is_whole),
			 0);
	fgt_ring_slice_free(slice);
	for (int32_t i = 0; i < 3; i++) {
		static const uint32_t ticks[] = { 7, 5, 0 };

		assert_int_equal(fgt_moment_new(part, UINT64_MAX, 4242 + i,
						NULL, &moment),
				 0);
		assert_int_equal(moment->groups[0].first_tick, ticks[i]);
		fgt_moment_free(moment);
	}
}

/* Ticks: a thread that moved long before them, one before even the oldest, one
 * at a time between, and one that moved in the slice. */
static void what_began_before_the_slice_is_reached(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	struct fgt_ring_slice *slice = fixture_new(10);
	uint32_t stack = fixture_stack(slice, "main;take;lock");
	const uint64_t begun_ns[] = { FIXTURE_START_NS - 5000, 10,
				      FIXTURE_START_NS - 300, tick_ns(4) };
	const uint64_t wanted_ns[] = { FIXTURE_START_NS - 5000,
				       FIXTURE_START_NS - 7000,
				       FIXTURE_START_NS - 300, tick_ns(4) };

	(void)state;
	for (int32_t i = 0; i < 4; i++) {
		uint32_t thread = fixture_thread(slice, 4242 + i, "t");

		slice->threads[thread].moved_ns = begun_ns[i];
		fixture_run(slice, thread, i == 3 ? 4 : 0, i == 3 ? 6 : 10,
			    stack, FIXTURE_FUTEX);
	}
	assert_int_equal(fgt_moment_narrow(slice, FIXTURE_START_NS - 7000,
					   false, &part, &is_whole),
			 0);
	assert_true(is_whole);
	assert_true(fgt_slice_is_valid(part));
	for (int32_t i = 0; i < 4; i++) {
		struct fgt_moment *moment;

		assert_int_equal(fgt_moment_new(part, UINT64_MAX, 4242 + i,
						NULL, &moment),
				 0);
		assert_int_equal(part->tick_ns[moment->groups[0].first_tick],
				 wanted_ns[i]);
		/* "at least" */
		assert_int_equal(moment->groups[0].is_begin_known, i != 1);
		fgt_moment_free(moment);
	}
	fgt_ring_slice_free(part);
	/* It has moved since: when it did before that must be looked for. */
	slice->threads[0].moved_ns = tick_ns(10);
	assert_int_equal(fgt_moment_narrow(slice, FIXTURE_START_NS - 7000,
					   false, &part, &is_whole),
			 0);
	assert_false(is_whole);
	assert_int_equal(part->tick_count, 10);
	fgt_ring_slice_free(slice);
}

/* The reason is known later, but the thread has moved then. */
static void a_move_ends_what_went_on(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(10), *part;
	uint32_t thread = fixture_thread(slice, 4242, "t");
	uint32_t stack = fixture_stack(slice, "main;take;lock");

	(void)state;
	fixture_run(slice, thread, 0, 8, stack, FIXTURE_FUTEX);
	fixture_run(slice, thread, 8, 2, stack, FIXTURE_FUTEX);
	fixture_wait(slice, FGT_WAIT_MUTEX, 4243, "");
	slice->threads[thread].moved_ns = tick_ns(8);
	assert_int_equal(fgt_moment_narrow(slice, 0, false, &part, &is_whole),
			 0);
	fgt_ring_slice_free(slice);
	assert_int_equal(part->run_count, 1);
	fgt_ring_slice_free(part);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_stacks_are_one_group),
		cmocka_unit_test(a_move_ends_what_went_on),
		cmocka_unit_test(what_began_before_the_slice_is_reached),
		cmocka_unit_test(holder_is_the_thread_that_has_the_number_then),
		cmocka_unit_test(
			last_tick_needs_no_more_than_what_goes_on_at_it),
		cmocka_unit_test(end_is_the_last_tick_with_threads),
		cmocka_unit_test(killed_process_still_has_its_threads),
		cmocka_unit_test(now_is_the_last_tick_that_all_processes_have),
		cmocka_unit_test(time_without_threads_is_no_data),
		cmocka_unit_test(a_thread_that_ran_between_ticks_began_later),
		cmocka_unit_test(a_wait_is_no_longer_than_its_time),
		cmocka_unit_test(cycles_are_listed_once),
		cmocka_unit_test(refused_lock_closes_a_cycle),
		cmocka_unit_test(chains_of_many_threads_take_no_time),
		cmocka_unit_test(filter_leaves_cycles_whole),
		cmocka_unit_test(time_before_the_slice_has_no_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
