/* SPDX-License-Identifier: Apache-2.0 */
/* Explanations of slices built by hand: 400 ticks of 10 ms; something happens
 * in ticks 200 to 219. */
#include "upload/why/explain.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/pressure_fixture.h"
#include "upload/why/words.h"

static const struct fgt_filter all_threads;

#define TICKS 400
#define FIRST 200u
#define COUNT 20u
#define MUTEX "libc.so.6!start_thread;serve;lookup;libc.so.6!pthread_mutex_lock"
#define IDLE  "libc.so.6!start_thread;serve;libc.so.6!epoll_wait"
#define READ  (FGT_STATE_SYSCALL_FIRST + 0)
#define SLEEP (FGT_STATE_SYSCALL_FIRST + 35)

static uint64_t tick_ns(uint32_t tick)
{
	return FIXTURE_START_NS + tick * FIXTURE_PERIOD_NS;
}

static struct fgt_explanation *explain(const struct fgt_ring_slice *slice,
				       int32_t tid)
{
	struct fgt_explanation *explanation;

	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(fgt_explain(slice, tick_ns(FIRST),
				     tick_ns(FIRST + COUNT - 1), tid,
				     &all_threads, &explanation),
			 0);
	return explanation;
}

static const char *doing_text(const struct fgt_explanation *explanation,
			      uint32_t doing)
{
	static struct fgt_words words;

	words.len = 0;
	fgt_words_add_doing(&words, explanation->slice,
			    &explanation->doings->doings[doing]);
	return words.text;
}

/* Idle, except in the ticks in which it does that. */
static void add_thread(struct fgt_ring_slice *slice, int32_t tid,
		       const char *name, const char *stack, uint32_t state)
{
	uint32_t thread = fixture_thread(slice, tid, name);
	uint32_t idle = fixture_stack(slice, IDLE);

	fixture_run(slice, thread, 0, FIRST, idle, FIXTURE_EPOLL);
	fixture_run(slice, thread, FIRST, COUNT, fixture_stack(slice, stack),
		    state);
}

static void end_thread(struct fgt_ring_slice *slice, uint32_t thread)
{
	fixture_run(slice, thread, FIRST + COUNT, TICKS - FIRST - COUNT,
		    fixture_stack(slice, IDLE), FIXTURE_EPOLL);
}

/* Two workers wait for a lock that a third thread holds, which computes. */
static struct fgt_ring_slice *make_convoy(void)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);

	for (int i = 0; i < 2; i++) {
		add_thread(slice, 4242 + i, i ? "worker-1" : "worker-0", MUTEX,
			   FIXTURE_FUTEX);
		fixture_wait(slice, FGT_WAIT_MUTEX, 4250, "")->address = 0x1000;
		end_thread(slice, (uint32_t)i);
	}
	add_thread(slice, 4250, "maint", "main;rebuild", FGT_STATE_RUNNING);
	end_thread(slice, 2);
	return slice;
}

static void holder_of_lock_is_the_cause(void **state)
{
	struct fgt_ring_slice *slice = make_convoy();
	struct fgt_explanation *explanation = explain(slice, 0);
	const struct fgt_explained_cause *cause = &explanation->causes[0];

	(void)state;
	assert_int_equal(explanation->cause_count, 1);
	assert_string_equal(doing_text(explanation, cause->doing),
			    "rebuild, running");
	assert_int_equal(cause->waiters, 2);
	assert_int_equal(cause->threads, 1);
	assert_true(cause->own_ms > 199 && cause->own_ms < 201);
	assert_true(cause->waited_ms > 399 && cause->waited_ms < 401);
	assert_int_equal(cause->rank.place, 1);
	assert_true(cause->rank.most_ms < 0.1);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

/* The thread that differs most by the samples that pass; its other time counts
 * neither for it nor in its past. epoll_wait is not in the range. */
static void thread_is_chosen_among_candidates(void **state)
{
	static const struct {
		struct fgt_filter filter;
		int32_t tid; /* 0: none */
	} cases[] = {
		{ { .thread = NULL }, 4242 },
		{ { .thread = "worker-1" }, 4243 },
		{ { .is_running = true }, 4250 },
		{ { .function = "rebuild" }, 4250 },
		{ { .state = "futex" }, 4242 },
		{ { .state = "epoll_wait" }, 0 },
		{ { .thread = "nothing" }, 0 },
	};
	struct fgt_ring_slice *slice = make_convoy();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		FGT_AUTO(fgt_explanation_free)
		struct fgt_explanation *explanation = NULL;
		int r = fgt_explain(slice, tick_ns(FIRST),
				    tick_ns(FIRST + COUNT - 1), 0,
				    &cases[i].filter, &explanation);

		assert_int_equal(r, cases[i].tid ? 0 : -ESRCH);
		if (cases[i].tid)
			assert_int_equal(
				slice->threads[explanation->thread].tid,
				cases[i].tid);
	}
	fgt_ring_slice_free(slice);
}

/* It does the same all the time, but has not been there for long. */
static void thread_is_compared_with_times_of_its_life(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	struct fgt_explanation *explanation;
	uint32_t thread = fixture_thread(slice, 4242, "young");
	uint32_t stack = fixture_stack(slice, MUTEX);

	(void)state;
	fixture_run(slice, thread, FIRST, TICKS - FIRST, stack, FIXTURE_FUTEX);
	explanation = explain(slice, 4242);
	assert_in_range(explanation->thread_windows, 4,
			explanation->windows->count / 2);
	assert_int_equal(explanation->row_count, 1);
	assert_true(explanation->rows[0].rank.usual_ms >
		    0.9 * explanation->windows->length_ms);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

/* A program waits for a lock and for its client in one function. */
static void waits_for_events_differ_by_their_callers(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	struct fgt_explanation *explanation;
	uint32_t thread = fixture_thread(slice, 4242, "session");
	uint32_t client = fixture_stack(
		slice, "main;read_client;wait_set;libc.so.6!epoll_wait");
	uint32_t lock = fixture_stack(
		slice, "main;sleep_on_lock;wait_set;libc.so.6!epoll_wait");

	(void)state;
	fixture_run(slice, thread, 0, FIRST, client, FIXTURE_EPOLL);
	fixture_run(slice, thread, FIRST, COUNT, lock, FIXTURE_EPOLL);
	fixture_run(slice, thread, FIRST + COUNT, TICKS - FIRST - COUNT, client,
		    FIXTURE_EPOLL);
	explanation = explain(slice, 4242);
	assert_int_equal(explanation->row_count, 1);
	assert_true(explanation->rows[0].rank.most_ms == 0);
	assert_string_equal(doing_text(explanation, explanation->rows[0].doing),
			    "wait_set → epoll_wait, called by sleep_on_lock, "
			    "main");
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

static void path_names_what_was_waited_for(void **state)
{
	struct fgt_ring_slice *slice = make_convoy();
	struct fgt_explanation *explanation = explain(slice, 4243);
	const struct fgt_explained_step *step = &explanation->steps[0];

	(void)state;
	assert_true(explanation->is_thread_chosen);
	assert_int_equal(explanation->row_count, 1);
	assert_string_equal(
		doing_text(explanation, explanation->rows[0].doing),
		"lookup → pthread_mutex_lock: mutex at 0x1000, held by maint "
		"(tid 4250)");
	assert_int_equal(explanation->step_count, 1);
	assert_int_equal(step->first, FIRST);
	assert_int_equal(step->end, FIRST + COUNT);
	assert_int_equal(step->culprit.depth, 1);
	assert_int_equal(slice->runs[step->culprit.run].thread, 2);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

static void deadlock_is_seen(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	struct fgt_explanation *explanation;

	(void)state;
	for (int i = 0; i < 2; i++) {
		add_thread(slice, 4242 + i, i ? "b" : "a", MUTEX,
			   FIXTURE_FUTEX);
		fixture_wait(slice, FGT_WAIT_MUTEX, 4243 - i, "")->address =
			0x1000u + (uint64_t)i;
		end_thread(slice, (uint32_t)i);
	}
	explanation = explain(slice, 0);
	assert_int_equal(explanation->cause_count, 2);
	assert_int_equal(explanation->causes[0].cycle.count, 2);
	assert_int_equal(explanation->causes[1].cycle.count, 2);
	assert_int_equal(explanation->steps[0].culprit.cycle.count, 2);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

/* Its steps name the waker; a cause is not blamed on who brings the work. */
static void wake_up_leads_to_the_waker(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	struct fgt_explanation *explanation;

	(void)state;
	add_thread(slice, 4242, "worker",
		   "serve;await;libc.so.6!pthread_cond_wait", FIXTURE_FUTEX);
	end_thread(slice, 0);
	add_thread(slice, 4243, "planner", "main;compute", FGT_STATE_RUNNING);
	end_thread(slice, 1);
	fixture_wake(slice, 0, (int)(FIRST + COUNT) * 10 - 3, 4243,
		     FGT_NODE_NONE);
	explanation = explain(slice, 4242);
	for (uint32_t i = 0; i < explanation->cause_count; i++)
		assert_int_equal(explanation->causes[i].waiters, 0);
	assert_int_equal(explanation->steps[0].culprit.depth, 1);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

static void quiet_range_has_no_cause(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	struct fgt_explanation *explanation;
	uint32_t work, rest;

	(void)state;
	work = fixture_stack(slice, "main;work");
	rest = fixture_stack(slice, "main;work;libc.so.6!nanosleep");
	fixture_thread(slice, 4242, "main");
	for (uint32_t tick = 0; tick < TICKS; tick += 10) {
		uint32_t busy = 3 + tick / 10 % 3;

		fixture_run(slice, 0, tick, busy, work, FGT_STATE_RUNNING);
		fixture_run(slice, 0, tick + busy, 10 - busy, rest, SLEEP);
	}
	explanation = explain(slice, 0);
	assert_int_equal(explanation->cause_count, 0);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

/* A thread that works in count ticks of the range, and in usual ticks of each
 * other window, and is idle else. */
static struct fgt_explanation *explain_worker(struct fgt_ring_slice *slice,
					      uint32_t usual, uint32_t count)
{
	uint32_t thread = fixture_thread(slice, 10, "worker");
	uint32_t work = fixture_stack(slice, "libc.so.6!start_thread;work");
	uint32_t idle = fixture_stack(slice, IDLE);

	for (uint32_t tick = 0; tick < TICKS; tick += COUNT) {
		uint32_t working = tick == FIRST ? count : usual;

		fixture_run(slice, thread, tick, working, work,
			    FGT_STATE_RUNNING);
		fixture_run(slice, thread, tick + working, COUNT - working,
			    idle, FIXTURE_EPOLL);
	}
	return explain(slice, 0);
}

static void what_ticks_met_by_chance_is_no_cause(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	struct fgt_explanation *explanation = explain_worker(slice, 6, 12);

	(void)state;
	assert_int_equal(explanation->cause_count, 0);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
	slice = fixture_new(TICKS);
	explanation = explain_worker(slice, 6, 18);
	assert_int_equal(explanation->cause_count, 1);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

static void brief_wait_without_name_is_like_the_named_ones(void **state)
{
	static const char *const texts[] = { "", "socket:[12]", "pipe:[7]" };
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t thread = fixture_thread(slice, 10, "worker");
	uint32_t stack = fixture_stack(slice, "serve;libc.so.6!read");
	struct fgt_doings *doings;

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		fixture_run(slice, thread, i * 10, 10, stack, READ);
		fixture_wait(slice, FGT_WAIT_DESCRIPTOR, 0, texts[i]);
	}
	assert_int_equal(fgt_doings_new(slice, &doings), 0);
	assert_int_equal(doings->count, 2);
	assert_int_equal(doings->run_doings[0], doings->run_doings[1]);
	assert_int_not_equal(doings->run_doings[1], doings->run_doings[2]);
	assert_int_equal(fgt_doings_of_run(doings, slice, 0).wait, 2);
	assert_int_equal(fgt_doings_of_run(doings, slice, 2).wait, 3);
	fgt_doings_free(doings);
	fgt_ring_slice_free(slice);
}

static void rows_add_up_to_the_range(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	struct fgt_explanation *explanation;
	double sum = 0;

	(void)state;
	fixture_thread(slice, 4242, "main");
	/* More doings than rows, and a time in which it did not exist. */
	for (uint32_t i = 0; i < COUNT - 2; i++) {
		char stack[32];

		snprintf(stack, sizeof(stack), "main;step_%u", i);
		fixture_run(slice, 0, FIRST + i, 1, fixture_stack(slice, stack),
			    FGT_STATE_RUNNING);
	}
	explanation = explain(slice, 0);
	assert_int_equal(explanation->row_count, FGT_EXPLAIN_ROWS_MAX);
	for (uint32_t i = 0; i < explanation->row_count; i++)
		sum += explanation->rows[i].ms;
	assert_true(sum > 199.9 && sum < 200.1);
	assert_int_equal(explanation->step_count, FGT_EXPLAIN_STEPS_MAX);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

static void range_without_ticks_is_refused(void **state)
{
	struct fgt_ring_slice *slice = make_convoy();
	struct fgt_explanation *explanation = NULL;

	(void)state;
	assert_int_equal(
		fgt_explain(slice, 1, 2, 0, &all_threads, &explanation),
		-ENODATA);
	assert_int_equal(
		fgt_explain(slice, 2, 1, 0, &all_threads, &explanation),
		-EINVAL);
	assert_int_equal(fgt_explain(slice, tick_ns(10), tick_ns(20), 77,
				     &all_threads, &explanation),
			 -ESRCH);
	assert_null(explanation);
	fgt_ring_slice_free(slice);
}

/* The whole slice is the range: nothing to compare with. */
static void range_without_baseline_lists_most_time(void **state)
{
	struct fgt_ring_slice *slice = make_convoy();
	struct fgt_explanation *explanation;

	(void)state;
	assert_int_equal(fgt_explain(slice, 0, UINT64_MAX, 0, &all_threads,
				     &explanation),
			 0);
	assert_int_equal(explanation->windows->count, 1);
	assert_true(explanation->cause_count > 0);
	assert_string_equal(
		doing_text(explanation, explanation->causes[0].doing),
		"serve → epoll_wait");
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

/* A damaged file may name any time: alarm(2) ends a search through it. */
static void gap_of_a_century_is_skipped(void **state)
{
	struct fgt_ring_slice *slice = make_convoy();
	struct fgt_windows *windows = NULL;
	uint32_t without_gap;

	(void)state;
	assert_int_equal(fgt_windows_new(slice, tick_ns(FIRST),
					 tick_ns(FIRST + COUNT - 1),
					 FGT_WINDOWS_MAX, &windows),
			 0);
	without_gap = windows->count;
	fgt_windows_free(windows);
	assert_true(without_gap > 3);
	for (uint32_t i = FIRST - COUNT; i < TICKS; i++)
		slice->tick_ns[i] += UINT64_C(1) << 61;
	for (uint32_t i = FIRST + 2 * COUNT; i < TICKS; i++)
		slice->tick_ns[i] += UINT64_C(1) << 61;
	alarm(10);
	assert_int_equal(fgt_windows_new(slice, slice->tick_ns[FIRST],
					 slice->tick_ns[FIRST + COUNT - 1],
					 FGT_WINDOWS_MAX, &windows),
			 0);
	alarm(0);
	assert_in_range(windows->count, without_gap - 2, without_gap);
	fgt_windows_free(windows);
	fgt_ring_slice_free(slice);
}

/* 200 ms are the range; in all other windows 10 ms were waited for. */
static void pressure_of_the_machine_is_compared(void **state)
{
	struct fgt_ring_slice *slice = make_convoy();
	struct fgt_explanation *explanation = explain(slice, 0);
	const struct fgt_explained_pressure *cpu =
		&explanation->pressures[FGT_PRESSURE_CPU];

	(void)state;
	assert_true(isnan(cpu->ms));
	assert_false(cpu->is_unusual);
	fgt_explanation_free(explanation);
	for (int at_ms = 0, cpu_ms = 0; at_ms <= 4000; at_ms += 200) {
		fixture_pressure(slice, at_ms, cpu_ms);
		cpu_ms += at_ms == 2000 ? 150 : 10;
	}
	explanation = explain(slice, 0);
	cpu = &explanation->pressures[FGT_PRESSURE_CPU];
	assert_true(cpu->is_unusual);
	/* Up to the last tick, which is 10 ms before the end. */
	assert_true(cpu->ms > 142 && cpu->ms < 143);
	assert_true(cpu->rank.usual_ms > 9 && cpu->rank.usual_ms < 10);
	assert_false(explanation->pressures[FGT_PRESSURE_STOLEN].is_unusual);
	fgt_explanation_free(explanation);
	fgt_ring_slice_free(slice);
}

static void one_holder_of_several_is_not_all(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(20);
	uint32_t thread = fixture_thread(slice, 1, "a");
	uint32_t stack = fixture_stack(slice, MUTEX);
	FGT_AUTO(fgt_doings_free) struct fgt_doings *doings = NULL;

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		fixture_run(slice, thread, i * 10, 10, stack, FIXTURE_FUTEX);
		fixture_wait(slice, FGT_WAIT_MUTEX, 7 + (int)i, "");
	}
	assert_int_equal(fgt_doings_new(slice, &doings), 0);
	assert_true(fgt_doings_of_run(doings, slice, 0).has_other_owners);
	fgt_ring_slice_free(slice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holder_of_lock_is_the_cause),
		cmocka_unit_test(thread_is_chosen_among_candidates),
		cmocka_unit_test(thread_is_compared_with_times_of_its_life),
		cmocka_unit_test(waits_for_events_differ_by_their_callers),
		cmocka_unit_test(path_names_what_was_waited_for),
		cmocka_unit_test(deadlock_is_seen),
		cmocka_unit_test(wake_up_leads_to_the_waker),
		cmocka_unit_test(quiet_range_has_no_cause),
		cmocka_unit_test(what_ticks_met_by_chance_is_no_cause),
		cmocka_unit_test(
			brief_wait_without_name_is_like_the_named_ones),
		cmocka_unit_test(rows_add_up_to_the_range),
		cmocka_unit_test(range_without_ticks_is_refused),
		cmocka_unit_test(range_without_baseline_lists_most_time),
		cmocka_unit_test(gap_of_a_century_is_skipped),
		cmocka_unit_test(pressure_of_the_machine_is_compared),
		cmocka_unit_test(one_holder_of_several_is_not_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
