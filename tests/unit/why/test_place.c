/* SPDX-License-Identifier: Apache-2.0 */
/* Which function of a stack is the program's; names of groups of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ringbuf/slice_fixture.h"
#include "upload/why/group.h"
#include "upload/why/place.h"

static void assert_place(const char *stack, const char *function,
			 const char *call)
{
	struct fgt_ring_slice *slice = fixture_new(2);
	uint32_t node = fixture_stack(slice, stack);
	struct fgt_place *places, place;

	assert_int_equal(fgt_places_new(slice, &places), 0);
	place = fgt_place_of(places, node);
	free(places);
	assert_string_equal(fgt_slice_string(slice, place.function), function);
	assert_string_equal(fgt_slice_string(slice, place.call), call);
	fgt_ring_slice_free(slice);
}

static void innermost_function_of_program_is_found(void **state)
{
	(void)state;
	assert_place("_start;libc.so.6!__libc_start_main;main;work", "work",
		     "");
	assert_place("libc.so.6!clone3;libc.so.6!start_thread;serve;lookup;"
		     "libc.so.6!pthread_mutex_lock;libc.so.6!__lll_lock_wait",
		     "lookup", "pthread_mutex_lock");
	assert_place("main;work;#1", "work", "");
}

static void run_time_of_languages_is_not_the_program(void **state)
{
	(void)state;
	assert_place("main;push_all;void std::__push_heap<int*>(int*)",
		     "push_all", "void std::__push_heap<int*>(int*)");
	assert_place("main;std::vector<int, std::allocator<int> > "
		     "app::make<int>(int);std::sort<int*>(int*)",
		     "std::vector<int, std::allocator<int> > "
		     "app::make<int>(int)",
		     "std::sort<int*>(int*)");
	assert_place("main;bool std::operator< <char>(int)", "main",
		     "bool std::operator< <char>(int)");
	assert_place("main;take(std::string);core::ptr::drop",
		     "take(std::string)", "core::ptr::drop");
	assert_place("main.serve;runtime.gopark", "main.serve",
		     "runtime.gopark");
}

/* A call that was inlined is a call. */
static void inlined_callers_are_callers(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(2);
	const struct fgt_symbol_text texts[] = { { .function = "parse" },
						 { .function = "serve" } };
	uint32_t main_node = fixture_stack(slice, "main");
	uint32_t frame = fixture_marker(slice, 0), node;
	struct fgt_place *places, place;

	(void)state;
	slice->frames[frame].frame.flags = 0;
	assert_int_equal(fgt_slice_add_symbols(slice, frame, texts, 2), 0);
	node = fixture_node(slice, main_node, frame);
	assert_int_equal(fgt_places_new(slice, &places), 0);
	place = fgt_place_of(places, node);
	free(places);
	assert_string_equal(fgt_slice_string(slice, place.function), "parse");
	assert_string_equal(fgt_slice_string(slice, place.callers[0]), "serve");
	assert_string_equal(fgt_slice_string(slice, place.callers[1]), "main");
	fgt_ring_slice_free(slice);
}

static void stack_without_program_has_its_leaf(void **state)
{
	(void)state;
	assert_place("_start;libc.so.6!start_thread;libc.so.6!nanosleep",
		     "nanosleep", "");
	assert_place("#6", "", "");
}

static void paths_of_libraries_are_known(void **state)
{
	(void)state;
	assert_true(fgt_place_is_library("/lib/x86_64-linux-gnu/libc.so.6"));
	assert_true(fgt_place_is_library("/lib64/ld-linux-x86-64.so.2"));
	assert_true(fgt_place_is_library("[vdso]"));
	assert_false(fgt_place_is_library("/usr/lib/libcrypto.so.3"));
	assert_false(fgt_place_is_library("/opt/libc.so.6/app"));
}

static void numbers_in_names_become_stars(void **state)
{
	char pattern[FGT_GROUP_NAME_MAX];

	(void)state;
	assert_string_equal(fgt_group_pattern("conn-1996", pattern), "conn-*");
	assert_string_equal(fgt_group_pattern("io2:3-x", pattern), "io*:*-x");
	assert_string_equal(fgt_group_pattern("main", pattern), "main");
	assert_string_equal(fgt_group_pattern("", pattern), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(innermost_function_of_program_is_found),
		cmocka_unit_test(run_time_of_languages_is_not_the_program),
		cmocka_unit_test(inlined_callers_are_callers),
		cmocka_unit_test(stack_without_program_has_its_leaf),
		cmocka_unit_test(paths_of_libraries_are_known),
		cmocka_unit_test(numbers_in_names_become_stars),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
