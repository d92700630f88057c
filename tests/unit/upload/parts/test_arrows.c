/* SPDX-License-Identifier: Apache-2.0 */
/* Arrows from threads to those that they woke, and their ends in a Chrome
 * trace. */
#include "upload/format/parts/arrows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/slice_fixture.h"
#include "upload/format/format.h"

#define TICKS 100

/* Threads 10 and 20, which are there all the time. */
static struct fgt_ring_slice *make(void)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t stack = fixture_stack(slice, "main;work");

	slice->process.pid = 10;
	for (int32_t tid = 10; tid <= 20; tid += 10)
		fixture_run(slice, fixture_thread(slice, tid, "worker"), 0,
			    TICKS, stack, FGT_STATE_RUNNING);
	return slice;
}

static void thread_of_the_slice_has_an_arrow(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = make();
	struct fgt_arrows arrows;

	(void)state;
	fixture_wake(slice, 0, 300, 20, FGT_NODE_NONE);
	fixture_wake(slice, 1, 200, 10, FGT_NODE_NONE);
	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(fgt_arrows_init(&arrows, slice), 0);
	assert_int_equal(arrows.count, 2);
	assert_int_equal(arrows.arrows[0].from, 0);
	assert_int_equal(arrows.arrows[0].to, 1);
	assert_int_equal(arrows.arrows[0].at_ns, FIXTURE_START_NS + 200000000);
	assert_int_equal(arrows.arrows[1].from, 1);
	fgt_arrows_done(&arrows);
}

static void others_have_none(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = make();
	struct fgt_arrows arrows;

	(void)state;
	fixture_wake(slice, 0, 100, 77, FGT_NODE_NONE); /* not sampled */
	fixture_wake(slice, 0, 200, 20, FGT_NODE_NONE);
	slice->wakers[1].context = FGT_WAKE_INTERRUPT;
	fixture_wake(slice, 0, 300, 20, FGT_NODE_NONE);
	slice->wakers[2].pid = 99; /* such a number in another process */
	assert_int_equal(fgt_arrows_init(&arrows, slice), 0);
	assert_int_equal(arrows.count, 0);
	assert_int_equal(arrows.left_out, 0);
	fgt_arrows_done(&arrows);
}

static void too_many_are_thinned_out_evenly(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = make();
	const uint32_t count = FGT_ARROWS_MAX + 10;
	struct fgt_arrows arrows;

	(void)state;
	fixture_wake(slice, 0, 1, 20, FGT_NODE_NONE);
	slice->wakes = realloc(slice->wakes, count * sizeof(*slice->wakes));
	for (uint32_t i = 1; i < count; i++) {
		slice->wakes[i] = slice->wakes[0];
		slice->wakes[i].at_ns += i;
	}
	slice->wake_count = count;
	assert_int_equal(fgt_arrows_init(&arrows, slice), 0);
	assert_int_equal(arrows.count, count / 2);
	assert_int_equal(arrows.left_out, count / 2);
	assert_int_equal(arrows.arrows[1].at_ns - arrows.arrows[0].at_ns, 2);
	fgt_arrows_done(&arrows);
}

static void chrome_has_both_ends(void **state)
{
	static const char from[] = "\"ph\":\"s\",\"pid\":10,\"tid\":20,"
				   "\"ts\":300000",
			  to[] = "\"ph\":\"f\",\"pid\":10,\"tid\":10,"
				 "\"ts\":300000";
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = make();
	const struct fgt_format_options options = { .state_frames = 0 };
	struct fixture_buffer buffer = { .len = 0 };
	struct fgt_sink sink = fixture_buffer_sink(&buffer);

	(void)state;
	fixture_wake(slice, 0, 300, 20, FGT_NODE_NONE);
	assert_int_equal(
		fgt_format_write(slice, FGT_KIND_CHROME, &options, &sink), 0);
	assert_int_equal(fixture_count(buffer.bytes, from), 1);
	assert_int_equal(fixture_count(buffer.bytes, to), 1);
	assert_int_equal(fixture_count(buffer.bytes, "\"cat\":\"wake\""), 2);
	fixture_buffer_done(&buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thread_of_the_slice_has_an_arrow),
		cmocka_unit_test(others_have_none),
		cmocka_unit_test(too_many_are_thinned_out_evenly),
		cmocka_unit_test(chrome_has_both_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
