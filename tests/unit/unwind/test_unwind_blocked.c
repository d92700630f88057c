/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of blocked threads from what procfs has (SP and PC): ten kinds of
 * blocking call, depths 10 to 60, seven ways of building the code. Every stack
 * must be complete and the very chain of calls.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/programs/unwind/unwind_capture.h"
#include "tests/unit/unwind/unwind_child.h"

#define MAX_DEPTH 256

static struct captured captured;
static struct fgt_unwound_frame frames[MAX_DEPTH + 2];

/*
 * frames, without what the C library adds at both ends, must be: the kind's
 * function, the chain's two functions in turn, thread_main.
 */
static bool is_known_chain(const struct child *child,
			   const struct child_thread *thread,
			   const struct fgt_unwind_result *result)
{
	size_t at = 0, left;
	int depth;

	while (at < result->count && !*child_function_at(child, &frames[at]))
		at++;
	if (at == result->count ||
	    strcmp(child_function_at(child, &frames[at++]), thread->kind) != 0)
		return false;
	for (depth = 0; depth <= thread->depth && at < result->count; depth++) {
		/* The last one called has depth 0; the first is chain_a. */
		bool is_a = (thread->depth - depth) % 2 == 0;

		if (strcmp(child_function_at(child, &frames[at++]),
			   is_a ? "chain_a" : "chain_b") != 0)
			return false;
	}
	if (at == result->count ||
	    strcmp(child_function_at(child, &frames[at++]), "thread_main") != 0)
		return false;
	/* start_thread and clone3. */
	for (left = 0; at < result->count; at++, left++)
		if (*child_function_at(child, &frames[at]) ||
		    !(frames[at].flags & FGT_FRAME_CALLER))
			return false;
	return left == 2 && result->is_complete;
}

static bool check_thread(const struct child *child,
			 const struct child_thread *thread, bool is_last_try)
{
	struct fgt_unwind_result result;

	if (capture_by_syscall(child->pid, thread->tid, false, &captured) < 0)
		return false;
	capture_unwind(child->pid, child->unwinder, child->maps, &captured,
		       frames, MAX_DEPTH + 2, &result);
	if (is_known_chain(child, thread, &result))
		return true;
	if (is_last_try) {
		print_message("%s depth %d: ", thread->kind, thread->depth);
		child_print_stack(child, frames, &result);
	}
	return false;
}

static void check_program(const char *program)
{
	struct fgt_unwind_stats stats;
	struct child child;
	size_t good = 0;

	child_start(&child, program, "6", MAX_DEPTH);
	assert_int_equal(child.thread_count, 60);
	for (size_t i = 0; i < child.thread_count; i++) {
		bool is_good = false;

		/* Some may be on their way into the call yet. */
		for (int try = 0; try < 50 && !is_good; try++) {
			is_good = check_thread(&child, &child.threads[i],
					       try == 49);
			if (!is_good)
				usleep(2000);
		}
		good += is_good;
	}
	fgt_unwinder_get_stats(child.unwinder, &stats);
	print_message("%s: %zu of %zu, frame pointer needed %lu, recovered "
		      "%lu\n",
		      program, good, child.thread_count,
		      (unsigned long)stats.fp_needed,
		      (unsigned long)stats.fp_recovered);
	child_stop(&child);
	assert_int_equal(good, 60);
}

static void code_with_frame_pointers_is_complete(void **state)
{
	(void)state;
	check_program("unwind_fp");
}

static void code_without_frame_pointers_is_complete(void **state)
{
	(void)state;
	check_program("unwind_nofp");
}

static void mixed_code_is_complete(void **state)
{
	(void)state;
	check_program("unwind_mixed_a");
	check_program("unwind_mixed_b");
}

static void code_without_search_table_is_complete(void **state)
{
	(void)state;
	check_program("unwind_no_hdr");
}

static void code_with_compressed_debug_frame_only_is_complete(void **state)
{
	(void)state;
	check_program("unwind_debug_frame");
}

static void code_without_any_rules_is_walked_by_frame_pointer(void **state)
{
	(void)state;
	check_program("unwind_no_cfi");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_with_frame_pointers_is_complete),
		cmocka_unit_test(code_without_frame_pointers_is_complete),
		cmocka_unit_test(mixed_code_is_complete),
		cmocka_unit_test(code_without_search_table_is_complete),
		cmocka_unit_test(
			code_with_compressed_debug_frame_only_is_complete),
		cmocka_unit_test(
			code_without_any_rules_is_walked_by_frame_pointer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
