/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a target keeps of threads that ended between two ticks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/capture/target.h"

#define SECOND_NS 1000000000ull
#define FIRST_NS  (5000 * SECOND_NS)

static int make(void **state)
{
	const struct fgt_ring_options options = { .hz = 101, .seconds = 1 };
	const struct fgt_target_status status = { .pid = 7 };
	const struct fgt_owner owner = { .is_plain = false };
	struct fgt_target *target = NULL;
	struct fgt_ring *ring;

	assert_int_equal(fgt_ring_new(&options, &ring), 0);
	assert_int_equal(fgt_target_new(ring, &status, &owner, &target), 0);
	*state = target;
	return 0;
}

static int put(void **state)
{
	fgt_target_put(*state);
	return 0;
}

/* Of a slice from second to second, in halves of one. */
static void assert_brief(struct fgt_target *target, unsigned int from,
			 unsigned int to, uint64_t threads, uint64_t cpu_ns)
{
	uint64_t ticks[] = { FIRST_NS + from * SECOND_NS / 2,
			     FIRST_NS + to * SECOND_NS / 2 };
	struct fgt_ring_slice slice = { .tick_ns = ticks, .tick_count = 2 };

	fgt_target_cut_brief(target, &slice);
	assert_int_equal(slice.brief_threads, threads);
	assert_int_equal(slice.brief_cpu_ns, cpu_ns);
}

static void brief_threads_of_a_slice_are_those_of_its_time(void **state)
{
	struct fgt_target *target = *state;

	assert_brief(target, 0, 2, 0, 0);
	for (unsigned int i = 0; i <= 10; i++)
		fgt_target_note_brief(target, FIRST_NS + i * SECOND_NS, i * 100,
				      i * 7000);
	assert_brief(target, 0, 20, 1000, 70000);
	assert_brief(target, 4, 6, 100, 7000);
	assert_brief(target, 5, 6, 50, 3500);
	assert_brief(target, 5, 5, 0, 0);
	/* What comes after the last count is not known yet. */
	assert_brief(target, 18, 30, 100, 7000);
	/* A target that is freed. */
	fgt_target_note_brief(target, 0, 1000, 70000);
	assert_brief(target, 0, 20, 1000, 70000);
}

static void old_counts_of_brief_threads_are_dropped(void **state)
{
	struct fgt_target *target = *state;

	for (unsigned int i = 0; i < 1000; i++)
		fgt_target_note_brief(target, FIRST_NS + i * SECOND_NS, i * 100,
				      i * 7000);
	assert_brief(target, 2 * 990, 2 * 999, 900, 63000);
	assert_brief(target, 2 * 100, 2 * 200, 0, 0);
	assert_brief(target, 2 * 100, 2 * 999, 12700, 127 * 7000);
}

static struct fgt_program program_of(const struct fgt_target *target)
{
	struct fgt_program program;

	fgt_target_get_program(target, &program);
	return program;
}

static void
plain_program_after_plain_one_stays_visible_from_the_first(void **state)
{
	const struct fgt_owner plain = { 7, 7, true };
	struct fgt_target *target = *state;

	fgt_target_note_exec(target, &plain, false, FIRST_NS);
	assert_int_equal(program_of(target).plain_ns, FIRST_NS + 1);
	fgt_target_note_exec(target, &plain, true, 2 * FIRST_NS);
	assert_int_equal(program_of(target).plain_ns, FIRST_NS + 1);
	assert_int_equal(program_of(target).begun_ns, 2 * FIRST_NS + 1);
}

static void first_exec_is_kept(void **state)
{
	const struct fgt_owner plain = { 7, 7, true };
	struct fgt_target *target = *state;

	assert_int_equal(program_of(target).first_exec_ns, 0);
	fgt_target_note_exec(target, &plain, true, FIRST_NS);
	fgt_target_note_exec(target, &plain, true, 2 * FIRST_NS);
	assert_int_equal(program_of(target).first_exec_ns, FIRST_NS + 1);
}

static void
range_begins_where_a_program_between_cannot_be_excluded(void **state)
{
	const struct fgt_owner plain = { 7, 7, true };
	struct fgt_target *target = *state;

	fgt_target_note_exec(target, &plain, false, FIRST_NS);
	fgt_target_note_exec(target, &plain, false, 2 * FIRST_NS);
	assert_int_equal(program_of(target).plain_ns, 2 * FIRST_NS + 1);
}

static void exec_there_and_back_begins_the_range_after_both(void **state)
{
	const struct fgt_owner plain = { 7, 7, true }, raised = { 7, 7, false };
	const struct fgt_owner other = { 8, 7, true };
	struct fgt_target *target = *state;

	fgt_target_note_exec(target, &plain, false, FIRST_NS);
	fgt_target_note_exec(target, &raised, true, 2 * FIRST_NS);
	assert_false(program_of(target).owner.is_plain);
	fgt_target_note_exec(target, &plain, true, 3 * FIRST_NS);
	assert_int_equal(program_of(target).plain_ns, 3 * FIRST_NS + 1);
	fgt_target_note_exec(target, &other, true, 4 * FIRST_NS);
	assert_int_equal(program_of(target).plain_ns, 4 * FIRST_NS + 1);
}

static void owner_that_was_read_of_another_program_is_not_noted(void **state)
{
	const struct fgt_owner plain = { 7, 7, true }, raised = { 7, 7, false };
	struct fgt_target *target = *state;
	uint64_t number = program_of(target).number;

	fgt_target_note_exec(target, &raised, true, FIRST_NS);
	fgt_target_note_owner(target, number, &plain, 2 * FIRST_NS);
	assert_false(program_of(target).owner.is_plain);
	fgt_target_note_owner(target, number + 1, &plain, 2 * FIRST_NS);
	assert_true(program_of(target).owner.is_plain);
	/* A sample of the time before may be shown a little later. */
	assert_true(program_of(target).plain_ns > 2 * FIRST_NS);
	number = program_of(target).plain_ns;
	fgt_target_note_owner(target, program_of(target).number, &plain,
			      3 * FIRST_NS);
	assert_int_equal(program_of(target).plain_ns, number);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			brief_threads_of_a_slice_are_those_of_its_time, make,
			put),
		cmocka_unit_test_setup_teardown(
			old_counts_of_brief_threads_are_dropped, make, put),
		cmocka_unit_test_setup_teardown(
			plain_program_after_plain_one_stays_visible_from_the_first,
			make, put),
		cmocka_unit_test_setup_teardown(first_exec_is_kept, make, put),
		cmocka_unit_test_setup_teardown(
			range_begins_where_a_program_between_cannot_be_excluded,
			make, put),
		cmocka_unit_test_setup_teardown(
			exec_there_and_back_begins_the_range_after_both, make,
			put),
		cmocka_unit_test_setup_teardown(
			owner_that_was_read_of_another_program_is_not_noted,
			make, put),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
