/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks made to deceive: over the code of this process, 20,000 snapshots of
 * random words, and loops made by hand. The unwinder must end, stay in its
 * arrays, and report when it did not reach a root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/unwind/view.h"
#include "tests/programs/unwind/unwind_capture.h"
#include "tests/unit/unwind/unwind_mutate.h"

#define MAX_DEPTH 40
#define ROUNDS	  20000
#define CODE_MAX  64

struct fixture {
	struct fgt_image_cache *cache;
	struct fgt_maps *maps;
	struct fgt_unwinder *unwinder;
	uint64_t code[CODE_MAX];
	size_t code_count;
};

static struct mutated mutated;
/* One more than allowed, to see writes beyond the capacity. */
static struct fgt_unwound_frame frames[MAX_DEPTH + 3];

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_non_null(fixture);
	assert_int_equal(fgt_image_cache_new(&fixture->cache), 0);
	assert_int_equal(capture_maps(getpid(), fixture->cache, &fixture->maps),
			 0);
	assert_int_equal(
		fgt_unwinder_new(fixture->cache, MAX_DEPTH, &fixture->unwinder),
		0);
	for (uint32_t i = 0;
	     i < fixture->maps->image_count && fixture->code_count < CODE_MAX;
	     i++)
		fixture->code[fixture->code_count++] =
			fixture->maps->images[i].image.start;
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	fgt_unwinder_free(fixture->unwinder);
	fgt_maps_free(fixture->maps);
	fgt_image_cache_free(fixture->cache);
	free(fixture);
	return 0;
}

static void check_result(const struct fgt_unwind_result *result)
{
	const struct fgt_unwound_frame *last;

	assert_in_range(result->count, 1, MAX_DEPTH + 2);
	last = &frames[result->count - 1];
	assert_int_equal(result->is_complete, !result->reason);
	if (result->is_complete) {
		assert_false(last->flags & FGT_FRAME_MARKER);
	} else {
		assert_int_equal(last->flags, FGT_FRAME_MARKER);
		assert_int_equal(last->pc, result->reason);
		assert_in_range(result->reason, FGT_MARKER_TRUNCATED_NO_CFI,
				FGT_MARKER_COUNT - 1);
	}
	for (size_t i = 0; i + 1 < result->count; i++)
		if (frames[i].flags & FGT_FRAME_MARKER)
			assert_int_equal(frames[i].pc, FGT_MARKER_ELIDED);
	assert_true(result->need_bytes <= FGT_SNAPSHOT_MAX_BYTES);
	assert_int_equal(frames[MAX_DEPTH + 2].pc, 0xfeed);
}

/* Fault U1. */
static void random_stacks_end(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_unwind_result result;
	struct fgt_unwind_stats stats;
	uint8_t bytes[2048];

	srandom(7);
	for (int round = 0; round < ROUNDS; round++) {
		size_t len = 64 + (size_t)random() % (sizeof(bytes) - 64);

		for (size_t i = 0; i < len; i++)
			bytes[i] = (uint8_t)random();
		mutate(bytes, len, fixture->code, fixture->code_count,
		       &mutated);
		frames[MAX_DEPTH + 2].pc = 0xfeed;
		fgt_unwind(fixture->unwinder, fixture->maps, &mutated.snapshot,
			   frames, MAX_DEPTH + 2, &result);
		check_result(&result);
	}
	fgt_unwinder_get_stats(fixture->unwinder, &stats);
	assert_int_equal(stats.stacks, ROUNDS);
	/* Next to none of them is a stack. */
	assert_true(stats.complete < ROUNDS / 50);
}

/* A frame pointer that points at itself, below itself, beside the grid. */
static void frame_pointer_loops_are_left(void **state)
{
	static const int64_t offsets[] = { 0, -16, 1, 8, -8 };
	struct fixture *fixture = *state;
	struct fgt_regs *regs = &mutated.snapshot.regs;
	struct fgt_unwind_result result;

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		const uint8_t nothing[] = { 0 };
		uint64_t fp = MUTATE_STACK_AT + 256;

		mutate(nothing, 1, NULL, 0, &mutated);
		fgt_regs_set(regs, fgt_arch_host.sp, MUTATE_STACK_AT);
		fgt_regs_set(regs, fgt_arch_host.fp, fp);
		fgt_regs_set(regs, fgt_arch_host.pc,
			     (uint64_t)(uintptr_t)frame_pointer_loops_are_left +
				     40);
		for (size_t at = 0; at + 1 < MUTATE_STACK_WORDS; at += 2) {
			mutated.stack[at] = fp + (uint64_t)offsets[i];
			mutated.stack[at + 1] =
				(uint64_t)(uintptr_t)set_up + 40;
		}
		frames[MAX_DEPTH + 2].pc = 0xfeed;
		fgt_unwind(fixture->unwinder, fixture->maps, &mutated.snapshot,
			   frames, MAX_DEPTH + 2, &result);
		check_result(&result);
		assert_false(result.is_complete);
	}
}

/* A signal frame whose saved SP leads back to itself. */
static void signal_frame_loops_are_left(void **state)
{
	struct fixture *fixture = *state;
	const uint8_t nothing[] = { 0 };
	struct fgt_regs *regs = &mutated.snapshot.regs;
	struct fgt_unwind_result result;
	uint64_t restorer = 0;
	uint8_t code[16];

	/* libc's __restore_rt, by its bytes. */
	for (uint32_t i = 0; i < fixture->maps->image_count; i++) {
		const struct fgt_image *image = &fixture->maps->images[i].image;
		struct fgt_image_file *file = fixture->maps->images[i].file;

		for (uint64_t at = 0;
		     file && !restorer && at < image->end - image->start;
		     at += 16)
			if (fgt_image_file_read(file, at, code, 16) == 16 &&
			    fgt_arch_host.is_sigreturn(code, 16))
				restorer = image->bias + at;
	}
	assert_true(restorer != 0);
	mutate(nothing, 1, NULL, 0, &mutated);
	for (size_t i = 0; i < MUTATE_STACK_WORDS; i++)
		mutated.stack[i] = MUTATE_STACK_AT + 64;
	for (unsigned int reg = 0; reg < fgt_arch_host.reg_count; reg++)
		fgt_regs_set(regs, reg, MUTATE_STACK_AT);
	mutated.stack[(64 + fgt_arch_host.sigreturn_offset(fgt_arch_host.pc)) /
		      8] = restorer;
	mutated.stack[fgt_arch_host.sigreturn_offset(fgt_arch_host.pc) / 8] =
		restorer;
	fgt_regs_set(regs, fgt_arch_host.pc, restorer);
	frames[MAX_DEPTH + 2].pc = 0xfeed;
	fgt_unwind(fixture->unwinder, fixture->maps, &mutated.snapshot, frames,
		   MAX_DEPTH + 2, &result);
	check_result(&result);
	assert_false(result.is_complete);
}

/* A file may ask for endless work at every frame: of a stack it gets as much
 * as libunwind may do for it. */
static void rows_are_read_for_a_bounded_work(void **state)
{
	const uint64_t address = (uint64_t)(uintptr_t)set_up;
	struct fixture *fixture = *state;
	struct fgt_view_places places = { 0 };
	struct fgt_cfi_row row;
	struct fgt_view view;
	unsigned int at = 0;

	fgt_view_init(&view, fixture->maps, &mutated.snapshot, &places,
		      fgt_image_cache_rows(fixture->cache));
	view.accesses = FGT_VIEW_ACCESSES_MAX + 1;
	row = fgt_view_find_row(&view, address);
	assert_int_equal(row.flags, FGT_CFI_ROW_COMPLEX);
	view.accesses = 0;
	/* The next stack is not to blame. */
	row = fgt_view_find_row(&view, address);
	assert_true(row.flags < FGT_CFI_ROW_ROOT);
	for (unsigned int i = 1; i < 16; i++) {
		at = view.accesses;
		fgt_view_find_row(&view, address + i);
		assert_true(view.accesses > at);
	}
	/* What is kept is for nothing. */
	at = view.accesses;
	fgt_view_find_row(&view, address);
	assert_int_equal(view.accesses, at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(random_stacks_end, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(frame_pointer_loops_are_left,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(signal_frame_loops_are_left,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			rows_are_read_for_a_bounded_work, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
