/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows from a thread's context switches for the instant that is asked
 * for: where it was, when it blocked, and what its stack proves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/capture/look/look_parts.h"

/* ---- Where a thread was ------------------------------------------------ */

static enum fgt_whereabouts at(uint64_t instant_ns, uint64_t off_ns,
			       uint64_t on_ns, bool was_on)
{
	const struct fgt_switch_slot slot = {
		.off = { .ns = off_ns },
		.on_ns = on_ns,
		.is_on = on_ns > off_ns,
		.was_on = was_on,
	};

	return fgt_whereabouts_at(&slot, instant_ns);
}

static void where_a_thread_was_follows_from_its_switches(void **state)
{
	const uint64_t ms = 1000000;

	(void)state;
	assert_int_equal(at(100 * ms, 90 * ms, 80 * ms, false), FGT_OFF_STILL);
	assert_int_equal(at(100 * ms, 100 * ms, 80 * ms, true), FGT_OFF_STILL);
	/* Got its CPU after the instant. */
	assert_int_equal(at(100 * ms, 90 * ms, 101 * ms, true), FGT_OFF_THEN);
	/* … and has lost it again, once or often. */
	assert_int_equal(at(100 * ms, 102 * ms, 101 * ms, false),
			 FGT_OFF_BEFORE);
	assert_int_equal(at(100 * ms, 104 * ms, 105 * ms, false),
			 FGT_OFF_BEFORE);
	/* Had it then, and has it still, or lost it since, once or often. */
	assert_int_equal(at(100 * ms, 50 * ms, 60 * ms, false), FGT_ON);
	assert_int_equal(at(100 * ms, 99 * ms, 100 * ms, false), FGT_ON);
	assert_int_equal(at(100 * ms, 102 * ms, 60 * ms, true), FGT_ON);
	assert_int_equal(at(100 * ms, 104 * ms, 103 * ms, true), FGT_ON);
	assert_int_equal(at(100 * ms, 104 * ms, 105 * ms, true), FGT_ON);
}

/* ---- When it blocked, and came on a CPU -------------------------------- */

#define UNIT UINT64_C(1024) /* ns */

/* What the kernel's half makes of a switch; an instant is set every 100
 * units. */
static void came_on(struct fgt_switch_slot *slot, uint64_t units)
{
	struct fgt_switch_block *block =
		&slot->block[(uint16_t)(slot->blocks - 1) % FGT_SWITCH_BLOCKS];

	if (slot->off.task_state || !slot->off.ns)
		block->on = (uint32_t)units;
	slot->on_ns = units * UNIT;
	slot->is_on = 1;
}

static void was_put_off(struct fgt_switch_slot *slot, uint64_t units)
{
	uint64_t instant_ns = units / 100 * 100 * UNIT;

	if (slot->off.ns <= instant_ns) {
		slot->before = slot->off;
		slot->was_on = slot->on_ns <= instant_ns;
	}
	slot->off.ns = units * UNIT;
	slot->off.task_state = 0;
	slot->is_on = 0;
}

static void blocked(struct fgt_switch_slot *slot, uint64_t units)
{
	struct fgt_switch_block *block =
		&slot->block[slot->blocks++ % FGT_SWITCH_BLOCKS];

	was_put_off(slot, units);
	slot->off.task_state = 1;
	*block = (struct fgt_switch_block){ (uint32_t)units, 0 };
}

/* Edges since the last look: "+" a CPU, "-" blocked, and how long ago. */
static void assert_edges(struct fgt_switch_seen *seen,
			 const struct fgt_switch_slot *slot,
			 uint64_t instant_units, const char *expected)
{
	struct fgt_edge_list edges;
	char text[200] = "";

	fgt_switch_seen_take(seen, slot, instant_units * UNIT, &edges);
	for (uint32_t i = 0; i < edges.count; i++) {
		bool is_on = edges.is_on_first == (i % 2 == 0);
		size_t len = strlen(text);

		snprintf(text + len, sizeof(text) - len, "%c%d ",
			 is_on ? '+' : '-',
			 (int)(instant_units - edges.ns[i] / UNIT));
	}
	assert_string_equal(text, expected);
}

static void each_look_shows_all_edges_since_the_last(void **state)
{
	struct fgt_switch_seen seen = { 0 };
	struct fgt_switch_slot slot = { 0 };

	(void)state;
	blocked(&slot, 50);
	assert_edges(&seen, &slot, 100, ""); /* the first: since when? */
	came_on(&slot, 110);
	blocked(&slot, 120);
	came_on(&slot, 130);
	blocked(&slot, 140);
	assert_edges(&seen, &slot, 200, "+90 -80 +70 -60 ");
	assert_edges(&seen, &slot, 300, "");
	came_on(&slot, 310);
	assert_edges(&seen, &slot, 400, "+90 ");
	was_put_off(&slot, 410);
	came_on(&slot, 420);
	assert_edges(&seen, &slot, 500, "");
	blocked(&slot, 510);
	came_on(&slot, 520);
	assert_edges(&seen, &slot, 600, "-90 +80 ");
	blocked(&slot, 700);
	assert_edges(&seen, &slot, 700, "-0 ");
}

/* A look comes some time after its instant. */
static void what_came_after_the_instant_is_the_next_ones(void **state)
{
	struct fgt_switch_seen seen = { 0 };
	struct fgt_switch_slot slot = { 0 };

	(void)state;
	blocked(&slot, 5);
	came_on(&slot, 101);
	assert_edges(&seen, &slot, 100, "");
	blocked(&slot, 150);
	came_on(&slot, 190);
	blocked(&slot, 201);
	came_on(&slot, 202);
	blocked(&slot, 203);
	assert_edges(&seen, &slot, 200, "+99 -50 +10 ");
	assert_edges(&seen, &slot, 300, "-99 +98 -97 ");
	/* Where it was put off after the instant, too. */
	came_on(&slot, 350);
	blocked(&slot, 410);
	came_on(&slot, 420);
	was_put_off(&slot, 430);
	assert_edges(&seen, &slot, 400, "+50 ");
	assert_edges(&seen, &slot, 500, "-90 +80 ");
}

/* The kernel's times are exact, those of a block have a unit. */
static void block_after_the_instant_in_its_unit_is_the_next_ones(void **state)
{
	struct fgt_switch_seen seen = { 0 };
	struct fgt_switch_slot slot = { 0 };

	(void)state;
	blocked(&slot, 50);
	came_on(&slot, 60);
	assert_edges(&seen, &slot, 100, "");
	blocked(&slot, 200);
	slot.off.ns += UNIT / 2;
	assert_edges(&seen, &slot, 200, "");
	assert_false(seen.is_blocked);
	came_on(&slot, 210);
	assert_edges(&seen, &slot, 300, "-100 +90 ");
}

static void too_many_edges_are_none(void **state)
{
	struct fgt_switch_seen seen = { 0 };
	struct fgt_switch_slot slot = { 0 };
	uint64_t units = 1000;

	(void)state;
	for (unsigned int looks = 0; looks < 20000; looks++) {
		unsigned int blocks = looks % 10;
		uint64_t looked = units;

		assert_edges(&seen, &slot, units, "");
		for (unsigned int i = 0; i < blocks; i++) {
			blocked(&slot, units += 10);
			came_on(&slot, units += 10);
		}
		if (blocks == 2)
			assert_edges(&seen, &slot, units + 1,
				     "-31 +21 -11 +1 ");
		else if (blocks == FGT_SWITCH_BLOCKS - 1)
			assert_edges(&seen, &slot, looked + 141,
				     "-131 +121 -111 +101 -91 +81 -71 +61 "
				     "-51 +41 -31 +21 -11 +1 ");
		else if (blocks >= FGT_SWITCH_BLOCKS)
			assert_edges(&seen, &slot, units + 1, "");
		units += 1;
		fgt_switch_seen_take(&seen, &slot, units * UNIT,
				     &(struct fgt_edge_list){ 0 });
		units += 1;
	}
}

static uint32_t count_edges(struct fgt_look *look, struct fgt_thread *thread,
			    uint64_t instant_units)
{
	const struct fgt_tick tick = { .instant_ns = instant_units * UNIT };

	fgt_look_switch_sampled(look, &tick, thread, tick.instant_ns);
	return look->edges.count;
}

/* They would be those of two ticks. */
static void edges_after_a_slot_not_read_are_none(void **state)
{
	struct fgt_switch_slot slot = { .version = 2 };
	struct fgt_thread_switches seen = { .index = 0 };
	struct fgt_switches switches = { .slots = &slot };
	struct fgt_look look = { .switches = &switches };
	struct fgt_thread *thread;

	(void)state;
	assert_int_equal(fgt_thread_store_init(&look.threads.table), 0);
	thread = fgt_thread_store_add(&look.threads.table, 7);
	fgt_thread_store_aside(&look.threads.table, thread)->switches = &seen;
	came_on(&slot, 50);
	assert_int_equal(count_edges(&look, thread, 100), 0);
	blocked(&slot, 150);
	came_on(&slot, 160);
	slot.version = 3; /* in the midst of a switch */
	assert_int_equal(count_edges(&look, thread, 200), 0);
	slot.version = 4;
	assert_int_equal(count_edges(&look, thread, 300), 0);
	blocked(&slot, 350);
	came_on(&slot, 360);
	assert_int_equal(count_edges(&look, thread, 400), 2);
	fgt_thread_store_aside(&look.threads.table, thread)->switches = NULL;
	fgt_thread_store_done(&look.threads.table);
}

/* What is neither a run nor a block would be drawn as one of them. */
static void edges_beside_a_wait_for_a_cpu_are_none(void **state)
{
	struct fgt_switch_seen seen = { 0 };
	struct fgt_switch_slot slot = { 0 };

	(void)state;
	blocked(&slot, 50);
	assert_edges(&seen, &slot, 100, "");
	slot.waited += 7;
	came_on(&slot, 150);
	assert_edges(&seen, &slot, 200, "");
	blocked(&slot, 250);
	slot.waited += 6;
	assert_edges(&seen, &slot, 300, "-50 ");
}

/* Nothing was seen of it before: it was handed over, blocked. */
static void a_sleeper_that_wakes_has_an_edge(void **state)
{
	struct fgt_switch_seen seen = { 0 };
	struct fgt_switch_slot slot = { 0 };

	(void)state;
	assert_edges(&seen, &slot, 100, "");
	came_on(&slot, 150);
	assert_edges(&seen, &slot, 200, "+50 ");
}

/* Times of blocks have 32 bits, and begin again every 73 minutes. */
static void old_edges_are_not_taken_for_new_ones(void **state)
{
	const uint64_t second = UINT64_C(1000000000) / UNIT;
	const uint64_t hour = 3600 * second;
	struct fgt_switch_seen seen = { 0 };
	struct fgt_switch_slot slot = { 0 };

	(void)state;
	blocked(&slot, 20 * hour);
	assert_edges(&seen, &slot, 20 * hour + 10, "");
	came_on(&slot, 22 * hour);
	assert_edges(&seen, &slot, 22 * hour + 10, "+10 ");
	for (uint64_t units = 22 * hour + second; units < 40 * hour;
	     units += second) {
		assert_edges(&seen, &slot, units, "");
		was_put_off(&slot, units + 10);
		came_on(&slot, units + 20);
	}
	blocked(&slot, 40 * hour + 10);
	assert_edges(&seen, &slot, 40 * hour + 20, "-10 ");
}

/* It blocks between an instant and its look, for the first time or for the
 * first time in an hour. */
static void blocks_of_unknown_age_are_not_counted_as_later_ones(void **state)
{
	const uint64_t second = UINT64_C(1000000000) / UNIT;

	(void)state;
	for (uint64_t minutes = 1; minutes < 300; minutes++) {
		const uint64_t units = minutes * 60 * second / 100 * 100;
		struct fgt_switch_seen seen = { 0 };
		struct fgt_switch_slot slot = { 0 };

		assert_edges(&seen, &slot, units - 100, "");
		came_on(&slot, units + 10);
		blocked(&slot, units + 20);
		assert_edges(&seen, &slot, units, "");
		assert_edges(&seen, &slot, units + 100, "+90 -80 ");
		came_on(&slot, 3 * units + 10);
		blocked(&slot, 3 * units + 20);
		assert_edges(&seen, &slot, 3 * units, "");
		assert_edges(&seen, &slot, 3 * units + 100, "+90 -80 ");
	}
}

/* ---- What stands still, and what may have moved ------------------------ */

static void thread_that_blocked_since_the_instant_has_moved(void **state)
{
	struct fgt_switch_slot slot = { .on_ns = 90, .is_on = 1 };

	(void)state;
	assert_true(fgt_switch_is_unmoved(&slot, 100));
	/* Put off its CPU, it stands still until it gets one again. */
	slot.is_on = 0;
	slot.off = (struct fgt_switch_off){ .ns = 110, .task_state = 0 };
	assert_true(fgt_switch_is_unmoved(&slot, 100));
	slot.off.task_state = 1;
	assert_false(fgt_switch_is_unmoved(&slot, 100));
	/* … and has gone on. */
	slot.is_on = 1;
	slot.on_ns = 120;
	assert_false(fgt_switch_is_unmoved(&slot, 100));
	/* From the instant on; before it, it had its CPU since 50. */
	slot.before.ns = 50;
	assert_false(fgt_switch_has_left(&slot, 60, 100));
	assert_true(fgt_switch_has_left(&slot, 40, 100));
}

/* ---- Places ------------------------------------------------------------ */

#define GENERATION 3
#define FRAMES	   3

static const struct fgt_switch_off place = {
	.pc = 0x401000,
	.sp = 0x7fff1000,
	.fp = 0x7fff1040,
	.call = 230,
	.task_state = 1,
};

/* A stack whose callers depend on branch; without_root: cut short. */
static void read_stack(struct fgt_thread_switches *switches,
		       struct fgt_kept_stack *last,
		       const struct fgt_switch_off *at, uint64_t branch,
		       bool without_root)
{
	const struct fgt_frame frames[FRAMES] = {
		{ .address = 0x1000 },
		{ .address = 0x2000 + branch },
		{ .address = 0x3000,
		  .flags = without_root ? FGT_FRAME_MARKER : 0 },
	};

	fgt_switch_place_note(switches, at, last, frames, FRAMES, GENERATION);
	fgt_kept_stack_set(last, frames, FRAMES, GENERATION);
}

static void place_with_one_stack_is_not_shared(void **state)
{
	struct fgt_thread_switches switches = { 0 };
	struct fgt_kept_stack last = { 0 };
	struct fgt_switch_off later = place;

	(void)state;
	later.ns = 5;
	later.woken_us = 7;
	read_stack(&switches, &last, &place, 0, false);
	read_stack(&switches, &last, &later, 0, false);
	assert_false(fgt_switch_place_is_shared(&switches, &place));
	assert_int_equal(switches.blocked_at.ns, 5);
	fgt_kept_stack_done(&last);
}

static void place_with_two_stacks_stays_shared(void **state)
{
	struct fgt_thread_switches switches = { 0 };
	struct fgt_kept_stack last = { 0 };
	struct fgt_switch_off elsewhere = place;

	(void)state;
	elsewhere.sp -= 0x40;
	read_stack(&switches, &last, &place, 0, false);
	read_stack(&switches, &last, &place, 1, false);
	assert_true(fgt_switch_place_is_shared(&switches, &place));
	assert_false(fgt_switch_place_is_shared(&switches, &elsewhere));
	/* One stack for each place is what a thread usually has. */
	read_stack(&switches, &last, &elsewhere, 2, false);
	read_stack(&switches, &last, &elsewhere, 2, false);
	assert_true(fgt_switch_place_is_shared(&switches, &place));
	assert_false(fgt_switch_place_is_shared(&switches, &elsewhere));
	/* Another program may have one stack there. */
	fgt_switch_places_forget(&switches);
	assert_false(fgt_switch_place_is_shared(&switches, &place));
	fgt_kept_stack_done(&last);
}

/* Of the same block more may be read the next time. */
static void stack_without_root_proves_nothing(void **state)
{
	struct fgt_thread_switches switches = { 0 };
	struct fgt_kept_stack last = { 0 };

	(void)state;
	read_stack(&switches, &last, &place, 0, true);
	read_stack(&switches, &last, &place, 1, false);
	read_stack(&switches, &last, &place, 0, true);
	assert_false(fgt_switch_place_is_shared(&switches, &place));
	fgt_kept_stack_done(&last);
}

static void stack_of_former_images_proves_nothing(void **state)
{
	struct fgt_thread_switches switches = { 0 };
	struct fgt_kept_stack last = { 0 };

	(void)state;
	read_stack(&switches, &last, &place, 0, false);
	last.generation--;
	read_stack(&switches, &last, &place, 1, false);
	assert_false(fgt_switch_place_is_shared(&switches, &place));
	fgt_kept_stack_done(&last);
}

static void each_wake_up_is_taken_once(void **state)
{
	struct fgt_switch_seen seen = { 0 };
	struct fgt_switch_slot slot = { .wakes = 5 };
	struct fgt_wake_list list;

	(void)state;
	fgt_switch_seen_take_wakes(&seen, &slot, 100, &list);
	assert_int_equal(list.count + list.lost, 0); /* before the first look */
	slot.wake[5 % FGT_SWITCH_WAKES].ns = 150;
	slot.wake[6 % FGT_SWITCH_WAKES].ns = 250; /* after the instant */
	slot.wakes = 7;
	fgt_switch_seen_take_wakes(&seen, &slot, 200, &list);
	assert_int_equal(list.count, 1);
	assert_int_equal(list.wakes[0].ns, 150);
	slot.wakes = 6 + 9; /* waits of 1 ms between two ticks of 101 Hz */
	fgt_switch_seen_take_wakes(&seen, &slot, 300, &list);
	assert_int_equal(list.count - list.lost, 9);
	slot.wakes += FGT_SWITCH_WAKES + 2;
	fgt_switch_seen_take_wakes(&seen, &slot, 350, &list);
	assert_int_equal(list.count, FGT_SWITCH_WAKES - 1);
	assert_int_equal(list.lost, 3);
	fgt_switch_seen_take_wakes(&seen, &slot, 400, &list);
	assert_int_equal(list.count + list.lost, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_a_thread_was_follows_from_its_switches),
		cmocka_unit_test(each_look_shows_all_edges_since_the_last),
		cmocka_unit_test(what_came_after_the_instant_is_the_next_ones),
		cmocka_unit_test(
			block_after_the_instant_in_its_unit_is_the_next_ones),
		cmocka_unit_test(too_many_edges_are_none),
		cmocka_unit_test(edges_after_a_slot_not_read_are_none),
		cmocka_unit_test(edges_beside_a_wait_for_a_cpu_are_none),
		cmocka_unit_test(a_sleeper_that_wakes_has_an_edge),
		cmocka_unit_test(old_edges_are_not_taken_for_new_ones),
		cmocka_unit_test(
			blocks_of_unknown_age_are_not_counted_as_later_ones),
		cmocka_unit_test(
			thread_that_blocked_since_the_instant_has_moved),
		cmocka_unit_test(place_with_one_stack_is_not_shared),
		cmocka_unit_test(place_with_two_stacks_stays_shared),
		cmocka_unit_test(stack_without_root_proves_nothing),
		cmocka_unit_test(stack_of_former_images_proves_nothing),
		cmocka_unit_test(each_wake_up_is_taken_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
