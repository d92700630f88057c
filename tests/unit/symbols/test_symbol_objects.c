/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the names of data: what the addresses of waits are in; truth comes
 * from nm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "agent/symbols/lock_names.h"
#include "tests/unit/ringbuf/slice_fixture.h"
#include "tests/unit/symbols/symbols_kit.h"

#define INLINES FGT_PROGRAMS "/symbols-inlines"
#define BIAS	0x7f0000000000
#define WAITS	4

/* Of the image at BIAS, which ends where its data without content begin. */
static struct fgt_ring_slice *
slice_of(const char *path, const uint64_t addresses[WAITS], uint64_t end)
{
	struct fgt_ring_slice *slice = kit_slice_of(path);

	slice->images[0].bias = slice->images[0].start = BIAS;
	slice->images[0].end = BIAS + end;
	slice->waits = calloc(WAITS, sizeof(*slice->waits));
	assert_non_null(slice->waits);
	slice->wait_count = WAITS;
	for (uint32_t i = 0; i < WAITS; i++)
		slice->waits[i].address = addresses[i];
	return slice;
}

static void resolve(const struct fgt_symbolizer_options *options,
		    struct fgt_ring_slice *slice)
{
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(options);

	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, true), 0);
}

static void expect(const struct fgt_ring_slice *slice, uint32_t wait,
		   const char *object)
{
	assert_string_equal(fgt_slice_string(slice, slice->waits[wait].object),
			    object);
}

static void
address_of_a_wait_is_named_by_the_object_that_covers_it(void **state)
{
	uint64_t anchor = kit_address_of(INLINES, "anchor");
	const uint64_t addresses[WAITS] = { BIAS + anchor, BIAS + anchor + 4, 0,
					    BIAS + anchor + 8 };
	struct fgt_ring_slice *slice = slice_of(INLINES, addresses, anchor);

	(void)state;
	resolve(NULL, slice);
	expect(slice, 0, "anchor");
	expect(slice, 1, "anchor+0x4");
	expect(slice, 2, "");
	/* Behind the last object, and behind the file. */
	expect(slice, 3, "");
	kit_slice_free(slice);
}

static void object_of_a_stripped_file_is_named_by_its_debug_file(void **state)
{
	static const char *const dirs[] = { FGT_PROGRAMS "/by-id" };
	const struct fgt_symbolizer_options options = { .debug_dirs = dirs,
							.debug_dir_count = 1 };
	uint64_t anchor = kit_address_of(INLINES, "anchor");
	const uint64_t addresses[WAITS] = { BIAS + anchor };
	struct fgt_ring_slice *slice =
		slice_of(FGT_PROGRAMS "/stripped", addresses, anchor);

	(void)state;
	resolve(&options, slice);
	expect(slice, 0, "anchor");
	kit_slice_free(slice);
}

static void address_without_an_object_is_image_and_offset(void **state)
{
	uint64_t anchor = kit_address_of(INLINES, "anchor");
	const uint64_t addresses[WAITS] = { BIAS + anchor, BIAS + 0x10,
					    BIAS - 1, BIAS + anchor + 4096 };
	struct fgt_ring_slice *slice =
		slice_of(FGT_PROGRAMS "/stripped", addresses, anchor + 4096);
	char text[64];

	(void)state;
	resolve(NULL, slice);
	snprintf(text, sizeof(text), "stripped+0x%llx",
		 (unsigned long long)anchor);
	expect(slice, 0, text);
	expect(slice, 1, "stripped+0x10");
	expect(slice, 2, "");
	expect(slice, 3, "");
	kit_slice_free(slice);
}

/* Its .symtab is stripped. */
static void object_of_a_library_is_named_by_its_dynamic_symbols(void **state)
{
	FGT_AUTO(free) void *path = NULL;
	struct fgt_ring_slice *slice;
	uint64_t addresses[WAITS] = { 0 };
	Dl_info libc;

	(void)state;
	assert_true(dladdr((void *)(uintptr_t)getpid, &libc));
	path = realpath(libc.dli_fname, NULL);
	addresses[0] = kit_address_of(path, "_IO_2_1_stdout_");
	addresses[1] = BIAS + addresses[0] + 16;
	addresses[0] += BIAS;
	slice = slice_of(path, addresses, addresses[1] - BIAS + 4096);
	resolve(NULL, slice);
	expect(slice, 0, "_IO_2_1_stdout_");
	expect(slice, 1, "_IO_2_1_stdout_+0x10");
	kit_slice_free(slice);
}

static pthread_mutex_t own_lock[2];

/* No helper, and the mappings as they are. */
static void objects_and_heap_of_this_process_are_named(void **state)
{
	const struct fgt_symbolizer_options options = { .is_local = true };
	char *path = realpath("/proc/self/exe", NULL);
	uint64_t address = kit_address_of(path, "own_lock");
	uint64_t bias = (uint64_t)(uintptr_t)own_lock - address;
	const uint64_t addresses[WAITS] = {
		bias + address + sizeof(own_lock[0]),
		/* A sanitizer's malloc() has another heap. */
		(uint64_t)(uintptr_t)sbrk(64),
		(uint64_t)(uintptr_t)__builtin_frame_address(0),
	};
	struct fgt_ring_slice *slice = slice_of(path, addresses, 0);
	char text[64];

	(void)state;
	slice->images[0].bias = slice->images[0].start = bias;
	slice->images[0].end = bias + 4096;
	resolve(&options, slice);
	expect(slice, 0, "own_lock+0x28");
	expect(slice, 1, "heap");
	snprintf(text, sizeof(text), "stack of thread %d", getpid());
	expect(slice, 2, text);
	expect(slice, 3, "");
	kit_slice_free(slice);
	free(path);
}

static void lock_without_an_owner_is_known_by_its_function(void **state)
{
	static const struct {
		const char *stack;
		uint32_t kind;
	} waits[] = {
		{ "main;<std::sys::sync::mutex::futex::Mutex>::lock_contended;"
		  "std::sys::pal::unix::futex::futex_wait;libc.so.6!syscall",
		  FGT_WAIT_MUTEX },
		{ "main;parking_lot::raw_mutex::RawMutex::lock_slow::h0f;"
		  "libc.so.6!syscall",
		  FGT_WAIT_MUTEX },
		{ "main;std::sys::sync::condvar::futex::Condvar::wait_optional"
		  "_timeout;libc.so.6!syscall",
		  FGT_WAIT_NOTIFICATION },
		{ "main;__pthread_mutex_lock_full;__futex_abstimed_wait_common",
		  FGT_WAIT_PI_LOCK },
		{ "main;__pthread_mutex_lock_full;futex_wait",
		  FGT_WAIT_NOTIFICATION },
	};
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(10);
	uint32_t thread = fixture_thread(slice, 1, "t");

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		fixture_run(slice, thread, 2 * i, 1,
			    fixture_stack(slice, waits[i].stack),
			    FIXTURE_FUTEX);
		fixture_wait(slice, FGT_WAIT_NOTIFICATION, 0, "")->address = 8;
	}
	fgt_lock_names_apply(slice);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(slice->waits[i].kind, waits[i].kind);
	assert_true(fgt_wait_is_refused(&slice->waits[3]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			address_of_a_wait_is_named_by_the_object_that_covers_it),
		cmocka_unit_test(
			object_of_a_stripped_file_is_named_by_its_debug_file),
		cmocka_unit_test(
			object_of_a_library_is_named_by_its_dynamic_symbols),
		cmocka_unit_test(address_without_an_object_is_image_and_offset),
		cmocka_unit_test(objects_and_heap_of_this_process_are_named),
		cmocka_unit_test(
			lock_without_an_owner_is_known_by_its_function),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
