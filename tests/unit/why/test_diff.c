/* SPDX-License-Identifier: Apache-2.0 */
/* What grew and what shrank between two slices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "ringbuf/slice/merge.h"
#include "tests/unit/ringbuf/slice_fixture.h"
#include "upload/why/diff.h"

static const struct fgt_filter all = { 0 };

/* Two workers run for so many of the ticks, and wait for the rest. */
static struct fgt_ring_slice *slice_of(uint32_t ticks, uint32_t running)
{
	struct fgt_ring_slice *slice = fixture_new(ticks);
	uint32_t work = fixture_stack(slice, "main;serve;work");
	uint32_t wait = fixture_stack(slice, "main;serve;futex_wait");

	fixture_thread(slice, 10, "worker-1");
	fixture_thread(slice, 11, "worker-22");
	for (uint32_t thread = 0; thread < 2; thread++) {
		if (running)
			fixture_run(slice, thread, 0, running, work,
				    FGT_STATE_RUNNING);
		fixture_run(slice, thread, running, ticks - running, wait,
			    FIXTURE_FUTEX);
	}
	return slice;
}

static const struct fgt_diff_row *find(const struct fgt_diff *diff,
				       const char *function)
{
	for (uint32_t i = 0; i < diff->count; i++)
		if (!strcmp(fgt_strings_get(&diff->strings,
					    diff->rows[i].function),
			    function))
			return &diff->rows[i];
	fail_msg("no row of %s", function);
	return NULL;
}

static void slices_of_any_length_compare(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *before = slice_of(100, 10);
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *after = slice_of(400, 200);
	FGT_AUTO(fgt_diff_free) struct fgt_diff *diff = NULL;
	const struct fgt_diff_row *row;

	(void)state;
	assert_int_equal(fgt_diff_new(before, after, NULL, &all, &diff), 0);
	assert_int_equal(diff->count, 2);
	row = find(diff, "work");
	/* 2 threads at 10 %, then at 50 %. */
	assert_true(fabs(row->average[FGT_DIFF_BEFORE] - 0.2) < 1e-9);
	assert_true(fabs(row->average[FGT_DIFF_AFTER] - 1.0) < 1e-9);
	assert_true(fabs(fgt_diff_change(row) - 0.8) < 1e-9);
	assert_string_equal(fgt_strings_get(&diff->strings, row->threads),
			    "worker-*");
	assert_true(fabs(fgt_diff_change(find(diff, "futex_wait")) + 0.8) <
		    1e-9);
	assert_true(fabs(diff->threads[FGT_DIFF_AFTER] - 2) < 1e-9);
}

static void new_things_have_no_past(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *before = slice_of(100, 0);
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *after = slice_of(100, 5);
	FGT_AUTO(fgt_diff_free) struct fgt_diff *diff = NULL;

	(void)state;
	assert_int_equal(fgt_diff_new(before, after, NULL, &all, &diff), 0);
	assert_int_equal(find(diff, "work")->samples[FGT_DIFF_BEFORE], 0);
	assert_int_equal(find(diff, "work")->samples[FGT_DIFF_AFTER], 10);
}

static void a_filter_takes_what_one_side_has(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *before = slice_of(100, 0);
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *after = slice_of(100, 5);
	FGT_AUTO(fgt_diff_free) struct fgt_diff *diff = NULL;
	const struct fgt_filter working = { .function = "work" };
	const struct fgt_filter none = { .function = "rest" };

	(void)state;
	assert_int_equal(fgt_diff_new(before, after, NULL, &none, &diff),
			 -ENODATA);
	assert_int_equal(fgt_diff_new(before, after, NULL, &working, &diff), 0);
	assert_int_equal(diff->count, 1);
	assert_int_equal(find(diff, "work")->samples[FGT_DIFF_AFTER], 10);
	assert_true(diff->threads[FGT_DIFF_BEFORE] == 0);
	assert_true(fabs(diff->threads[FGT_DIFF_AFTER] - 0.1) < 1e-9);
}

/* Workers of two programs are two rows, each with its process; those of one
 * are the same row in a slice that has no other. */
static void rows_name_their_processes(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *one = slice_of(100, 50);
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *two = slice_of(100, 50);
	const struct fgt_ring_slice *slices[] = { one, two };
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *both = NULL;
	FGT_AUTO(fgt_diff_free) struct fgt_diff *diff = NULL;

	(void)state;
	two->process.pid = 5000;
	strcpy(two->process.name, "tool");
	assert_int_equal(fgt_slice_merge(slices, 2, &both), 0);
	assert_int_equal(fgt_diff_new(one, both, NULL, &all, &diff), 0);
	assert_int_equal(diff->count, 2 * 2);
	for (uint32_t i = 0; i < diff->count; i++) {
		const struct fgt_diff_row *row = &diff->rows[i];
		const char *threads =
			fgt_strings_get(&diff->strings, row->threads);

		bool is_new = row->pids.first[0] == 5000;

		assert_int_equal(row->pids.count, 1);
		assert_string_equal(threads, is_new ? "worker-* of tool"
						    : "worker-* of app");
		assert_int_equal(row->samples[FGT_DIFF_BEFORE] == 0, is_new);
		assert_int_not_equal(row->samples[FGT_DIFF_AFTER], 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slices_of_any_length_compare),
		cmocka_unit_test(new_things_have_no_past),
		cmocka_unit_test(a_filter_takes_what_one_side_has),
		cmocka_unit_test(rows_name_their_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
