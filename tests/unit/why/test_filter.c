/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a slice: threads, states, functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/ringbuf/slice_fixture.h"
#include "upload/why/filter.h"

#define TICKS 100

/* worker-1 and worker-2 work and wait, idle waits all the time. */
static struct fgt_ring_slice *sample(void)
{
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	uint32_t work = fixture_stack(slice, "main;serve;work");
	uint32_t wait = fixture_stack(slice, "main;serve;futex_wait");
	uint32_t idle = fixture_stack(slice, "main;tend;epoll_wait");

	fixture_thread(slice, 1, "worker-1");
	fixture_thread(slice, 2, "worker-2");
	fixture_thread(slice, 3, "idle");
	for (uint32_t thread = 0; thread < 2; thread++) {
		fixture_run(slice, thread, 0, 40, work, FGT_STATE_RUNNING);
		fixture_run(slice, thread, 40, 10, work, FGT_STATE_RUNNABLE);
		fixture_run(slice, thread, 50, 50, wait, FIXTURE_FUTEX);
		fixture_wait(slice, FGT_WAIT_MUTEX, 3, "");
	}
	fixture_run(slice, 2, 0, TICKS, idle, FIXTURE_EPOLL);
	fixture_edge(slice, 0, 50, 0, 500);
	assert_true(fgt_slice_is_valid(slice));
	return slice;
}

/* Samples that pass; 0: none. */
static uint32_t count(const struct fgt_filter *filter)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = sample();
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	struct fgt_why why = { "" };
	uint32_t samples = 0;
	int r = fgt_filter_apply(filter, slice, &part, &why);

	if (r == -ENODATA) {
		assert_true(strlen(why.text) > 0);
		return 0;
	}
	assert_int_equal(r, 0);
	assert_true(fgt_slice_is_valid(part));
	assert_int_equal(part->tick_count, TICKS);
	for (uint32_t i = 0; i < part->run_count; i++)
		samples += part->runs[i].tick_count;
	return samples;
}

static void samples_pass_by_thread_state_and_function(void **state)
{
	(void)state;
	assert_false(fgt_filter_is_any(&(struct fgt_filter){ 0 }));
	assert_int_equal(count(&(struct fgt_filter){ .thread = "worker-*" }),
			 200);
	assert_int_equal(count(&(struct fgt_filter){ .thread = "3" }), 100);
	assert_int_equal(count(&(struct fgt_filter){ .state = "fut*" }), 100);
	assert_int_equal(count(&(struct fgt_filter){ .state = "blocked" }),
			 200);
	assert_int_equal(count(&(struct fgt_filter){ .function = "serve" }),
			 200);
	assert_int_equal(count(&(struct fgt_filter){ .function = "*wait*" }),
			 200);
	assert_int_equal(count(&(struct fgt_filter){ .is_running = true }),
			 100);
	assert_int_equal(count(&(struct fgt_filter){ .is_busy = true }), 200);
	assert_int_equal(count(&(struct fgt_filter){ .thread = "worker-1",
						     .state = "running",
						     .function = "work" }),
			 40);
}

static bool takes(const char *function, const char *pattern)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(TICKS);
	bool *marks = NULL, is_taken;

	fixture_thread(slice, 1, "worker");
	fixture_run(slice, 0, 0, TICKS, fixture_stack(slice, function),
		    FGT_STATE_RUNNING);
	assert_int_equal(
		fgt_filter_mark(&(struct fgt_filter){ .function = pattern },
				slice, &marks),
		0);
	is_taken = marks[0];
	free(marks);
	return is_taken;
}

static void functions_pass_without_their_parameters(void **state)
{
	(void)state;
	assert_true(takes("f()", "f"));
	assert_true(takes("f(int)", "f"));
	assert_true(takes("f(int)", "f(int)"));
	assert_true(takes("a::f(void (*)(int), b<c()>) const", "a::f"));
	assert_true(takes("f(int) [clone .cold]", "f"));
	assert_true(takes("a::operator()(int) const", "a::operator()"));
	assert_true(takes("(anonymous namespace)::f(int)", "*::f"));
	assert_false(takes("(anonymous namespace)::f", ""));
	assert_false(takes("f(int)::{lambda()#1}::operator()() const", "f"));
	assert_false(takes("ff()", "f"));
	assert_false(takes("(f)", ""));
	assert_false(takes(")", ""));
}

static void empty_part_is_explained(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = sample();
	struct fgt_ring_slice *part = NULL;
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(
		fgt_filter_apply(&(struct fgt_filter){ .thread = "other" },
				 slice, &part, &why),
		-ENODATA);
	assert_non_null(strstr(why.text, "worker-1, worker-2, idle"));
	slice->threads[1].name = slice->threads[0].name; /* each name once */
	assert_int_equal(
		fgt_filter_apply(&(struct fgt_filter){ .thread = "other" },
				 slice, &part, &why),
		-ENODATA);
	assert_non_null(strstr(why.text, "are worker-1, idle"));
	assert_int_equal(
		fgt_filter_apply(&(struct fgt_filter){ .state = "read" }, slice,
				 &part, &why),
		-ENODATA);
	assert_non_null(strstr(why.text, "futex"));
	assert_int_equal(count(&(struct fgt_filter){ .function = "none" }), 0);
	assert_null(part);
}

static void assert_explained(const struct fgt_filter *filter, const char *part)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = sample();
	struct fgt_ring_slice *none = NULL;
	struct fgt_why why = { "" };

	assert_int_equal(fgt_filter_apply(filter, slice, &none, &why),
			 -ENODATA);
	assert_non_null(strstr(why.text, part));
}

static void error_names_the_part_that_is_wrong(void **state)
{
	(void)state;
	assert_explained(&(struct fgt_filter){ .thread = "worker-*",
					       .function = "none" },
			 "function like 'none'");
	assert_explained(
		&(struct fgt_filter){ .thread = "worker-*", .state = "read" },
		"states are");
	assert_explained(&(struct fgt_filter){ .thread = "worker-*",
					       .state = "epoll_wait" },
			 "none passes all");
}

static void slice_of_one_tick_passes(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(1);
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	struct fgt_why why = { "" };

	(void)state;
	fixture_run(slice, fixture_thread(slice, 1, "main"), 0, 1,
		    fixture_stack(slice, "main"), FGT_STATE_RUNNING);
	assert_int_equal(fgt_filter_apply(&(struct fgt_filter){ .thread = "1" },
					  slice, &part, &why),
			 0);
	assert_true(fgt_slice_is_valid(part));
	assert_int_equal(part->run_count, 1);
	assert_true(part->effective_hz == slice->effective_hz);
}

/* As a hostile file may have them: one name of 4000 letters, for all nodes. */
static void long_names_of_many_nodes_are_no_slower(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = sample();
	const uint32_t nodes = 20000;
	char name[4000] = "";
	uint32_t frame;
	clock_t start;
	bool *marks;

	(void)state;
	memset(name, 'a', sizeof(name) - 1);
	frame = fixture_frame(slice, name);
	slice->nodes = realloc(slice->nodes, nodes * sizeof(*slice->nodes));
	slice->node_count = nodes;
	for (uint32_t i = 0; i < nodes; i++)
		slice->nodes[i] =
			(struct fgt_slice_node){ FGT_NODE_NONE, frame };
	start = clock();
	assert_int_equal(
		fgt_filter_mark(&(struct fgt_filter){ .function = "*b" }, slice,
				&marks),
		0);
	assert_true(clock() - start < CLOCKS_PER_SEC / 10);
	free(marks);
}

/* Context switches of a whole thread are its own; of a part they are not. */
static void edges_stay_with_whole_threads(void **state)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = sample();
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *thread = NULL;
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *running = NULL;
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(
		fgt_filter_apply(&(struct fgt_filter){ .thread = "worker-1" },
				 slice, &thread, &why),
		0);
	assert_int_equal(thread->edge_count, 1);
	assert_int_equal(
		fgt_filter_apply(&(struct fgt_filter){ .is_running = true },
				 slice, &running, &why),
		0);
	assert_int_equal(running->edge_count, 0);
	assert_int_equal(slice->edge_count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_pass_by_thread_state_and_function),
		cmocka_unit_test(functions_pass_without_their_parameters),
		cmocka_unit_test(empty_part_is_explained),
		cmocka_unit_test(error_names_the_part_that_is_wrong),
		cmocka_unit_test(slice_of_one_tick_passes),
		cmocka_unit_test(long_names_of_many_nodes_are_no_slower),
		cmocka_unit_test(edges_stay_with_whole_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
