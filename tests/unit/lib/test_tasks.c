/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Correct and wrong use of tasks and spans. Z1 to Z13 are behaviours of zrepl's
 * tracer.
 */
#include "tests/unit/lib/tasks_kit.h"

/* ---- Z1 to Z10 ---------------------------------------------------------- */

static void z1_spans_end_inside_out_and_another_child_follows(void **state)
{
	uint64_t task = begin_task("z1", 0), outer, inner;

	(void)state;
	outer = begin_span("outer", 0);
	inner = begin_span("inner", 0);
	end_span(inner);
	inner = begin_span("another", outer);
	end_span(inner);
	end_span(outer);
	end_task(task);
}

static void z2_a_second_active_child_is_refused(void **state)
{
	uint64_t task = begin_task("z2", 0), outer, first, second = 0;
	uint64_t misuses = fgt_misuse_count();

	(void)state;
	outer = begin_span("outer", task);
	first = begin_span("first", outer);
	assert_int_equal(fgt_span_begin("second", outer, &second), -EALREADY);
	assert_int_equal(fgt_span_begin("second", task, &second), -EALREADY);
	assert_int_equal(second, 0);
	assert_int_equal(fgt_misuse_count(), misuses + 2);
	end_span(first);
	second = begin_span("second", outer);
	end_span(second);
	end_span(outer);
	end_task(task);
}

static void z3_a_span_with_an_active_child_does_not_end(void **state)
{
	uint64_t task = begin_task("z3", 0), outer, inner;

	(void)state;
	outer = begin_span("outer", 0);
	inner = begin_span("inner", 0);
	assert_int_equal(fgt_span_end(outer), -EBUSY);
	assert_int_equal(fgt_task_end(task), -ENOTEMPTY);
	end_span(inner);
	end_span(outer);
	end_task(task);
}

static void z4_spans_of_three_tasks_end_in_any_order(void **state)
{
	static const int orders[6][3] = {
		{ 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
		{ 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 }
	};

	(void)state;
	for (int order = 0; order < 6; order++) {
		uint64_t root = begin_task("root", 0), tasks[3], spans[3];

		for (int i = 0; i < 3; i++) {
			tasks[i] = begin_task("one", root);
			spans[i] = begin_span("span", tasks[i]);
		}
		for (int i = 0; i < 3; i++)
			end_span(spans[orders[order][i]]);
		for (int i = 0; i < 3; i++)
			end_task(tasks[orders[order][i]]);
		end_task(root);
	}
}

static void z5_a_task_with_a_living_child_does_not_end(void **state)
{
	uint64_t parent = begin_task("parent", 0);
	uint64_t child = begin_task("child", 0);

	(void)state;
	assert_int_equal(fgt_task_end(parent), -ENOTEMPTY);
	end_task(child);
	end_task(parent);
}

static void z6_to_end_twice_is_harmless(void **state)
{
	uint64_t misuses = fgt_misuse_count();
	uint64_t task = begin_task("z6", 0), span = begin_span("span", 0);

	(void)state;
	end_span(span);
	end_span(span);
	end_task(task);
	end_task(task);
	end_span(span);
	assert_int_equal(fgt_misuse_count(), misuses);
}

static void z7_a_span_without_a_task_is_refused(void **state)
{
	uint64_t span = 0;

	(void)state;
	assert_int_equal(fgt_span_begin("span", 0, &span), -ENOTCONN);
	assert_int_equal(fgt_span_end(0), -ENOTCONN);
	assert_int_equal(fgt_label("key", "value"), -ENOTCONN);
	assert_int_equal(span, 0);
}

static void z8_tasks_belong_to_tasks_and_spans_to_spans(void **state)
{
	uint64_t root = begin_task("root", 0), child, grandchild, inner;

	(void)state;
	assert_int_equal(parent_of(root), 0);
	child = begin_span("child", 0);
	grandchild = begin_span("grandchild", 0);
	assert_int_equal(fgt_number_depth(child), 0);
	assert_int_equal(fgt_number_depth(grandchild), 1);
	assert_int_equal(find(FGT_SPAN_BEGIN, grandchild).record.owner, root);
	/* A task that begins in a span is a child of the task. */
	inner = begin_task("inner", 0);
	assert_int_equal(parent_of(inner), root);
	end_span(grandchild);
	end_span(child);
	assert_int_equal(fgt_task_end(root), -ENOTEMPTY);
	end_task(inner);
	end_task(root);
}

static void z9_below_ended_tasks_a_new_root_begins(void **state)
{
	uint64_t root = begin_task("root", 0), child = begin_task("child", 0);
	uint64_t fresh, below;

	(void)state;
	end_task(child);
	end_task(root);
	fresh = begin_task("fresh", child);
	assert_int_equal(parent_of(fresh), 0);
	below = begin_task("below", fresh);
	assert_int_equal(fgt_task_end(fresh), -ENOTEMPTY);
	end_task(below);
	end_task(fresh);
}

static void z10_an_ended_parents_parent_takes_its_place(void **state)
{
	uint64_t root = begin_task("root", 0), child = begin_task("child", 0);
	uint64_t grandchild;

	(void)state;
	end_task(child);
	grandchild = begin_task("grandchild", child);
	assert_int_equal(parent_of(grandchild), root);
	assert_int_equal(fgt_task_end(root), -ENOTEMPTY);
	end_task(grandchild);
	end_task(root);
}

/* ---- Z11 to Z13: threads ------------------------------------------------ */

struct pair {
	uint64_t group;
	pthread_barrier_t met;
	atomic_int failures;
};

static void *work_in_group(void *context)
{
	struct pair *pair = context;
	uint64_t task = 0, span = 0;

	if (fgt_task_begin("member", pair->group, &task) ||
	    fgt_span_begin("work", 0, &span))
		atomic_fetch_add(&pair->failures, 1);
	/* Each thread is in its span while the other is in its own. */
	pthread_barrier_wait(&pair->met);
	if (fgt_span_end(span) || fgt_task_end(task))
		atomic_fetch_add(&pair->failures, 1);
	return NULL;
}

static void z11_tasks_of_a_group_run_at_the_same_time(void **state)
{
	struct pair pair = { .group = begin_task("group", 0) };
	pthread_t threads[2];

	(void)state;
	pthread_barrier_init(&pair.met, NULL, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, work_in_group, &pair),
			0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(pair.failures, 0);
	end_task(pair.group);
	pthread_barrier_destroy(&pair.met);
}

/* Z12 takes names from the calling function; in C that is __func__. */
static void z12_the_callers_name_is_a_name(void **state)
{
	uint64_t task = begin_task(__func__, 0);

	(void)state;
	assert_name(task, "z12_the_callers_name_is_a_name#0");
	end_task(task);
}

#define REQUESTS 8128
#define THREADS	 16
#define NAMES	 (REQUESTS / 23)

static struct {
	atomic_int next, failures;
	/* Live unique names: up to 64 of each name. */
	_Atomic uint64_t live[NAMES + 1];
} requests;

/* Marks name#n as live; it must not be marked. */
static void claim(const char *unique, uint64_t *ret_bit, int *ret_name)
{
	unsigned int n = 99;

	if (sscanf(unique, "request-%d#%u", ret_name, &n) != 2 || n > 63 ||
	    *ret_name > NAMES) {
		atomic_fetch_add(&requests.failures, 1);
		*ret_bit = 0;
		*ret_name = 0;
		return;
	}
	*ret_bit = UINT64_C(1) << n;
	if (atomic_fetch_or(&requests.live[*ret_name], *ret_bit) & *ret_bit)
		atomic_fetch_add(&requests.failures, 1);
}

static __thread char seen_task[FGT_SPAN_UNIQUE_MAX + 1];

static void note_task(void *context, const struct fgt_span_end *end)
{
	(void)context;
	snprintf(seen_task, sizeof(seen_task), "%s", end->task);
}

static void request(int index)
{
	char name[32];
	uint64_t task = 0, span = 0, bit;
	int number;

	snprintf(name, sizeof(name), "request-%d", index % NAMES);
	if (fgt_task_begin(name, 0, &task) ||
	    fgt_span_begin("first", 0, &span) || fgt_span_end(span)) {
		atomic_fetch_add(&requests.failures, 1);
		return;
	}
	claim(seen_task, &bit, &number);
	if (fgt_span_begin("second", 0, NULL) || fgt_span_end(0))
		atomic_fetch_add(&requests.failures, 1);
	atomic_fetch_and(&requests.live[number], ~bit);
	if (fgt_task_end(task))
		atomic_fetch_add(&requests.failures, 1);
}

static void *serve(void *context)
{
	uint64_t held[8] = { 0 };
	int index, count = 0;

	(void)context;
	while ((index = atomic_fetch_add(&requests.next, 1)) < REQUESTS) {
		/* Some tasks stay live while the thread begins others. */
		if (index % 5 == 0 && count < 8 &&
		    fgt_task_begin("held", 0, &held[count]) == 0)
			count++;
		request(index);
	}
	while (count > 0)
		if (fgt_task_end(held[--count]))
			atomic_fetch_add(&requests.failures, 1);
	return NULL;
}

static void z13_8128_requests_never_share_a_unique_name(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, serve, NULL),
				 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(requests.failures, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CLEAN(z1_spans_end_inside_out_and_another_child_follows),
		CLEAN(z2_a_second_active_child_is_refused),
		CLEAN(z3_a_span_with_an_active_child_does_not_end),
		CLEAN(z4_spans_of_three_tasks_end_in_any_order),
		CLEAN(z5_a_task_with_a_living_child_does_not_end),
		CLEAN(z6_to_end_twice_is_harmless),
		CLEAN(z7_a_span_without_a_task_is_refused),
		CLEAN(z8_tasks_belong_to_tasks_and_spans_to_spans),
		CLEAN(z9_below_ended_tasks_a_new_root_begins),
		CLEAN(z10_an_ended_parents_parent_takes_its_place),
		CLEAN(z11_tasks_of_a_group_run_at_the_same_time),
		CLEAN(z12_the_callers_name_is_a_name),
		CLEAN(z13_8128_requests_never_share_a_unique_name),
	};

	if (fgt_journal_open())
		return 1;
	if (fgt_on_span_end(note_task, NULL))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
