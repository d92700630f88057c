/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks that are not just calls: signal handlers on either stack, calls
 * through a null pointer, code without a file, recursion beyond the depth
 * that is kept, code in the vDSO.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "agent/unwind/cfi/cfi_table.h"
#include "tests/programs/unwind/unwind_capture.h"
#include "tests/unit/unwind/unwind_child.h"

#define MAX_DEPTH 60 /* 50 of the leaf part, 10 of the root part */

static struct captured captured __attribute__((aligned(8)));
static struct fgt_unwound_frame frames[MAX_DEPTH + 2];

static const struct child_thread *find_thread(const struct child *child,
					      const char *kind)
{
	for (size_t i = 0; i < child->thread_count; i++)
		if (!strcmp(child->threads[i].kind, kind))
			return &child->threads[i];
	fail_msg("no thread %s", kind);
	return NULL;
}

/* Unwinds the thread of that kind, as a blocked one. */
static void unwind_with_args(const struct child *child, const char *kind,
			     bool has_args,
			     struct fgt_unwind_result *ret_result)
{
	const struct child_thread *thread = find_thread(child, kind);
	int r = -1;

	/* It has counted itself, but may be on its way into read yet. */
	for (int i = 0; i < 500 && r < 0; i++) {
		r = capture_by_syscall(child->pid, thread->tid, has_args,
				       &captured);
		if (r < 0)
			usleep(2000);
	}
	assert_int_equal(r, 0);
	capture_unwind(child->pid, child->unwinder, child->maps, &captured,
		       frames, MAX_DEPTH + 2, ret_result);
}

static void unwind_blocked(const struct child *child, const char *kind,
			   struct fgt_unwind_result *ret_result)
{
	unwind_with_args(child, kind, false, ret_result);
}

/* The named functions in their order, without repetitions and other functions.
 * */
static void check_chain(const struct child *child,
			const struct fgt_unwind_result *result,
			const char *const *names, size_t count)
{
	const char *name, *last = "";
	size_t at = 0;
	bool is_good = true;

	for (size_t i = 0; i < result->count; i++) {
		name = frames[i].flags & FGT_FRAME_MARKER
			       ? ""
			       : child_function_at(child, &frames[i]);
		if (!*name || !strcmp(name, last))
			continue;
		is_good = is_good && at < count && !strcmp(name, names[at]);
		at++;
		last = name;
	}
	if (!is_good || at != count || !result->is_complete)
		child_print_stack(child, frames, result);
	assert_true(is_good);
	assert_int_equal(at, count);
	assert_true(result->is_complete);
}

/* The trampoline and what it interrupted: both addresses are exact. */
static void check_exact_frames(const struct fgt_unwind_result *result)
{
	size_t exact = 0;

	for (size_t i = 1; i < result->count; i++)
		exact += frames[i].flags == 0;
	assert_int_equal(exact, 2);
}

/* Of a thread that runs, the interrupted stack is read later: what comes after
 * the interrupted frame. */
static void check_other_later(const struct child *child,
			      struct fgt_unwind_result *result)
{
	assert_int_equal(result->later_first, 0);
	captured.snapshot.is_other_later = true;
	fgt_unwind(child->unwinder, child->maps, &captured.snapshot, frames,
		   MAX_DEPTH + 2, result);
	assert_true(result->is_complete);
	assert_true(result->is_later_checked);
	assert_true(result->later_first > 2);
	assert_int_equal(frames[result->later_first - 1].flags, 0);
	assert_int_equal(frames[result->later_first].flags, FGT_FRAME_CALLER);
}

static void check_signals(const char *program)
{
	static const char *const chain[] = { "wait_here", "handler",
					     "interrupted", "thread_main" };
	static const char *const null_chain[] = { "wait_here", "handler",
						  "call_null", "thread_main" };
	struct fgt_unwind_result result;
	struct child child;

	child_start(&child, program, NULL, MAX_DEPTH);
	unwind_blocked(&child, "same", &result);
	check_chain(&child, &result, chain, 4);
	check_exact_frames(&result);
	unwind_blocked(&child, "alternate", &result);
	check_chain(&child, &result, chain, 4);
	check_exact_frames(&result);
	check_other_later(&child, &result);
	unwind_blocked(&child, "null", &result);
	check_chain(&child, &result, null_chain, 4);
	child_stop(&child);
}

/* Fault U9. */
static void signal_frames_are_crossed(void **state)
{
	(void)state;
	check_signals("unwind_signals_fp");
	check_signals("unwind_signals_nofp");
}

static void code_without_a_file_is_crossed(void **state)
{
	static const char *const chain[] = { "wait_here", "through_jit",
					     "thread_main" };
	struct fgt_unwind_result result;
	const struct fgt_mapping *mapping;
	struct child child;

	(void)state;
	child_start(&child, "unwind_signals_fp", NULL, MAX_DEPTH);
	unwind_blocked(&child, "jit", &result);
	check_chain(&child, &result, chain, 3);
	mapping = fgt_maps_find(child.maps, frames[2].pc);
	assert_non_null(mapping);
	assert_int_equal(mapping->image, FGT_MAPS_NO_IMAGE);
	child_stop(&child);
}

/* Fault U10: it has no frame, and the frame pointer is its caller's. */
static void check_jit_leaf(const char *program)
{
	static const char *const chain[] = { "into_jit", "thread_main" };
	struct fgt_unwind_result result;
	const struct fgt_mapping *mapping;
	struct child child;

	child_start(&child, program, NULL, MAX_DEPTH);
	unwind_blocked(&child, "jit-leaf", &result);
	check_chain(&child, &result, chain, 2);
	mapping = fgt_maps_find(child.maps, frames[0].pc);
	assert_non_null(mapping);
	assert_int_equal(mapping->image, FGT_MAPS_NO_IMAGE);
	child_stop(&child);
}

static void leaf_without_a_file_has_its_callers(void **state)
{
	(void)state;
	check_jit_leaf("unwind_signals_fp");
	check_jit_leaf("unwind_signals_nofp");
}

/* A word at SP that no call has left is not taken for a caller. */
static void leaf_without_rules_and_callers_is_truncated(void **state)
{
	struct fgt_unwind_result result;
	struct child child;
	uint64_t word;

	(void)state;
	child_start(&child, "unwind_signals_nofp", NULL, MAX_DEPTH);
	unwind_blocked(&child, "jit-leaf", &result);
	memcpy(&word, captured.stack, sizeof(word));
	word++;
	memcpy(captured.stack, &word, sizeof(word));
	fgt_regs_set(&captured.snapshot.regs, fgt_arch_host.fp, 1);
	fgt_unwind(child.unwinder, child.maps, &captured.snapshot, frames,
		   MAX_DEPTH + 2, &result);
	assert_false(result.is_complete);
	assert_int_equal(result.count, 2);
	assert_int_equal(frames[1].flags, FGT_FRAME_MARKER);
	child_stop(&child);
}

static void check_suspended(const char *program)
{
	static const char *const by_vfork[] = { "by_vfork", "thread_main" };
	static const char *const by_clone[] = { "by_clone", "thread_main" };
	struct fgt_unwind_result result;
	struct child child;

	child_start(&child, program, NULL, MAX_DEPTH);
	unwind_blocked(&child, "clone", &result);
	check_chain(&child, &result, by_clone, 2);
	/* Its return address is in a register that holds an argument. */
	unwind_blocked(&child, "vfork", &result);
	assert_false(result.is_complete);
	assert_true(result.need_args);
	unwind_with_args(&child, "vfork", true, &result);
	check_chain(&child, &result, by_vfork, 2);
	child_stop(&child);
}

static void parent_that_waits_for_its_child_has_its_callers(void **state)
{
	(void)state;
	check_suspended("unwind_signals_fp");
	check_suspended("unwind_signals_nofp");
}

/* Fault U2. */
static void both_ends_of_deep_recursion_are_kept(void **state)
{
	struct fgt_unwind_result result;
	struct fgt_unwind_stats stats;
	struct child child;

	(void)state;
	child_start(&child, "unwind_signals_nofp", NULL, MAX_DEPTH);
	unwind_blocked(&child, "deep", &result);
	assert_true(result.is_complete);
	assert_int_equal(result.count, MAX_DEPTH + 1);
	assert_int_equal(frames[50].flags, FGT_FRAME_MARKER);
	assert_int_equal(frames[50].pc, FGT_MARKER_ELIDED);
	assert_string_equal(child_function_at(&child, &frames[1]), "wait_here");
	assert_string_equal(child_function_at(&child, &frames[49]), "deep");
	assert_string_equal(child_function_at(&child, &frames[51]), "deep");
	assert_string_equal(child_function_at(&child, &frames[58]),
			    "thread_main");
	/* It took several calls with more stack, and counts as one. */
	fgt_unwinder_get_stats(child.unwinder, &stats);
	assert_int_equal(stats.stacks, 1);
	assert_int_equal(stats.complete, 1);
	child_stop(&child);
}

#define PIECE_BYTES 8192u

/* Goes on with the piece of the stack that lies there. */
static void go_on(const struct child *child, uint64_t start, bool is_later,
		  struct fgt_unwind_result *result)
{
	const struct fgt_snapshot *whole = &captured.snapshot;
	size_t at = start - whole->stack_start;
	struct fgt_snapshot piece = {
		.stack = captured.stack + at,
		.stack_start = start,
		.stack_len = whole->stack_len - at,
		.stack_limit = whole->stack_limit,
	};

	if (piece.stack_len > PIECE_BYTES)
		piece.stack_len = PIECE_BYTES;
	fgt_unwind_go_on(child->unwinder, child->maps, &piece, is_later,
			 result);
}

/* The stack of "deep", of which the first snapshot has only so much. */
static void unwind_first_piece(const struct child *child,
			       struct fgt_unwind_result *result)
{
	size_t len;

	unwind_blocked(child, "deep", result);
	assert_true(result->is_complete);
	len = captured.snapshot.stack_len;
	assert_true(len > 4 * PIECE_BYTES);
	captured.snapshot.stack_len = PIECE_BYTES;
	fgt_unwind(child->unwinder, child->maps, &captured.snapshot, frames,
		   MAX_DEPTH + 2, result);
	captured.snapshot.stack_len = len;
	assert_int_equal(result->reason, FGT_MARKER_TRUNCATED_NO_STACK);
	assert_int_equal(result->later_first, 0);
}

/* Fault U2. */
static void stack_is_unwound_in_pieces(void **state)
{
	static struct fgt_unwound_frame whole[MAX_DEPTH + 2];
	struct fgt_unwind_result result;
	struct fgt_unwind_stats stats;
	struct child child;
	uint64_t last_sp = 0;
	size_t count;

	(void)state;
	child_start(&child, "unwind_signals_nofp", NULL, MAX_DEPTH);
	unwind_blocked(&child, "deep", &result);
	count = result.count;
	memcpy(whole, frames, sizeof(whole));
	unwind_first_piece(&child, &result);
	while (!result.is_complete) {
		assert_true(result.next_sp > last_sp);
		last_sp = result.next_sp;
		go_on(&child, last_sp, false, &result);
	}
	assert_int_equal(result.count, count);
	assert_int_equal(result.later_first, 0);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(frames[i].pc, whole[i].pc);
		assert_int_equal(frames[i].flags, whole[i].flags);
	}
	/* That one, twice whole and once in pieces. */
	fgt_unwinder_get_stats(child.unwinder, &stats);
	assert_int_equal(stats.stacks, 3);
	assert_int_equal(stats.complete, 3);
	child_stop(&child);
}

static void go_on_later(const struct child *child,
			struct fgt_unwind_result *result)
{
	uint64_t last_sp = 0;

	while (result->next_sp > last_sp) {
		last_sp = result->next_sp;
		go_on(child, last_sp - FGT_UNWIND_OVERLAP_BYTES, true, result);
	}
}

/* The last such word in so many bytes of the stack. */
static uint64_t *find_word(size_t len, uint64_t word)
{
	uint64_t *slot = (uint64_t *)(void *)captured.stack + len / 8 - 1;

	while (*slot != word)
		slot--;
	return slot;
}

static void part_that_is_read_later_is_checked(void **state)
{
	struct fgt_unwind_result result;
	uint64_t recursive, from_wait, *slot;
	struct child child;

	(void)state;
	child_start(&child, "unwind_signals_nofp", NULL, MAX_DEPTH);
	unwind_first_piece(&child, &result);
	go_on_later(&child, &result);
	assert_true(result.is_complete);
	assert_true(result.is_later_checked);
	assert_int_equal(result.later_first, 51);
	/* Near the root, the call did not lead to the frame before it. */
	unwind_first_piece(&child, &result);
	recursive = frames[49].pc;
	from_wait = frames[2].pc;
	assert_true(recursive != from_wait);
	slot = find_word(captured.snapshot.stack_len, recursive);
	*slot = from_wait;
	go_on_later(&child, &result);
	assert_true(result.is_complete);
	assert_false(result.is_later_checked);
	/* Where the copy ends, the thread has been elsewhere. */
	unwind_first_piece(&child, &result);
	slot = find_word(PIECE_BYTES - 64, recursive);
	*slot = from_wait;
	go_on_later(&child, &result);
	assert_false(result.is_complete);
	assert_int_equal(result.reason, FGT_MARKER_TRUNCATED_NO_STACK);
	child_stop(&child);
}

static void stack_that_is_not_copied_whole_is_reported(void **state)
{
	struct fgt_unwind_result result;
	struct child child;

	(void)state;
	child_start(&child, "unwind_signals_nofp", NULL, MAX_DEPTH);
	unwind_blocked(&child, "deep", &result);
	captured.snapshot.stack_len = 512;
	fgt_unwind(child.unwinder, child.maps, &captured.snapshot, frames,
		   MAX_DEPTH + 2, &result);
	assert_false(result.is_complete);
	assert_int_equal(result.reason, FGT_MARKER_TRUNCATED_NO_STACK);
	assert_int_equal(frames[result.count - 1].flags, FGT_FRAME_MARKER);
	assert_int_equal(frames[result.count - 1].pc,
			 FGT_MARKER_TRUNCATED_NO_STACK);
	assert_true(result.need_bytes > 512);
	/* The mapping's end is known: nothing more to ask for. */
	captured.snapshot.stack_limit = captured.snapshot.stack_start + 512;
	fgt_unwind(child.unwinder, child.maps, &captured.snapshot, frames,
		   MAX_DEPTH + 2, &result);
	assert_false(result.is_complete);
	assert_int_equal(result.need_bytes, 0);
	child_stop(&child);
}

static void a_wild_leaf_is_left_by_its_return_address(void **state)
{
	struct fgt_unwind_result result;
	struct fgt_regs *regs = &captured.snapshot.regs;
	struct child child;
	size_t count;

	(void)state;
	child_start(&child, "unwind_signals_nofp", NULL, MAX_DEPTH);
	unwind_blocked(&child, "same", &result);
	count = result.count;
	/* read plays a wild pointer: its return address is at SP. */
	fgt_regs_set(regs, fgt_arch_host.pc, 0x10);
	fgt_unwind(child.unwinder, child.maps, &captured.snapshot, frames,
		   MAX_DEPTH + 2, &result);
	assert_true(result.need_maps);
	assert_int_equal(frames[0].pc, 0x10);
	assert_true(result.count <= count);
	child_stop(&child);
}

/* Of the first page. */
static int count_rules(struct fgt_image_file *file)
{
	struct fgt_cfi_rule rule;
	int count = 0;

	for (uint64_t address = 0; address < 4096; address++)
		count += fgt_image_file_find_rule(file, address, &rule) == 0;
	return count;
}

/* This process's own clock_gettime, stopped inside the vDSO. */
static void the_vdso_is_an_image(void **state)
{
	struct fgt_image_cache *cache;
	struct fgt_maps *maps;
	bool is_found = false;
	int fd;

	(void)state;
	assert_int_equal(fgt_image_cache_new(&cache), 0);
	assert_int_equal(capture_maps(getpid(), cache, &maps), 0);
	for (uint32_t i = 0; i < maps->image_count; i++) {
		const struct fgt_image *image = &maps->images[i].image;
		const struct fgt_image_key key = { image->dev, image->ino, 0 };

		if (strcmp(image->path, "[vdso]") != 0)
			continue;
		is_found = true;
		assert_non_null(maps->images[i].file);
		assert_int_equal(count_rules(maps->images[i].file) > 0, true);
		assert_int_equal(fgt_image_cache_open_fd(cache, image->build_id,
							 image->build_id_len,
							 &key, &fd),
				 -ENOENT);
	}
	assert_true(is_found);
	fgt_maps_free(maps);
	fgt_image_cache_free(cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signal_frames_are_crossed),
		cmocka_unit_test(code_without_a_file_is_crossed),
		cmocka_unit_test(leaf_without_a_file_has_its_callers),
		cmocka_unit_test(leaf_without_rules_and_callers_is_truncated),
		cmocka_unit_test(
			parent_that_waits_for_its_child_has_its_callers),
		cmocka_unit_test(both_ends_of_deep_recursion_are_kept),
		cmocka_unit_test(stack_is_unwound_in_pieces),
		cmocka_unit_test(part_that_is_read_later_is_checked),
		cmocka_unit_test(stack_that_is_not_copied_whole_is_reported),
		cmocka_unit_test(a_wild_leaf_is_left_by_its_return_address),
		cmocka_unit_test(the_vdso_is_an_image),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
