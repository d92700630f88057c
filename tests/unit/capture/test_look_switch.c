/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows from a thread's context switches for the instant that is asked
 * for: where it was, and when it came on a CPU.
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_a_thread_was_follows_from_its_switches),
		cmocka_unit_test(each_look_shows_the_first_time_since_the_last),
		cmocka_unit_test(what_came_after_the_instant_is_the_next_ones),
		cmocka_unit_test(a_time_that_was_not_kept_is_not_guessed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
