/* SPDX-License-Identifier: Apache-2.0 */
/* Explanations of what comes back: 1000 ticks of 10 ms, asked about 200 to 219;
 * a thread idles, and does the same in some stretches of 20 ticks. */
#include "upload/why/explain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/slice_fixture.h"

#define TICKS 1000u
#define FIRST 200u
#define COUNT 20u
#define IDLE  "main;serve;libc.so.6!epoll_wait"

static const struct fgt_filter all_threads;

static struct fgt_explanation *explain(const struct fgt_ring_slice *slice,
				       int32_t tid)
{
	struct fgt_explanation *explanation;

	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(fgt_explain(slice, slice->tick_ns[FIRST],
				     slice->tick_ns[FIRST + COUNT - 1], tid,
				     &all_threads, &explanation),
			 0);
	return explanation;
}

/* It works in one of so many stretches. */
static struct fgt_ring_slice *make_recurring(uint32_t in)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t thread = fixture_thread(slice, 4250, "maint");

	for (uint32_t i = 0; i < TICKS / COUNT; i++) {
		bool is_at_work = i % in == FIRST / COUNT % in;

		fixture_run(slice, thread, i * COUNT, COUNT,
			    fixture_stack(slice,
					  is_at_work ? "main;rebuild" : IDLE),
			    is_at_work ? FGT_STATE_RUNNING : FIXTURE_EPOLL);
	}
	return slice;
}

static uint32_t count_causes(uint32_t in)
{
	struct fgt_ring_slice *slice = make_recurring(in);
	struct fgt_explanation *explanation = explain(slice, 0);
	uint32_t count = explanation->cause_count;

	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
	return count;
}

/* Every two seconds it is a cause; every 0.4 seconds it is the usual thing. */
static void recurring_work_is_a_cause(void **state)
{
	(void)state;
	assert_int_equal(count_causes(10), 1);
	assert_int_equal(count_causes(2), 0);
}

/* Nothing can be usual of it. */
static void new_thread_has_no_baseline(void **state)
{
	struct fgt_ring_slice *slice = make_recurring(10);
	struct fgt_explanation *explanation = explain(slice, 0);
	uint32_t thread, crunch;

	(void)state;
	assert_int_equal(explanation->fresh.threads, 0);
	fgt_explanation_free(explanation);
	thread = fixture_thread(slice, 4260, "burst");
	crunch = fixture_stack(slice, "main;crunch");
	fixture_run(slice, thread, FIRST, COUNT, crunch, FGT_STATE_RUNNING);
	explanation = explain(slice, 0);
	assert_int_equal(explanation->cause_count, 1);
	assert_int_equal(slice->runs[explanation->causes[0].run].thread, 0);
	assert_int_equal(explanation->fresh.threads, 1);
	assert_int_equal(slice->runs[explanation->fresh.run].stack, crunch);
	assert_true(explanation->fresh.own_ms > 199 &&
		    explanation->fresh.own_ms < 201);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

static void path_has_the_parts_of_what_was_waited_for(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t worker = fixture_thread(slice, 4242, "worker");
	uint32_t maint = fixture_thread(slice, 4250, "maint");
	struct fgt_explanation *explanation;
	const struct fgt_explained_step *step;

	(void)state;
	fixture_run(slice, worker, 0, TICKS,
		    fixture_stack(slice, "main;libc.so.6!pthread_mutex_lock"),
		    FIXTURE_FUTEX);
	fixture_wait(slice, FGT_WAIT_MUTEX, 4250, "")->address = 0x1000;
	fixture_run(slice, maint, 0, FIRST + 7,
		    fixture_stack(slice, "main;rebuild"), FGT_STATE_RUNNING);
	fixture_run(slice, maint, FIRST + 7, TICKS - FIRST - 7,
		    fixture_stack(slice, "main;rebuild"), FGT_STATE_RUNNABLE);
	explanation = explain(slice, 4242);
	step = &explanation->steps[0];
	assert_int_equal(explanation->step_count, 1);
	assert_int_equal(step->part_count, 2);
	assert_int_equal(slice->runs[step->parts[0].run].state,
			 FGT_STATE_RUNNABLE);
	assert_true(step->parts[0].ms > 129 && step->parts[0].ms < 131);
	assert_int_equal(slice->runs[step->parts[1].run].state,
			 FGT_STATE_RUNNING);
	assert_true(step->parts[1].ms > 69 && step->parts[1].ms < 71);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

/* It has a lower tid than the one that is there, and was there before. */
static void thread_that_has_ended_is_not_chosen(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t dead = fixture_thread(slice, 4242, "dead");
	uint32_t alive = fixture_thread(slice, 4250, "alive");
	struct fgt_explanation *explanation;

	(void)state;
	fixture_run(slice, dead, 0, FIRST / 2, fixture_stack(slice, IDLE),
		    FIXTURE_EPOLL);
	fixture_run(slice, alive, 0, TICKS, fixture_stack(slice, IDLE),
		    FIXTURE_EPOLL);
	explanation = explain(slice, 0);
	assert_int_equal(explanation->thread, alive);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

static void idle(struct fgt_ring_slice *slice, uint32_t thread, uint32_t first,
		 uint32_t count)
{
	fixture_run(slice, thread, first, count, fixture_stack(slice, IDLE),
		    FIXTURE_EPOLL);
}

/* One began with the range and idles since, one is there in the range alone; a
 * third one, as brief, holds a lock: only that is unusual, for its waiter. */
static void cause_is_compared_with_times_of_its_life(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t waiter = fixture_thread(slice, 4242, "waiter"), holder;
	struct fgt_explanation *explanation;

	(void)state;
	idle(slice, waiter, 0, FIRST);
	fixture_run(slice, waiter, FIRST, COUNT,
		    fixture_stack(slice, "main;libc.so.6!pthread_mutex_lock"),
		    FIXTURE_FUTEX);
	fixture_wait(slice, FGT_WAIT_MUTEX, 4253, "")->address = 0x1000;
	idle(slice, waiter, FIRST + COUNT, TICKS - FIRST - COUNT);
	idle(slice, fixture_thread(slice, 4251, "young"), FIRST, 5 * COUNT);
	idle(slice, fixture_thread(slice, 4252, "brief"), FIRST, COUNT);
	holder = fixture_thread(slice, 4253, "holder");
	fixture_run(slice, holder, FIRST, COUNT,
		    fixture_stack(slice, "main;rebuild"), FGT_STATE_RUNNING);
	explanation = explain(slice, 0);
	assert_int_equal(explanation->cause_count, 1);
	assert_int_equal(slice->runs[explanation->causes[0].run].thread,
			 holder);
	assert_int_equal(explanation->causes[0].waiters, 1);
	assert_int_equal(explanation->causes[0].rank.place, 1);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

/* In one function it waits again and again, each time for one of two; of the
 * last wait the wake-up is not known. */
static void each_wait_of_a_run_leads_to_its_waker(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t client = fixture_thread(slice, 4242, "client");
	struct fgt_explanation *explanation;

	(void)state;
	fixture_run(slice, client, 0, TICKS,
		    fixture_stack(slice, "main;ask;libc.so.6!recv"),
		    FIXTURE_EPOLL);
	for (int i = 0; i < 2; i++)
		fixture_run(slice, fixture_thread(slice, 4250 + i, "server"), 0,
			    TICKS, fixture_stack(slice, "main;serve"),
			    FGT_STATE_RUNNING);
	for (uint32_t i = 1; i <= 3; i++) {
		fixture_edge(slice, client, FIRST + 5 * i, 5000, 4900);
		fixture_wake(slice, client, (int)(FIRST + 5 * i) * 10 - 5,
			     4250 + (int)(i % 2), FGT_NODE_NONE);
	}
	fixture_edge(slice, client, FIRST + COUNT, 5000, 4900);
	explanation = explain(slice, 4242);
	assert_int_equal(explanation->step_count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		const struct fgt_explained_step *step = &explanation->steps[i];

		assert_int_equal(step->first, FIRST + 5 * i);
		assert_int_equal(slice->runs[step->culprit.run].thread,
				 i < 3 ? 1 + (i + 1) % 2 : client);
	}
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

/* Each waits for a lock of the next one; the last for one of that thread,
 * 0: for none, after which nothing is waited for. */
static struct fgt_explanation *explain_chain(struct fgt_ring_slice *slice,
					     int32_t count, int32_t last)
{
	uint32_t stack =
		fixture_stack(slice, "main;libc.so.6!pthread_mutex_lock");

	for (int32_t i = 0; i < count; i++) {
		int32_t owner = i < count - 1 ? 4242 + i + 1 : last;

		uint32_t thread = fixture_thread(slice, 4242 + i, "t");

		idle(slice, thread, 0, FIRST);
		fixture_run(slice, thread, FIRST, COUNT, stack, FIXTURE_FUTEX);
		if (owner)
			fixture_wait(slice, FGT_WAIT_MUTEX, owner, "")
				->address = 0x1000 + (uint64_t)i;
		idle(slice, thread, FIRST + COUNT, TICKS - FIRST - COUNT);
	}
	return explain(slice, 4242);
}

static void long_walks_find_the_deadlock_or_are_cut(void **state)
{
	static const struct {
		int32_t count, last;
		uint32_t cycle, depth;
		bool is_cut;
	} cases[] = {
		{ 24, 4242, 24, 0, false },   { 24, 4262, 4, 0, false },
		{ 200, 4242, 200, 0, false }, { 24, 0, 0, 16, true },
		{ 17, 0, 0, 16, false },      { 16, 0, 0, 15, false },
		{ 3, 4242, 3, 0, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct fgt_ring_slice *slice = fixture_new(TICKS);
		struct fgt_explanation *explanation =
			explain_chain(slice, cases[i].count, cases[i].last);
		const struct fgt_culprit *culprit =
			&explanation->steps[0].culprit;

		assert_int_equal(explanation->step_count, 1);
		assert_int_equal(culprit->cycle.count, cases[i].cycle);
		assert_int_equal(culprit->depth, cases[i].depth);
		assert_int_equal(culprit->is_cut, cases[i].is_cut);
		assert_true(explanation->cause_count > 0);
		for (uint32_t j = 0; j < explanation->cause_count; j++)
			assert_int_equal(explanation->causes[j].cycle.count,
					 cases[i].cycle);
		fgt_explanation_free(explanation);
		fgt_ring_slice_free(slice);
	}
}

/* Descriptors of waits before and after it, in the range itself a brief one
 * whose descriptors are not known: the row names those of its longest wait. */
static void row_names_the_longest_wait(void **state)
{
	static const struct {
		uint32_t ticks;
		const char *text;
	} waits[] = {
		{ FIRST, "epoll 7 of descriptors 4 (idle)" },
		{ COUNT - 3, "epoll 7 of descriptors 4 (idle), 12 (peer)" },
		{ 2, "epoll 7 of descriptors 4, 12" },
	};
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t thread = fixture_thread(slice, 4250, "worker"), tick = 0;
	struct fgt_explanation *explanation;

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		fixture_run(slice, thread, tick, waits[i].ticks,
			    fixture_stack(slice, IDLE), FIXTURE_EPOLL);
		fixture_wait(slice, FGT_WAIT_EVENTS, 0, waits[i].text);
		tick += waits[i].ticks;
	}
	explanation = explain(slice, 4250);
	assert_int_equal(fgt_doings_of_run(explanation->doings, slice,
					   explanation->rows[0].run)
				 .wait,
			 2);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

/* Not all have a row: 20 functions, one after another. */
static void what_is_left_shows_how_long_it_ran(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t thread = fixture_thread(slice, 4250, "worker");
	struct fgt_explanation *explanation;

	(void)state;
	for (uint32_t i = 0; i < TICKS; i++) {
		char stack[32];

		snprintf(stack, sizeof(stack), "main;step_%u", i % 20);
		fixture_run(slice, thread, i, 1, fixture_stack(slice, stack),
			    FGT_STATE_RUNNING);
	}
	explanation = explain(slice, 4250);
	assert_int_equal(explanation->row_count, FGT_EXPLAIN_ROWS_MAX);
	assert_true(explanation->others_running_ms >
		    0.9 * explanation->rows[FGT_EXPLAIN_ROWS_MAX - 1].ms);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

/* The first thread waits too briefly for its descriptors to be known. */
static void names_of_other_descriptors_are_not_shown(void **state)
{
	static const struct {
		uint32_t process;
		int32_t number;
		bool is_same;
	} others[] = { { 0, 7, true }, { 1, 7, false }, { 0, 9, false } };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct fgt_ring_slice *slice = fixture_new(TICKS);
		uint32_t stack = fixture_stack(slice, IDLE);
		struct fgt_doings *doings;

		slice->processes = calloc(2, sizeof(*slice->processes));
		assert_non_null(slice->processes);
		slice->process_count = 2;
		for (int32_t k = 0; k < 2; k++) {
			uint32_t thread =
				fixture_thread(slice, 4250 + k, "worker");

			fixture_run(slice, thread, 0, 10, stack, FIXTURE_EPOLL);
			fixture_wait(slice, FGT_WAIT_EVENTS, 0,
				     k ? "epoll 7 of descriptor 4 (pipe)" : "")
				->number = k ? others[i].number : 7;
			slice->threads[thread].process = k ? others[i].process
							   : 0;
		}
		assert_int_equal(fgt_doings_new(slice, &doings), 0);
		assert_int_equal(doings->count, 1);
		assert_int_equal(fgt_doings_of_run(doings, slice, 0).wait,
				 others[i].is_same ? 2 : 1);
		fgt_doings_free(doings);
		fgt_ring_slice_free(slice);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recurring_work_is_a_cause),
		cmocka_unit_test(thread_that_has_ended_is_not_chosen),
		cmocka_unit_test(cause_is_compared_with_times_of_its_life),
		cmocka_unit_test(each_wait_of_a_run_leads_to_its_waker),
		cmocka_unit_test(long_walks_find_the_deadlock_or_are_cut),
		cmocka_unit_test(new_thread_has_no_baseline),
		cmocka_unit_test(row_names_the_longest_wait),
		cmocka_unit_test(what_is_left_shows_how_long_it_ran),
		cmocka_unit_test(names_of_other_descriptors_are_not_shown),
		cmocka_unit_test(path_has_the_parts_of_what_was_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
