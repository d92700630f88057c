/* SPDX-License-Identifier: Apache-2.0 */
/* Slices of several processes as one, and one process of it again. */
#include "ringbuf/slice/merge.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "ringbuf/slice/pace.h"
#include "ringbuf/slice/processes.h"
#include "ringbuf/slice/slice_codec.h"
#include "tests/unit/ringbuf/slice_fixture.h"

#define TICKS 100

/* A process with one thread, which does the same all the time. */
static struct fgt_ring_slice *make(int32_t pid, const char *name,
				   const char *stack)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);

	slice->process.pid = pid;
	snprintf(slice->process.name, sizeof(slice->process.name), "%s", name);
	fixture_thread(slice, pid, name);
	fixture_run(slice, 0, 0, TICKS, fixture_stack(slice, stack),
		    FGT_STATE_RUNNING);
	return slice;
}

static struct fgt_ring_slice *merge(const struct fgt_ring_slice *a,
				    const struct fgt_ring_slice *b)
{
	const struct fgt_ring_slice *slices[] = { a, b };
	struct fgt_ring_slice *result;

	assert_true(fgt_slice_is_valid(a));
	assert_true(fgt_slice_is_valid(b));
	assert_int_equal(fgt_slice_merge(slices, 2, &result), 0);
	assert_true(fgt_slice_is_valid(result));
	return result;
}

/* Periods of all runs of a process. */
static uint64_t weight_of(const struct fgt_ring_slice *slice, int32_t pid)
{
	uint64_t weight = 0;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];

		if (fgt_slice_process_of(slice, run->thread).pid == pid)
			weight += fgt_pace_weight(slice, run->first_tick,
						  run->tick_count);
	}
	return weight;
}

static void equal_stacks_are_one_and_processes_two(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *a = make(200, "parent", "main;work");
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *b = make(100, "child", "main;work");
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *both = merge(a, b);

	(void)state;
	assert_int_equal(both->process.pid, 200);
	assert_int_equal(fgt_slice_process_count(both), 2);
	assert_int_equal(both->tick_count, TICKS);
	assert_int_equal(both->node_count, a->node_count);
	assert_int_equal(both->runs[0].stack, both->runs[1].stack);
	assert_int_equal(both->threads[0].tid, 100);
	assert_string_equal(fgt_slice_process_of(both, 0).name, "child");
	assert_string_equal(fgt_slice_process_of(both, 1).title, "parent");
	assert_int_equal(weight_of(both, 100), TICKS);
	assert_int_equal(weight_of(both, 200), TICKS);
}

static void workers_of_one_service_keep_its_name(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *a = make(100, "one", "main;work");
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *b = make(200, "two", "main;work");
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *both = NULL;
	struct fgt_service *service = &b->process.service;

	(void)state;
	strcpy(service->name, "shop");
	strcpy(service->version, "1.4");
	a->process.service = *service;
	strcpy(service->instance, "i-2");
	both = merge(a, b);
	assert_string_equal(both->process.service.name, "shop");
	assert_string_equal(both->process.service.version, "1.4");
	assert_string_equal(both->process.service.instance, "");
	fgt_ring_slice_free(FGT_TAKE(both));
	strcpy(service->name, "ledger");
	both = merge(a, b);
	assert_int_equal(fgt_service_count(&both->process.service), 0);
}

static void same_address_of_two_programs_is_two_frames(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *a = make(100, "one", "main;read");
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *b = make(200, "two", "main;write");
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *both = merge(a, b);

	(void)state;
	assert_int_equal(a->frames[1].frame.address,
			 b->frames[1].frame.address);
	assert_int_equal(both->frame_count, 3);
	assert_int_not_equal(both->runs[0].stack, both->runs[1].stack);
}

/* Sums of such a period wrap; found by ASan, where ticks are skipped. */
static void period_of_centuries_is_merged(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *a = make(100, "one", "main;work");
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *b = make(200, "two", "main;work");
	struct fgt_ring_slice *slices[] = { a, b };
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *both = NULL;

	(void)state;
	for (int i = 0; i < 2; i++) {
		slices[i]->period_ns = UINT64_C(0x3000000000000000);
		slices[i]->tick_ns[TICKS - 2] = UINT64_C(0xC000000000000000);
		slices[i]->tick_ns[TICKS - 1] = UINT64_C(0xC100000000000000);
	}
	for (uint32_t i = 0; i < TICKS; i++)
		b->tick_ns[i]++; /* the united array is full */
	both = merge(a, b);
	assert_int_equal(both->tick_count, 2 * TICKS);
}

/* Every fourth tick of the others, each for four periods. */
static void slower_process_weighs_as_much(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *a = make(100, "fast", "main;work");
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *b = make(200, "slow", "main;work");
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *both = NULL;

	(void)state;
	b->tick_count = TICKS / 4;
	b->runs[0].tick_count = TICKS / 4;
	for (uint32_t i = 0; i < b->tick_count; i++)
		b->tick_ns[i] = a->tick_ns[i * 4];
	assert_int_equal(fgt_pace_add(b, 0, 4), 0);
	both = merge(a, b);
	assert_int_equal(both->pace_count, 0);
	assert_int_equal(weight_of(both, 100), TICKS);
	assert_int_equal(weight_of(both, 200), TICKS);
	fgt_ring_slice_free(FGT_TAKE(both));
	both = merge(b, b);
	assert_int_equal(both->pace_count, 1);
	assert_int_equal(weight_of(both, 200), 2 * TICKS);
}

static struct fgt_ring_slice *make_slow(int32_t pid, uint32_t pace)
{
	struct fgt_ring_slice *slice = make(pid, "slow", "main;work");

	slice->tick_count = slice->runs[0].tick_count = TICKS / pace;
	for (uint32_t i = 0; i < slice->tick_count; i++)
		slice->tick_ns[i] =
			slice->tick_ns[0] + i * pace * FIXTURE_PERIOD_NS;
	assert_int_equal(fgt_pace_add(slice, 0, pace), 0);
	return slice;
}

/* No tick of theirs is for one period. */
static void slow_processes_of_two_paces_weigh_as_much(void **state)
{
	static const uint32_t paces[][2] = { { 2, 4 }, { 4, 2 }, { 2, 5 } };

	(void)state;
	for (size_t i = 0; i < sizeof(paces) / sizeof(*paces); i++) {
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *a = make_slow(100, paces[i][0]);
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *b = make_slow(200, paces[i][1]);
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *both = merge(a, b);

		assert_int_equal(weight_of(both, 100), TICKS);
		assert_int_equal(weight_of(both, 200), TICKS);
	}
}

/* Blocked, then at work: as edges, or a wake-up, show between its ticks. */
static void change_of_slower_process_is_where_it_was(void **state)
{
	(void)state;
	for (int with_edges = 0; with_edges < 2; with_edges++) {
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *a = make(100, "fast", "main;work");
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *b = make_slow(200, 4);
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *both = NULL;

		b->run_count = 0;
		fixture_run(b, 0, 0, 10, 0, FIXTURE_FUTEX);
		fixture_run(b, 0, 10, 15, 0, FGT_STATE_RUNNING);
		fixture_wake(b, 0, 374, 200, FGT_NODE_NONE);
		if (with_edges) {
			fixture_edge(b, 0, 10, 39000, 30000);
			fixture_edge(b, 0, 10, 25000, 0);
		}
		both = merge(a, b);
		assert_int_equal(both->run_count, 3);
		assert_int_equal(both->runs[1].tick_count, 38);
		assert_int_equal(both->runs[2].first_tick, 38);
		assert_int_equal(both->runs[2].tick_count, TICKS - 38);
		assert_int_equal(both->edge_count, with_edges ? 2 : 0);
		if (with_edges) {
			assert_int_equal(both->edges[0].tick, 38);
			assert_int_equal(both->edges[0].on_us, 19000);
			assert_int_equal(both->edges[0].off_us, 10000);
			assert_int_equal(both->edges[1].tick, 38);
			assert_int_equal(both->edges[1].on_us, 5000);
			assert_int_equal(both->edges[1].off_us, 0);
		}
	}
}

static void process_that_begins_later_keeps_its_time(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *a = make(100, "first", "main;work");
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *b = make(200, "later", "main;work");
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *both = NULL;

	(void)state;
	for (uint32_t i = 0; i < TICKS; i++)
		b->tick_ns[i] += 90 * FIXTURE_PERIOD_NS;
	both = merge(a, b);
	assert_int_equal(both->tick_count, 190);
	assert_int_equal(both->runs[1].first_tick, 90);
	assert_int_equal(both->runs[1].tick_count, TICKS);
	assert_int_equal(both->runs[0].tick_count, TICKS);
}

static bool has_mark(const struct fgt_ring_slice *slice, const char *name)
{
	for (uint32_t i = 0; i < slice->mark_count; i++)
		if (!strcmp(fgt_slice_string(slice, slice->marks[i].name),
			    name))
			return true;
	return false;
}

/* Waits, wakes, tasks, spans and all else of a slice that has everything. */
static void everything_comes_along(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *rich = fixture_rich();
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *plain = make(100, "plain", "main;work");
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *both = NULL;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *again = NULL;

	(void)state;
	fixture_mark(plain, 10, "of plain", 100);
	fixture_counter(plain, 10, "queue", 1);
	both = merge(plain, rich);
	assert_int_equal(both->task_count, rich->task_count);
	assert_int_equal(both->span_count, rich->span_count);
	assert_int_equal(both->label_count, rich->label_count);
	assert_int_equal(both->mark_count, rich->mark_count + 1);
	assert_int_equal(both->counter_count, rich->counter_count + 1);
	assert_int_equal(both->wait_count, rich->wait_count);
	assert_int_equal(both->wake_count, rich->wake_count);
	assert_int_equal(both->edge_count, rich->edge_count);
	assert_true(has_mark(both, "of plain"));
	assert_int_equal(weight_of(both, rich->process.pid),
			 weight_of(rich, rich->process.pid));
	assert_int_equal(fgt_slice_of_process(both, 1, &again), 0);
	assert_true(fgt_slice_is_valid(again));
	assert_int_equal(again->process.pid, rich->process.pid);
	assert_string_equal(again->process.name, rich->process.name);
	assert_int_equal(again->thread_count, rich->thread_count);
	assert_int_equal(again->wait_count, rich->wait_count);
	assert_int_equal(weight_of(again, rich->process.pid),
			 weight_of(rich, rich->process.pid));
}

static void file_keeps_the_processes(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *a = make(200, "parent", "main;work");
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *b = make(100, "child", "main;rest");
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *both = merge(a, b);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *read = NULL;
	struct fixture_buffer buffer = { .len = 0 };
	struct fgt_sink sink = fixture_buffer_sink(&buffer);
	struct fgt_why why;

	(void)state;
	assert_int_equal(fgt_slice_encode(both, &sink), 0);
	assert_int_equal(fgt_slice_decode((const uint8_t *)buffer.bytes,
					  buffer.len, &read, &why),
			 0);
	assert_int_equal(fgt_slice_process_count(read), 2);
	assert_int_equal(read->threads[0].process, 1);
	assert_string_equal(fgt_slice_process_of(read, 0).name, "child");
	assert_string_equal(fgt_slice_process_of(read, 1).name, "parent");
	fixture_buffer_done(&buffer);
}

/* As a hostile program may make them. */
static void frames_and_images_that_differ_little_are_no_slower(void **state)
{
	const uint32_t count = 40000;
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *a = make(100, "one", "main");
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *b = make(200, "two", "main");
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *both = NULL;
	clock_t began = clock();

	(void)state;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t frame = fixture_marker(b, 1);

		b->frames[frame].frame.flags = i << 8;
		fixture_image(b, "/lib/a.so", 0, "id");
		b->images[b->image_count - 1].ino = i;
	}
	both = merge(a, b);
	assert_int_equal(both->frame_count, count + 1);
	assert_int_equal(both->image_count, count + 1);
	assert_true(clock() - began < CLOCKS_PER_SEC);
}

static void unequal_periods_are_refused(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *a = make(100, "one", "main");
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *b = make(200, "two", "main");
	const struct fgt_ring_slice *slices[] = { a, b };
	struct fgt_ring_slice *result = NULL;

	(void)state;
	b->period_ns *= 2;
	assert_int_equal(fgt_slice_merge(slices, 2, &result), -EINVAL);
	assert_int_equal(fgt_slice_merge(slices, 0, &result), -EINVAL);
	assert_null(result);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_stacks_are_one_and_processes_two),
		cmocka_unit_test(workers_of_one_service_keep_its_name),
		cmocka_unit_test(same_address_of_two_programs_is_two_frames),
		cmocka_unit_test(period_of_centuries_is_merged),
		cmocka_unit_test(slower_process_weighs_as_much),
		cmocka_unit_test(slow_processes_of_two_paces_weigh_as_much),
		cmocka_unit_test(change_of_slower_process_is_where_it_was),
		cmocka_unit_test(process_that_begins_later_keeps_its_time),
		cmocka_unit_test(everything_comes_along),
		cmocka_unit_test(file_keeps_the_processes),
		cmocka_unit_test(
			frames_and_images_that_differ_little_are_no_slower),
		cmocka_unit_test(unequal_periods_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
