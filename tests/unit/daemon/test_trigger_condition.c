/* SPDX-License-Identifier: Apache-2.0 */
/* When triggers fire, and how often: numbers and slices, no clock. */
#include "agent/daemon/triggers/condition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "agent/capture/look/state_name.h"
#include "tests/unit/ringbuf/slice_fixture.h"

#define SECOND UINT64_C(1000000000)
#define START  (1000 * SECOND)

/* ---- How often ----------------------------------------------------------- */

static void first_time_is_not_limited(void **state)
{
	const struct fgt_trigger_limit limit = { .count = 0 };
	const struct fgt_trigger_pace pace = { 600 * SECOND, 1 };

	(void)state;
	assert_int_equal(fgt_trigger_limit_next(&limit, &pace), 0);
}

static void gap_is_kept_after_each_time(void **state)
{
	struct fgt_trigger_limit limit = { .count = 0 };
	const struct fgt_trigger_pace pace = { 10 * SECOND, 60 };

	(void)state;
	fgt_trigger_limit_note(&limit, START);
	assert_int_equal(fgt_trigger_limit_next(&limit, &pace),
			 START + 10 * SECOND);
	fgt_trigger_limit_note(&limit, START + 100 * SECOND);
	assert_int_equal(fgt_trigger_limit_next(&limit, &pace),
			 START + 110 * SECOND);
}

static void cap_counts_the_hour_before_each_instant(void **state)
{
	struct fgt_trigger_limit limit = { .count = 0 };
	const struct fgt_trigger_pace pace = { SECOND, 3 };

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		fgt_trigger_limit_note(&limit, START + i * 60 * SECOND);
	assert_int_equal(fgt_trigger_limit_next(&limit, &pace),
			 START + 3600 * SECOND);
	fgt_trigger_limit_note(&limit, START + 3600 * SECOND);
	assert_int_equal(fgt_trigger_limit_next(&limit, &pace),
			 START + 3660 * SECOND);
}

static void largest_cap_remembers_a_whole_hour(void **state)
{
	struct fgt_trigger_limit limit = { .count = 0 };
	const struct fgt_trigger_pace pace = { SECOND,
					       FGT_TRIGGER_PER_HOUR_MAX };

	(void)state;
	for (uint64_t i = 0; i < 200; i++)
		fgt_trigger_limit_note(&limit, START + i * SECOND);
	assert_int_equal(fgt_trigger_limit_next(&limit, &pace),
			 START + (200 - FGT_TRIGGER_PER_HOUR_MAX + 3600) *
					 SECOND);
}

/* ---- CPU time ------------------------------------------------------------ */

/* A look each second; cpu: percent of a core in that second. */
static void pass(struct fgt_trigger_cpu *cpu, uint64_t *now_ns,
		 uint64_t *cpu_ns, unsigned int seconds, unsigned int percent,
		 uint64_t for_ns)
{
	for (unsigned int i = 0; i < seconds; i++) {
		*now_ns += SECOND;
		*cpu_ns += percent * (SECOND / 100);
		fgt_trigger_cpu_add(cpu, *now_ns, *cpu_ns, for_ns);
	}
}

/* Rounded; SHARE_UNKNOWN. */
#define SHARE_UNKNOWN 1000000

static int share(const struct fgt_trigger_cpu *cpu, uint64_t for_ns)
{
	double percent;

	return fgt_trigger_cpu_percent(cpu, for_ns, &percent)
		       ? (int)(percent + 0.5)
		       : SHARE_UNKNOWN;
}

static void share_is_known_after_the_whole_time_only(void **state)
{
	struct fgt_trigger_cpu cpu = { .count = 0 };
	uint64_t now_ns = START, cpu_ns = 0, for_ns = 5 * SECOND;

	(void)state;
	assert_int_equal(share(&cpu, for_ns), SHARE_UNKNOWN);
	pass(&cpu, &now_ns, &cpu_ns, 5, 100, for_ns);
	assert_int_equal(share(&cpu, for_ns), SHARE_UNKNOWN);
	pass(&cpu, &now_ns, &cpu_ns, 1, 100, for_ns);
	assert_int_equal(share(&cpu, for_ns), 100);
}

static void share_is_that_of_the_last_time(void **state)
{
	struct fgt_trigger_cpu cpu = { .count = 0 };
	uint64_t now_ns = START, cpu_ns = 0, for_ns = 5 * SECOND;

	(void)state;
	pass(&cpu, &now_ns, &cpu_ns, 100, 0, for_ns);
	pass(&cpu, &now_ns, &cpu_ns, 2, 250, for_ns);
	assert_int_equal(share(&cpu, for_ns), 100);
	pass(&cpu, &now_ns, &cpu_ns, 5, 0, for_ns);
	assert_int_equal(share(&cpu, for_ns), 0);
}

static void few_points_are_enough_for_an_hour(void **state)
{
	struct fgt_trigger_cpu cpu = { .count = 0 };
	uint64_t now_ns = START, cpu_ns = 0, for_ns = 3600 * SECOND;

	(void)state;
	pass(&cpu, &now_ns, &cpu_ns, 20000, 40, for_ns);
	assert_true(cpu.count <= FGT_TRIGGER_POINTS);
	assert_int_equal(share(&cpu, for_ns), 40);
	pass(&cpu, &now_ns, &cpu_ns, 3900, 90, for_ns);
	assert_int_equal(share(&cpu, for_ns), 90);
}

static void clock_of_another_process_begins_again(void **state)
{
	struct fgt_trigger_cpu cpu = { .count = 0 };
	uint64_t now_ns = START, cpu_ns = 100 * SECOND;

	(void)state;
	pass(&cpu, &now_ns, &cpu_ns, 10, 100, SECOND);
	cpu_ns = 0;
	pass(&cpu, &now_ns, &cpu_ns, 1, 0, SECOND);
	assert_int_equal(cpu.count, 1);
	assert_int_equal(cpu.rests_since_ns, now_ns);
}

static void rest_begins_when_the_clock_has_moved_last(void **state)
{
	struct fgt_trigger_cpu cpu = { .count = 0 };
	uint64_t now_ns = START, cpu_ns = 0, moved_ns;

	(void)state;
	pass(&cpu, &now_ns, &cpu_ns, 3, 1, SECOND);
	moved_ns = now_ns;
	pass(&cpu, &now_ns, &cpu_ns, 8, 0, SECOND);
	assert_int_equal(cpu.rests_since_ns, moved_ns);
	cpu_ns++;
	pass(&cpu, &now_ns, &cpu_ns, 1, 0, SECOND);
	assert_int_equal(cpu.rests_since_ns, now_ns);
}

/* ---- States -------------------------------------------------------------- */

static uint64_t ticks_ns(uint32_t ticks)
{
	return ticks * FIXTURE_PERIOD_NS;
}

/* Thread "w" waits for a futex at ticks 10 to 59, in two stacks. */
static struct fgt_ring_slice *waiting_slice(void)
{
	struct fgt_ring_slice *slice = fixture_new(100);

	fixture_thread(slice, 1, "main");
	fixture_thread(slice, 2, "w-1");
	fixture_run(slice, 0, 0, 100, fixture_stack(slice, "main"),
		    FIXTURE_EPOLL);
	fixture_run(slice, 1, 0, 10, fixture_stack(slice, "main"),
		    FGT_STATE_RUNNING);
	fixture_run(slice, 1, 10, 20, fixture_stack(slice, "main;a"),
		    FIXTURE_FUTEX);
	fixture_run(slice, 1, 30, 30, fixture_stack(slice, "main;b"),
		    FIXTURE_FUTEX);
	fixture_run(slice, 1, 60, 40, fixture_stack(slice, "main"),
		    FGT_STATE_RUNNING);
	return slice;
}

static bool finds(struct fgt_ring_slice *slice, const char *state,
		  const char *thread, uint32_t ticks,
		  struct fgt_trigger_stretch *ret_stretch)
{
	const struct fgt_trigger_state wanted = { state, thread,
						  ticks_ns(ticks) };

	return fgt_trigger_find_state(slice, &wanted, ret_stretch);
}

static void stretch_goes_on_when_the_stack_changes(void **state)
{
	struct fgt_ring_slice *slice = waiting_slice();
	struct fgt_trigger_stretch stretch;

	(void)state;
	assert_true(finds(slice, "futex", NULL, 49, &stretch));
	assert_int_equal(stretch.from_ns, slice->tick_ns[10]);
	assert_int_equal(stretch.to_ns, slice->tick_ns[59]);
	assert_int_equal(stretch.tid, 2);
	assert_string_equal(stretch.thread, "w-1");
	assert_string_equal(stretch.state, "futex");
	assert_false(finds(slice, "futex", NULL, 50, &stretch));
	fgt_ring_slice_free(slice);
}

static void patterns_select_states_and_threads(void **state)
{
	struct fgt_ring_slice *slice = waiting_slice();
	struct fgt_trigger_stretch stretch;

	(void)state;
	assert_true(finds(slice, "e*", NULL, 99, &stretch));
	assert_int_equal(stretch.tid, 1);
	assert_false(finds(slice, "e*", "w-*", 1, &stretch));
	assert_true(finds(slice, "running", "w-*", 39, &stretch));
	assert_false(finds(slice, "fsync", NULL, 1, &stretch));
	fgt_ring_slice_free(slice);
}

static void misspelt_states_are_not_known(void **state)
{
	const char *nearest = NULL;

	(void)state;
	assert_true(fgt_state_exists("x86_64", "futex", &nearest));
	assert_true(fgt_state_exists("aarch64", "f*sync", &nearest));
	assert_true(fgt_state_exists("x86_64", "runnable", &nearest));
	assert_false(fgt_state_exists("x86_64", "futx", &nearest));
	assert_string_equal(nearest, "futex");
}

static void a_cpu_in_between_breaks_a_block(void **state)
{
	struct fgt_ring_slice *slice = waiting_slice();
	struct fgt_trigger_stretch stretch;

	(void)state;
	/* It woke and blocked again before tick 20, and before tick 40. */
	fixture_edge(slice, 1, 20, 900, 500);
	fixture_edge(slice, 1, 40, 900, 500);
	assert_false(finds(slice, "futex", NULL, 20, &stretch));
	assert_true(finds(slice, "futex", NULL, 19, &stretch));
	assert_true(finds(slice, "epoll_wait", NULL, 99, &stretch));
	fgt_ring_slice_free(slice);
}

static void starved_means_runnable_and_no_thread_running(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(100);
	struct fgt_trigger_stretch stretch;

	(void)state;
	fixture_thread(slice, 1, "a");
	fixture_thread(slice, 2, "b");
	fixture_run(slice, 0, 0, 80, fixture_stack(slice, "a"),
		    FGT_STATE_RUNNABLE);
	fixture_run(slice, 1, 0, 30, fixture_stack(slice, "b"),
		    FGT_STATE_RUNNING);
	fixture_run(slice, 1, 30, 70, fixture_stack(slice, "b"), FIXTURE_FUTEX);
	assert_true(fgt_trigger_find_starved(slice, ticks_ns(49), &stretch));
	assert_int_equal(stretch.from_ns, slice->tick_ns[30]);
	assert_int_equal(stretch.to_ns, slice->tick_ns[79]);
	assert_false(fgt_trigger_find_starved(slice, ticks_ns(50), &stretch));
	assert_true(fgt_trigger_is_busy(slice, slice->tick_ns[79]));
	assert_false(fgt_trigger_is_busy(slice, slice->tick_ns[80]));
	fgt_ring_slice_free(slice);
}

static void sleeping_threads_are_not_starved(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(50);
	struct fgt_trigger_stretch stretch;

	(void)state;
	fixture_thread(slice, 1, "a");
	fixture_run(slice, 0, 0, 50, fixture_stack(slice, "a"), FIXTURE_EPOLL);
	assert_false(fgt_trigger_find_starved(slice, 1, &stretch));
	assert_false(fgt_trigger_is_busy(slice, 0));
	fgt_ring_slice_free(slice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_time_is_not_limited),
		cmocka_unit_test(gap_is_kept_after_each_time),
		cmocka_unit_test(cap_counts_the_hour_before_each_instant),
		cmocka_unit_test(largest_cap_remembers_a_whole_hour),
		cmocka_unit_test(share_is_known_after_the_whole_time_only),
		cmocka_unit_test(share_is_that_of_the_last_time),
		cmocka_unit_test(few_points_are_enough_for_an_hour),
		cmocka_unit_test(clock_of_another_process_begins_again),
		cmocka_unit_test(rest_begins_when_the_clock_has_moved_last),
		cmocka_unit_test(stretch_goes_on_when_the_stack_changes),
		cmocka_unit_test(patterns_select_states_and_threads),
		cmocka_unit_test(misspelt_states_are_not_known),
		cmocka_unit_test(a_cpu_in_between_breaks_a_block),
		cmocka_unit_test(starved_means_runnable_and_no_thread_running),
		cmocka_unit_test(sleeping_threads_are_not_starved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
