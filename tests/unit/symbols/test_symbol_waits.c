/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of what waits for a helper that does not answer, and what does not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"
#include "tests/unit/symbols/symbols_kit.h"

#define SHAPE FGT_PROGRAMS "/shapes-plain"
#define OTHER FGT_PROGRAMS "/shapes-dwarf4"

static char folder[] = "/tmp/fgt-waits-XXXXXX";

/* Puts a helper that does not answer there. */
static void write_silent(char path[128])
{
	FILE *file;

	snprintf(path, 128, "%s/silent", folder);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs("#!/bin/sh\nexec sleep 100\n", file);
	fclose(file);
	assert_int_equal(chmod(path, 0755), 0);
}

static bool is_left(void *context)
{
	return ++*(int *)context > 2;
}

static void helper_of_a_client_that_left_is_stopped(void **state)
{
	char silent[128];
	const struct fgt_symbolizer_options options = { .helper_path = silent };
	FGT_AUTO(fgt_symbolizer_free) struct fgt_symbolizer *symbolizer = NULL;
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_slice_of(SHAPE);
	int asked = 0;
	const struct fgt_symbolizer_cancel cancel = { is_left, &asked };
	uint64_t start_ns = fgt_clock_ns(CLOCK_MONOTONIC);

	(void)state;
	write_silent(silent);
	symbolizer = kit_symbolizer(&options);
	kit_add_frame(slice, 1, 0x1234, 0);
	assert_int_equal(
		fgt_symbolizer_resolve_until(symbolizer, slice, true, &cancel),
		-ECANCELED);
	assert_int_equal(asked, 3);
	/* Not the 7 s that a helper may take. */
	assert_true(fgt_clock_ns(CLOCK_MONOTONIC) - start_ns < 5000000000u);
	assert_int_equal(unlink(silent), 0);
}

/* A slice of user 1, whose helper does not answer. */
static void *resolve_slowly(void *context)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_slice_of(OTHER);

	slice->process.uid = 1;
	kit_add_frame(slice, 1, 0x1234, 0);
	assert_int_equal(fgt_symbolizer_resolve(context, slice, true), 0);
	return NULL;
}

static void slow_file_of_a_user_does_not_delay_another_user(void **state)
{
	char silent[128], self[4096] = "";
	const struct fgt_symbolizer_options options = {
		.helper_path = silent,
		.wait_max_ms = 4000,
	};
	FGT_AUTO(fgt_symbolizer_free) struct fgt_symbolizer *symbolizer = NULL;
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_slice_of(SHAPE);
	pthread_t thread;
	uint64_t start_ns;

	(void)state;
	write_silent(silent);
	symbolizer = kit_symbolizer(&options);
	assert_int_equal(
		pthread_create(&thread, NULL, resolve_slowly, symbolizer), 0);
	usleep(500000);
	/* The next helper that starts is a real one. */
	assert_int_equal(unlink(silent), 0);
	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	assert_int_equal(symlink(self, silent), 0);
	start_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	slice->process.uid = 2;
	kit_add_frame(slice, 1, kit_address_of(SHAPE, "main"), 0);
	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, true), 0);
	assert_string_equal(kit_function(slice, 0, 0), "main");
	assert_true(fgt_clock_ns(CLOCK_MONOTONIC) - start_ns < 2500000000u);
	pthread_join(thread, NULL);
	assert_int_equal(unlink(silent), 0);
}

/* More users than helpers: the first ones are forgotten, and named again. */
static void every_user_is_named_past_the_number_of_helpers(void **state)
{
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(NULL);

	(void)state;
	for (int i = 0; i < 24; i++) {
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *slice = kit_slice_of(SHAPE);

		slice->process.uid = (uint32_t)(i % 12);
		kit_add_frame(slice, 1, kit_address_of(SHAPE, "main"), 0);
		assert_int_equal(
			fgt_symbolizer_resolve(symbolizer, slice, true), 0);
		assert_string_equal(kit_function(slice, 0, 0), "main");
	}
}

static int make_folder(void **state)
{
	(void)state;
	return !mkdtemp(folder);
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(helper_of_a_client_that_left_is_stopped),
		cmocka_unit_test(
			slow_file_of_a_user_does_not_delay_another_user),
		cmocka_unit_test(
			every_user_is_named_past_the_number_of_helpers),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
