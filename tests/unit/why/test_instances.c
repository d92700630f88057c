/* SPDX-License-Identifier: Apache-2.0 */
/* Ten spans of one thread: nine take 20 ms, one 60 ms. */
#include "upload/why/instances.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/slice_fixture.h"

#define TICKS 100
#define EACH  10 /* ticks from one span to the next */

static struct fgt_ring_slice *make(void)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t task = fixture_task(slice, 0, "shop", 0, 0, 0);

	for (int i = 0; i < 10; i++)
		fixture_span(slice, task, 0, "checkout", 100 * i,
			     100 * i + (i == 5 ? 60 : 20));
	fixture_run(slice, fixture_thread(slice, slice->spans[0].tid, "main"),
		    0, TICKS, fixture_stack(slice, "main;work"),
		    FGT_STATE_RUNNING);
	assert_true(fgt_slice_is_valid(slice));
	return slice;
}

static struct fgt_instances find(const struct fgt_ring_slice *slice)
{
	struct fgt_instances instances;
	struct fgt_why why;

	assert_int_equal(
		fgt_instances_find(slice, "checkout", NULL, &instances, &why),
		0);
	assert_int_equal(instances.count, 10);
	return instances;
}

static void longest_comes_first(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = make();
	struct fgt_instances instances = find(slice);

	(void)state;
	assert_int_equal(instances.items[0].begin_ns,
			 FIXTURE_START_NS + 500000000);
	assert_int_equal(fgt_instances_quantile(&instances, 50), 20000000);
	assert_int_equal(fgt_instances_quantile(&instances, 99), 60000000);
	assert_int_equal(fgt_instances_count_over(&instances, 20000000), 1);
	assert_int_equal(fgt_instances_count_over(&instances, 0), 10);
	assert_int_equal(fgt_instances_count_over(&instances, 60000000), 0);
	fgt_instances_done(&instances);
}

static uint32_t ticks_of(const struct fgt_ring_slice *slice)
{
	uint32_t ticks = 0;

	for (uint32_t i = 0; i < slice->run_count; i++)
		ticks += slice->runs[i].tick_count;
	return ticks;
}

static void part_has_the_ticks_of_its_instances(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = make();
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slow = NULL;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *rest = NULL;
	struct fgt_instances instances = find(slice);

	(void)state;
	assert_int_equal(fgt_instances_cut(slice, &instances, 0, 1, &slow), 0);
	assert_true(fgt_slice_is_valid(slow));
	assert_int_equal(ticks_of(slow), 7); /* both ends */
	assert_int_equal(fgt_instances_cut(slice, &instances, 1, 10, &rest), 0);
	assert_int_equal(ticks_of(rest), 9 * 3);
	fgt_instances_done(&instances);
}

/* One span, from tick 10 on: what the thread was last sampled in before it. */
static void part_has_no_stack_from_before_it(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(TICKS), *part = NULL;
	uint32_t task = fixture_task(slice, 0, "shop", 0, 0, 0), main_thread;
	struct fgt_instances instances;
	struct fgt_why why;

	(void)state;
	fixture_span(slice, task, 0, "checkout", 100, 200);
	main_thread = fixture_thread(slice, slice->spans[0].tid, "main");
	fixture_run(slice, main_thread, 0, 8,
		    fixture_stack(slice, "main;other"), FGT_STATE_RUNNING);
	fixture_run(slice, main_thread, 8, 4,
		    fixture_stack(slice, "main;other;#3"), FGT_STATE_RUNNABLE);
	fixture_run(slice, main_thread, 12, 2,
		    fixture_stack(slice, "main;work"), FGT_STATE_RUNNING);
	fixture_run(slice, main_thread, 14, 10,
		    fixture_stack(slice, "main;work;#3"), FGT_STATE_RUNNABLE);
	assert_int_equal(
		fgt_instances_find(slice, "checkout", NULL, &instances, &why),
		0);
	assert_int_equal(fgt_instances_cut(slice, &instances, 0, 1, &part), 0);
	assert_int_equal(part->run_count, 3);
	assert_int_equal(part->runs[0].tick_count, 2);
	assert_int_equal(part->runs[0].stack, FGT_NODE_NONE);
	assert_int_not_equal(part->runs[1].stack, FGT_NODE_NONE);
	assert_int_equal(part->runs[2].tick_count, 7);
	assert_int_not_equal(part->runs[2].stack, FGT_NODE_NONE);
	fgt_instances_done(&instances);
}

static void missing_span_is_explained(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = make();
	struct fgt_instances instances;
	struct fgt_why why;

	(void)state;
	assert_int_equal(
		fgt_instances_find(slice, "none", NULL, &instances, &why),
		-ENODATA);
	assert_non_null(strstr(why.text, "there are: checkout, shop"));
}

/* 100 - 99.9 is a little less than 0.1, in doubles: one of 1000 is longer. */
static void quantile_does_not_lose_one_to_rounding(void **state)
{
	struct fgt_instance items[1000];
	struct fgt_instances instances = { items, 1000 };

	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		items[i] = (struct fgt_instance){ .end_ns = 1000 - i };
	assert_int_equal(fgt_instances_quantile(&instances, 99.9), 999);
	assert_int_equal(fgt_instances_quantile(&instances, 71), 710);
	assert_int_equal(fgt_instances_quantile(&instances, 99.95), 1000);
}

/* A query inside a request of a trace, between requests of none. */
static void spans_inherit_their_trace(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t task = fixture_task(slice, 0, "shop", 0, 0, 0), span;
	struct fgt_instances instances;
	struct fgt_why why;

	(void)state;
	fixture_span(slice, task, 0, "request", 0, 90);
	span = fixture_span(slice, task, 0, "request", 100, 160);
	fixture_label(slice, span, "trace_id", "aa");
	fixture_span(slice, task, 1, "query", 110, 140);
	fixture_span(slice, task, 0, "request", 200, 300);
	assert_int_equal(
		fgt_instances_find(slice, NULL, "aa", &instances, &why), 0);
	assert_int_equal(instances.count, 2);
	assert_string_equal(fgt_slice_string(slice, instances.items[1].trace),
			    "aa");
	assert_int_equal(instances.items[1].begin_ns,
			 FIXTURE_START_NS + 110000000);
	fgt_instances_done(&instances);
	assert_int_equal(
		fgt_instances_find(slice, "request", "aa", &instances, &why),
		0);
	assert_int_equal(instances.count, 1);
	fgt_instances_done(&instances);
	assert_int_equal(
		fgt_instances_find(slice, NULL, "bb", &instances, &why),
		-ENODATA);
	assert_non_null(strstr(why.text, "trace_id=bb"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(longest_comes_first),
		cmocka_unit_test(part_has_the_ticks_of_its_instances),
		cmocka_unit_test(part_has_no_stack_from_before_it),
		cmocka_unit_test(missing_span_is_explained),
		cmocka_unit_test(quantile_does_not_lose_one_to_rounding),
		cmocka_unit_test(spans_inherit_their_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
