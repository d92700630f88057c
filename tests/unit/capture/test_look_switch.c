/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows from a thread's context switches for the instant that is asked
 * for: where it was, when it came on a CPU, and what its stack proves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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

/* ---- When it came on a CPU --------------------------------------------- */

/* What the kernel's half makes of a switch; samples fall every 100 ns. */
static void came_on(struct fgt_switch_slot *slot, uint64_t ns)
{
	slot->is_first = slot->on_ns <= ns / 100 * 100;
	slot->on_ns = ns;
	slot->is_on = 1;
	if (slot->first_on_ns <= slot->looked_ns)
		slot->first_on_ns = ns;
}

static void went_off(struct fgt_switch_slot *slot, uint64_t ns)
{
	slot->before = slot->off;
	slot->off.ns = ns;
	slot->is_on = 0;
}

static uint64_t look(struct fgt_switch_seen *seen, struct fgt_switch_slot *slot,
		     uint64_t instant_ns)
{
	uint64_t on_ns = fgt_switch_seen_take(seen, slot, instant_ns);

	slot->looked_ns = instant_ns;
	return on_ns;
}

static void each_look_shows_the_first_time_since_the_last(void **state)
{
	struct fgt_switch_seen seen = { 0 };
	struct fgt_switch_slot slot = { .off = { .ns = 5 } };

	(void)state;
	assert_int_equal(look(&seen, &slot, 100), 0);
	came_on(&slot, 110);
	went_off(&slot, 120);
	came_on(&slot, 130);
	went_off(&slot, 140);
	assert_int_equal(look(&seen, &slot, 200), 110);
	assert_int_equal(look(&seen, &slot, 300), 0);
	came_on(&slot, 310);
	assert_int_equal(look(&seen, &slot, 400), 310);
	assert_int_equal(look(&seen, &slot, 500), 0);
}

/* A look comes some time after its instant. */
static void what_came_after_the_instant_is_the_next_ones(void **state)
{
	struct fgt_switch_seen seen = { 0 };
	struct fgt_switch_slot slot = { .off = { .ns = 5 } };

	(void)state;
	came_on(&slot, 101); /* nothing before it */
	assert_int_equal(look(&seen, &slot, 100), 0);
	went_off(&slot, 150);
	came_on(&slot, 201); /* after one before it: kept nowhere */
	assert_int_equal(look(&seen, &slot, 200), 101);
	went_off(&slot, 250);
	came_on(&slot, 260);
	assert_int_equal(look(&seen, &slot, 300), 201);
	went_off(&slot, 350);
	came_on(&slot, 401);
	went_off(&slot, 402);
	assert_int_equal(look(&seen, &slot, 400), 0);
	assert_int_equal(look(&seen, &slot, 500), 401);
}

static void a_time_that_was_not_kept_is_not_guessed(void **state)
{
	struct fgt_switch_seen seen = { 0 };
	struct fgt_switch_slot slot = { .off = { .ns = 5 } };

	(void)state;
	came_on(&slot, 90);
	went_off(&slot, 95);
	came_on(&slot, 101);
	went_off(&slot, 102);
	came_on(&slot, 103);
	assert_int_equal(look(&seen, &slot, 100), 90);
	came_on(&slot, 150);
	assert_int_equal(look(&seen, &slot, 200), 0); /* 101 or 103 */
	went_off(&slot, 210);
	came_on(&slot, 220);
	assert_int_equal(look(&seen, &slot, 300), 220);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_a_thread_was_follows_from_its_switches),
		cmocka_unit_test(each_look_shows_the_first_time_since_the_last),
		cmocka_unit_test(what_came_after_the_instant_is_the_next_ones),
		cmocka_unit_test(a_time_that_was_not_kept_is_not_guessed),
		cmocka_unit_test(
			thread_that_blocked_since_the_instant_has_moved),
		cmocka_unit_test(place_with_one_stack_is_not_shared),
		cmocka_unit_test(place_with_two_stacks_stays_shared),
		cmocka_unit_test(stack_without_root_proves_nothing),
		cmocka_unit_test(stack_of_former_images_proves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
