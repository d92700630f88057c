/* SPDX-License-Identifier: Apache-2.0 */
#include "upload/why/windows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/slice_fixture.h"

#define TICKS 400u
#define FIRST 200u
#define LAST  219u

static void assert_range_is_exact(const struct fgt_ring_slice *slice)
{
	struct fgt_windows *windows;

	assert_int_equal(fgt_windows_new(slice, slice->tick_ns[FIRST],
					 slice->tick_ns[LAST], FGT_WINDOWS_MAX,
					 &windows),
			 0);
	assert_int_equal(windows->windows[0].first, FIRST);
	assert_int_equal(windows->windows[0].end, LAST + 1);
	fgt_windows_free(windows);
}

/* Ticks come early or late in their slots: the one after the range is no part
 * of it, less than a period after the last one though it may be. */
static void range_has_its_own_ticks_only(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);

	(void)state;
	assert_range_is_exact(slice);
	slice->tick_ns[LAST + 1] -= FIXTURE_PERIOD_NS / 2;
	assert_range_is_exact(slice);
	slice->tick_ns[LAST + 1] += FIXTURE_PERIOD_NS;
	assert_range_is_exact(slice);
	fgt_ring_slice_free(slice);
}

static void rank_is_among_the_others(void **state)
{
	double values[] = { 5, 9, 1, 3, 7 }, alone[] = { 5 };
	struct fgt_rank rank = fgt_rank_of(values, 5);

	(void)state;
	assert_int_equal(rank.place, 3);
	assert_true(rank.usual_ms == 5 && rank.most_ms == 9 &&
		    rank.high_ms == 9);
	rank = fgt_rank_of(alone, 1);
	assert_int_equal(rank.place, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(range_has_its_own_ticks_only),
		cmocka_unit_test(rank_is_among_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
