/* SPDX-License-Identifier: Apache-2.0 */
/* Slices as a stranger's file may have them: none takes the square of its size,
 * in time or in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/slice_fixture.h"
#include "upload/why/explain.h"
#include "upload/why/instances.h"

/* With sanitizers, where all CPUs are busy; 1.1 on an idle one. */
#define SECONDS_MAX 10

static clock_t began;

static void assert_quick(void)
{
	assert_true(clock() - began < SECONDS_MAX * CLOCKS_PER_SEC);
}

static uint64_t tick_ns(uint32_t tick)
{
	return FIXTURE_START_NS + tick * FIXTURE_PERIOD_NS;
}

static struct fgt_explanation *explain(const struct fgt_ring_slice *slice,
				       int32_t tid, uint32_t ticks)
{
	const struct fgt_filter all = { .thread = NULL };
	struct fgt_explanation *explanation;

	assert_true(fgt_slice_is_valid(slice));
	began = clock();
	assert_int_equal(fgt_explain(slice, tick_ns(0), tick_ns(ticks - 1), tid,
				     &all, &explanation),
			 0);
	assert_quick();
	return explanation;
}

static void many_threads_of_one_number_are_no_slower(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(400);
	uint32_t stack = fixture_stack(slice, "main;work");

	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		fixture_run(slice, fixture_thread(slice, 1 + (int32_t)i, "w"),
			    0, 400, stack, FIXTURE_FUTEX);
		fixture_wait(slice, FGT_WAIT_MUTEX, 1000, "");
	}
	for (uint32_t i = 0; i < 20000; i++)
		fixture_run(slice, fixture_thread(slice, 1000, "h"), 399, 1,
			    stack, FGT_STATE_RUNNING);
	fgt_explanation_free(explain(slice, 1, 20));
}

static void threads_that_wait_all_the_time_are_no_slower(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(300000);
	uint32_t stack = fixture_stack(slice, "main;wait");

	(void)state;
	for (int32_t tid = 1; tid <= 20000; tid++)
		fixture_run(slice, fixture_thread(slice, tid, "w"), 0, 300000,
			    stack, FIXTURE_FUTEX);
	fgt_explanation_free(explain(slice, 0, 20));
}

/* Each run is a wait of another kind; windows share the memory. */
static void many_doings_have_fewer_windows(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(6000);
	uint32_t stack = fixture_stack(slice, "main;lock");
	struct fgt_explanation *explanation;

	(void)state;
	for (uint32_t i = 0; i < 60000; i++) {
		if (i % 6000 == 0)
			fixture_thread(slice, 1 + (int32_t)(i / 6000), "w");
		fixture_run(slice, i / 6000, i % 6000, 1, stack, FIXTURE_FUTEX);
		fixture_wait(slice, FGT_WAIT_MUTEX, 0, "")->address = i;
	}
	explanation = explain(slice, 0, 20);
	assert_int_equal(explanation->doings->count, 60000);
	assert_in_range(explanation->windows->count,
			FGT_EXPLAIN_WINDOWS_MIN + 1, 70);
	fgt_explanation_free(explanation);
}

static void wait_in_many_runs_is_no_slower(void **state)
{
	const uint32_t ticks = 50000;
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(ticks);
	uint32_t stack = fixture_stack(slice, "main;wait");

	(void)state;
	fixture_thread(slice, 1, "w");
	for (uint32_t i = 0; i < ticks; i++)
		fixture_run(slice, 0, i, 1, stack, FIXTURE_FUTEX);
	fgt_explanation_free(explain(slice, 1, ticks));
}

static void wakers_of_many_processes_are_no_slower(void **state)
{
	const uint32_t count = 100000;
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(400);
	uint32_t stack = fixture_stack(slice, "main;wait");
	struct fgt_explanation *explanation;

	(void)state;
	fixture_run(slice, fixture_thread(slice, 1, "w"), 0, 400, stack,
		    FIXTURE_FUTEX);
	slice->processes = calloc(count, sizeof(*slice->processes));
	slice->process_count = count;
	for (uint32_t i = 0; i < count; i++) {
		slice->processes[i].pid = 200000 + (int32_t)i;
		fixture_wake(slice, 0, 100, 7, FGT_NODE_NONE);
		slice->wakers[slice->waker_count - 1].pid = 7;
	}
	explanation = explain(slice, 1, 20);
	assert_int_equal(explanation->outside_pid, 7);
	fgt_explanation_free(explanation);
}

/* Deep stacks of frames with many long names, each of which is a library's. */
static void long_names_on_deep_stacks_are_no_slower(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(400);
	char name[4000] = "std::";
	struct fgt_symbol_text texts[FGT_SYMBOLS_PER_FRAME_MAX];
	uint32_t frame = fixture_marker(slice, 0), node = FGT_NODE_NONE;

	(void)state;
	memset(name + 5, 'a', sizeof(name) - 6);
	for (size_t i = 0; i < FGT_SYMBOLS_PER_FRAME_MAX; i++)
		texts[i] = (struct fgt_symbol_text){ .function = name };
	slice->frames[frame].frame.flags = 0;
	assert_int_equal(fgt_slice_add_symbols(slice, frame, texts,
					       FGT_SYMBOLS_PER_FRAME_MAX),
			 0);
	for (uint32_t i = 0; i < 1000; i++)
		node = fixture_node(slice, node, frame);
	fixture_thread(slice, 1, "w");
	for (uint32_t i = 0; i < 400; i++)
		fixture_run(slice, 0, i, 1, node - i, FIXTURE_FUTEX);
	fgt_explanation_free(explain(slice, 1, 400));
}

static void many_instances_of_many_threads_are_no_slower(void **state)
{
	const uint32_t count = 100000;
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10000);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	uint32_t stack = fixture_stack(slice, "main;wait");
	struct fgt_instances instances = { .count = count };

	(void)state;
	instances.items = calloc(count, sizeof(*instances.items));
	for (uint32_t i = 0; i < count; i++)
		instances.items[i] = (struct fgt_instance){ tick_ns(100),
							    tick_ns(9000), 2000,
							    0 };
	for (int32_t tid = 1; tid < 2000; tid++)
		fixture_run(slice, fixture_thread(slice, tid, "w"), 0, 10000,
			    stack, FIXTURE_FUTEX);
	for (uint32_t i = 0; i < 50; i++) /* a number that was used again */
		fixture_run(slice, fixture_thread(slice, 2000, "w"), 0, 10000,
			    stack, FIXTURE_FUTEX);
	began = clock();
	assert_int_equal(fgt_instances_cut(slice, &instances, 0, count, &part),
			 0);
	assert_quick();
	assert_int_equal(part->run_count, 50);
	assert_int_equal(part->runs[0].tick_count, 8901);
	free(instances.items);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_threads_of_one_number_are_no_slower),
		cmocka_unit_test(threads_that_wait_all_the_time_are_no_slower),
		cmocka_unit_test(many_doings_have_fewer_windows),
		cmocka_unit_test(wait_in_many_runs_is_no_slower),
		cmocka_unit_test(wakers_of_many_processes_are_no_slower),
		cmocka_unit_test(long_names_on_deep_stacks_are_no_slower),
		cmocka_unit_test(many_instances_of_many_threads_are_no_slower),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
