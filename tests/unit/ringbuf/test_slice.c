/* SPDX-License-Identifier: Apache-2.0 */
/* The slice: its check, its look-ups, its symbols, and narrowing it. */
#include "tests/unit/ringbuf/ring/ring_kit.h"
#include "tests/unit/ringbuf/slice_fixture.h"

#include <math.h>

static uint64_t tick(uint32_t index)
{
	return FIXTURE_START_NS + index * FIXTURE_PERIOD_NS;
}

/* ---- The check: each of these breaks one promise ---------------------- */

static void break_tick_order(struct fgt_ring_slice *slice)
{
	slice->tick_ns[7] = slice->tick_ns[6];
}

static void break_tick_count(struct fgt_ring_slice *slice)
{
	slice->tick_count = 0;
}

static void break_anchors(struct fgt_ring_slice *slice)
{
	slice->anchor_count = 0;
}

static void break_anchor_order(struct fgt_ring_slice *slice)
{
	slice->anchors[1].mono_ns = slice->anchors[0].mono_ns - 1;
}

static void break_period(struct fgt_ring_slice *slice)
{
	slice->period_ns = 0;
}

static void break_rate(struct fgt_ring_slice *slice)
{
	slice->effective_hz = (double)NAN;
}

static void break_request(struct fgt_ring_slice *slice)
{
	slice->requested_from_ns = slice->requested_to_ns + 1;
}

static void break_process_name(struct fgt_ring_slice *slice)
{
	memset(slice->process.name, 'x', sizeof(slice->process.name));
}

static void break_thread_order(struct fgt_ring_slice *slice)
{
	slice->threads[1].tid = slice->threads[2].tid + 1;
}

static void break_thread_name(struct fgt_ring_slice *slice)
{
	slice->threads[1].name = slice->strings.count;
}

static void break_parent(struct fgt_ring_slice *slice)
{
	slice->nodes[1].parent = 1;
}

static void break_node_frame(struct fgt_ring_slice *slice)
{
	slice->nodes[0].frame = slice->frame_count;
}

static void break_frame_image(struct fgt_ring_slice *slice)
{
	slice->frames[0].frame.image = slice->image_count + 1;
}

static void break_frame_symbols(struct fgt_ring_slice *slice)
{
	slice->frames[0].symbol_first = slice->symbol_count;
	slice->frames[0].symbol_count = UINT32_MAX;
}

static void break_symbol_name(struct fgt_ring_slice *slice)
{
	slice->symbols[0].function = UINT32_MAX;
}

static void break_symbol_reason(struct fgt_ring_slice *slice)
{
	slice->symbols[0].reason = 99;
}

static void break_image_path(struct fgt_ring_slice *slice)
{
	slice->images[0].path = slice->strings.count;
}

static void break_build_id(struct fgt_ring_slice *slice)
{
	slice->images[0].build_id_len = FGT_BUILD_ID_MAX + 1;
}

static void break_run_thread(struct fgt_ring_slice *slice)
{
	slice->runs[5].thread = slice->thread_count;
}

static void break_run_order(struct fgt_ring_slice *slice)
{
	slice->runs[0].thread = 1;
}

static void break_run_length(struct fgt_ring_slice *slice)
{
	slice->runs[2].tick_count = UINT32_MAX;
}

static void break_run_empty(struct fgt_ring_slice *slice)
{
	slice->runs[2].tick_count = 0;
}

static void break_run_overlap(struct fgt_ring_slice *slice)
{
	slice->runs[1].first_tick--;
}

static void break_run_stack(struct fgt_ring_slice *slice)
{
	slice->runs[1].stack = slice->node_count;
}

static void break_run_state(struct fgt_ring_slice *slice)
{
	slice->runs[1].state = 77;
}

static void break_gone(struct fgt_ring_slice *slice)
{
	slice->states[slice->state_count - 1].state = FGT_STATE_GONE;
}

static void break_state_order(struct fgt_ring_slice *slice)
{
	slice->states[1].state = slice->states[0].state;
}

static void break_strings(struct fgt_ring_slice *slice)
{
	slice->strings.offsets[3] = (uint32_t)slice->strings.len_bytes;
}

static void break_process(struct fgt_ring_slice *slice)
{
	slice->threads[1].process = 1;
}

static void break_string_end(struct fgt_ring_slice *slice)
{
	slice->strings.bytes[slice->strings.len_bytes - 1] = 'x';
}

static void every_broken_invariant_is_found(void **state)
{
	void (*const breaks[])(struct fgt_ring_slice *) = {
		break_tick_order,    break_tick_count,	  break_anchors,
		break_anchor_order,  break_period,	  break_rate,
		break_request,	     break_process_name,  break_thread_order,
		break_thread_name,   break_parent,	  break_node_frame,
		break_frame_image,   break_frame_symbols, break_symbol_name,
		break_symbol_reason, break_image_path,	  break_build_id,
		break_run_thread,    break_run_order,	  break_run_length,
		break_run_empty,     break_run_overlap,	  break_run_stack,
		break_run_state,     break_gone,	  break_state_order,
		break_strings,	     break_string_end,	  break_process,
	};

	(void)state;
	assert_false(fgt_slice_is_valid(NULL));
	for (size_t i = 0; i < sizeof(breaks) / sizeof(breaks[0]); i++) {
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *slice = fixture_rich();

		assert_true(fgt_slice_is_valid(slice));
		breaks[i](slice);
		if (fgt_slice_is_valid(slice))
			fail_msg("break %zu was not found", i);
	}
}

static void stack_that_is_too_deep_is_not_valid(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_new(3);
	uint32_t node = FGT_NODE_NONE, frame = fixture_frame(slice, "again");

	(void)state;
	fixture_thread(slice, 1, "one");
	slice->nodes = calloc(FGT_SLICE_DEPTH_MAX + 1, sizeof(*slice->nodes));
	for (uint32_t i = 0; i <= FGT_SLICE_DEPTH_MAX; i++) {
		slice->nodes[i].parent = node;
		slice->nodes[i].frame = frame;
		node = i;
	}
	slice->node_count = FGT_SLICE_DEPTH_MAX;
	fixture_run(slice, 0, 0, 3, node - 1, FGT_STATE_RUNNING);
	assert_true(fgt_slice_is_valid(slice));
	slice->node_count++;
	assert_false(fgt_slice_is_valid(slice));
}

/* ---- Look-ups --------------------------------------------------------- */

static void wall_clock_comes_from_the_anchor_before(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_rich();
	uint64_t stepped = FIXTURE_START_NS + 300000000;

	(void)state;
	assert_int_equal(fgt_slice_wall_ns(slice, tick(1)),
			 FIXTURE_WALL_NS + FIXTURE_PERIOD_NS);
	assert_int_equal(fgt_slice_wall_ns(slice, stepped - 1),
			 FIXTURE_WALL_NS + 299999999);
	assert_int_equal(fgt_slice_wall_ns(slice, stepped),
			 FIXTURE_WALL_NS + 200000000);
	/* Before the first one it counts backwards. */
	assert_int_equal(fgt_slice_wall_ns(slice, FIXTURE_START_NS - 5),
			 FIXTURE_WALL_NS - 5);
}

static void every_marker_has_a_name(void **state)
{
	(void)state;
	for (uint64_t i = 1; i < FGT_MARKER_COUNT; i++) {
		assert_string_not_equal(fgt_marker_name(i), "[unknown marker]");
		assert_int_equal(fgt_marker_name(i)[0], '[');
	}
	assert_string_equal(fgt_marker_name(0), "[unknown marker]");
	assert_string_equal(fgt_marker_name(UINT64_MAX), "[unknown marker]");
}

static const char *name_of(const char *arch, uint32_t state)
{
	assert_string_equal(arch, "x86_64");
	return state == FGT_STATE_RUNNING ? "on CPU" : "waiting";
}

static void states_are_named_once(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_rich();

	(void)state;
	assert_string_equal(fgt_slice_state_name(slice, FIXTURE_FUTEX),
			    "futex");
	assert_string_equal(fgt_slice_state_name(slice, 5), "unknown");
	assert_int_equal(fgt_slice_name_states(slice, name_of), 0);
	assert_string_equal(fgt_slice_state_name(slice, FIXTURE_FUTEX),
			    "waiting");
	assert_string_equal(fgt_slice_state_name(slice, 0), "on CPU");
	assert_true(fgt_slice_is_valid(slice));
}

static void symbols_are_added_once_and_bounded(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_rich();
	struct fgt_symbol_text texts[100] = { 0 };
	uint32_t bare = UINT32_MAX;
	const struct fgt_slice_frame *frame;

	(void)state;
	for (uint32_t i = 0; i < slice->frame_count; i++)
		if (slice->frames[i].frame.address == 0xabcdef)
			bare = i;
	for (int i = 0; i < 100; i++)
		texts[i].function = i < 99 ? "inlined" : "real";
	assert_int_equal(fgt_slice_add_symbols(slice, 999, texts, 1), -EINVAL);
	assert_int_equal(fgt_slice_add_symbols(slice, bare, texts, 0), -EINVAL);
	assert_int_equal(fgt_slice_add_symbols(slice, bare, texts, 100), 0);
	assert_int_equal(fgt_slice_add_symbols(slice, bare, texts, 1), -EINVAL);
	frame = &slice->frames[bare];
	assert_int_equal(frame->symbol_count, 64);
	assert_string_equal(
		fgt_slice_string(
			slice,
			slice->symbols[frame->symbol_first + 63].function),
		"real");
	assert_int_equal(slice->symbols[frame->symbol_first].file, 0);
	assert_true(fgt_slice_is_valid(slice));
}

/* ---- Narrowing -------------------------------------------------------- */

static void narrowed_slice_holds_what_it_uses_only(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_rich();
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	const struct fgt_run *run;
	const struct fgt_slice_frame *frame;

	(void)state;
	assert_int_equal(fgt_slice_narrow(slice, tick(8), tick(12), 0, &part),
			 0);
	kit_validate(part);
	assert_int_equal(part->tick_count, 5);
	assert_int_equal(part->tick_ns[0], tick(8));
	assert_int_equal(part->thread_count, 2);
	assert_int_equal(part->run_count, 3);
	assert_int_equal(part->runs[0].tick_count, 2);
	assert_int_equal(part->runs[1].first_tick, 2);
	assert_int_equal(part->runs[1].tick_count, 3);
	assert_true(part->frame_count < slice->frame_count);
	/* Names, images and inlined calls came along. */
	run = &part->runs[1];
	frame = &part->frames[part->nodes[run->stack].frame];
	assert_int_equal(frame->symbol_count, 2);
	assert_string_equal(
		fgt_slice_string(part,
				 part->symbols[frame->symbol_first].function),
		"clamp<int>");
	assert_string_equal(
		fgt_slice_string(part,
				 part->images[frame->frame.image - 1].path),
		"/usr/lib/x86_64-linux-gnu/libc.so.6");
	assert_string_equal(fgt_slice_state_name(part, FIXTURE_EPOLL),
			    "epoll_wait");
	assert_string_equal(fgt_slice_string(part, part->threads[0].name),
			    "app");
	assert_int_equal(part->missed_ticks, 0);
	assert_int_equal(part->evicted_ticks, 0);
	assert_true(fabs(part->effective_hz - 100) < 0.001);
	assert_int_equal(part->process.pid, 4242);
}

static void narrowing_to_all_of_it_changes_nothing(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_rich();
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;

	(void)state;
	assert_int_equal(fgt_slice_narrow(slice, 0, UINT64_MAX, 0, &part), 0);
	assert_true(fgt_slice_is_valid(part));
	assert_int_equal(part->tick_count, slice->tick_count);
	assert_int_equal(part->run_count, slice->run_count);
	assert_int_equal(part->node_count, slice->node_count);
	assert_memory_equal(part->nodes, slice->nodes,
			    slice->node_count * sizeof(*slice->nodes));
	assert_int_equal(part->missed_ticks, 3);
	assert_int_equal(part->evicted_ticks, 1);
	assert_int_equal(part->lapped_ticks, 2);
	assert_int_equal(part->anchor_count, 2);
}

static void narrowed_slice_keeps_the_anchor_that_it_needs(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_rich();
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;
	uint64_t late = slice->tick_ns[45];

	(void)state;
	assert_int_equal(fgt_slice_narrow(slice, late, UINT64_MAX, 0, &part),
			 0);
	assert_int_equal(part->anchor_count, 1);
	assert_int_equal(fgt_slice_wall_ns(part, late),
			 fgt_slice_wall_ns(slice, late));
	fgt_ring_slice_free(part);
	/* The gap of ten periods is where the three missed ticks were. */
	assert_int_equal(
		fgt_slice_narrow(slice, tick(35), UINT64_MAX, 0, &part), 0);
	assert_int_equal(part->missed_ticks, 3);
}

static void narrowing_to_one_thread_keeps_that_one(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_rich();
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *part = NULL;

	(void)state;
	assert_int_equal(fgt_slice_narrow(slice, 0, UINT64_MAX, 4243, &part),
			 0);
	kit_validate(part);
	/* And the name of the one that holds what it waits for. */
	assert_int_equal(part->thread_count, 2);
	assert_int_equal(part->threads[1].tid, 4243);
	assert_int_equal(part->runs[0].thread, 1);
	assert_int_equal(part->run_count, 2);
	assert_int_equal(part->runs[1].stack, FGT_NODE_NONE);
	assert_int_equal(part->state_count, 2);
}

static void narrowing_to_nothing_is_refused(void **state)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = fixture_rich();
	struct fgt_ring_slice *part = NULL;

	(void)state;
	assert_int_equal(fgt_slice_narrow(slice, 9, 8, 0, &part), -EINVAL);
	assert_int_equal(fgt_slice_narrow(slice, 0, tick(0), 0, &part),
			 -ENODATA);
	assert_int_equal(fgt_slice_narrow(slice, 0, 1, 0, &part), -ENODATA);
	assert_int_equal(fgt_slice_narrow(slice, 0, UINT64_MAX, 1, &part),
			 -ENODATA);
	assert_int_equal(fgt_slice_narrow(slice, tick(0), tick(9), 4250, &part),
			 -ENODATA);
	assert_null(part);
}

static void notes_have_different_keys_and_a_bound(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(4), *part = NULL;
	char key[16];

	(void)state;
	assert_null(fgt_slice_note(slice, "a"));
	assert_int_equal(fgt_slice_add_note(slice, "a", "1"), 0);
	assert_int_equal(fgt_slice_add_note(slice, "a", "2"), -EEXIST);
	for (int i = 1; i < FGT_SLICE_NOTES_MAX; i++) {
		snprintf(key, sizeof(key), "key %d", i);
		assert_int_equal(fgt_slice_add_note(slice, key, "x"), 0);
	}
	assert_int_equal(fgt_slice_add_note(slice, "b", "1"), -ENOSPC);
	assert_true(fgt_slice_is_valid(slice));
	fixture_thread(slice, 1, "main");
	fixture_run(slice, 0, 0, 4, fixture_stack(slice, "main"),
		    FGT_STATE_RUNNING);
	assert_int_equal(fgt_slice_narrow(slice, slice->tick_ns[1],
					  slice->tick_ns[2], 0, &part),
			 0);
	assert_string_equal(fgt_slice_note(part, "a"), "1");
	slice->notes[1].key = slice->notes[0].key;
	assert_false(fgt_slice_is_valid(slice));
	fgt_ring_slice_free(part);
	fgt_ring_slice_free(slice);
}

static void added_marks_are_in_order_and_inside(void **state)
{
	struct fgt_ring_slice *slice = fixture_new(4);

	(void)state;
	fixture_mark(slice, 15, "between", 1);
	assert_int_equal(fgt_slice_add_mark(slice, UINT64_MAX, 1, "last"), 0);
	assert_int_equal(fgt_slice_add_mark(slice, 0, 1, "first"), 0);
	assert_int_equal(slice->mark_count, 3);
	assert_int_equal(slice->marks[0].at_ns, slice->tick_ns[0]);
	assert_string_equal(fgt_slice_string(slice, slice->marks[1].name),
			    "between");
	assert_int_equal(slice->marks[2].at_ns, slice->tick_ns[3]);
	assert_true(fgt_slice_is_valid(slice));
	fgt_ring_slice_free(slice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_broken_invariant_is_found),
		cmocka_unit_test(stack_that_is_too_deep_is_not_valid),
		cmocka_unit_test(wall_clock_comes_from_the_anchor_before),
		cmocka_unit_test(every_marker_has_a_name),
		cmocka_unit_test(states_are_named_once),
		cmocka_unit_test(symbols_are_added_once_and_bounded),
		cmocka_unit_test(narrowed_slice_holds_what_it_uses_only),
		cmocka_unit_test(narrowing_to_all_of_it_changes_nothing),
		cmocka_unit_test(narrowed_slice_keeps_the_anchor_that_it_needs),
		cmocka_unit_test(narrowing_to_one_thread_keeps_that_one),
		cmocka_unit_test(narrowing_to_nothing_is_refused),
		cmocka_unit_test(notes_have_different_keys_and_a_bound),
		cmocka_unit_test(added_marks_are_in_order_and_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
