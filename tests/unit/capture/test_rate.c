/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of agent/capture/rate: a budget of CPU time, kept. */
#include "agent/capture/budget/rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#define PERIOD 9900990u /* of 101 Hz */
#define SECOND UINT64_C(1000000000)
#define MS     UINT64_C(1000000)

/* A target: what a tick costs, at which rate it is ticked. */
struct world {
	struct fgt_rate rate;
	uint64_t now_ns;
	uint64_t tick_ns; /* each tick costs so much … */
	uint64_t event_ns; /* … and so much for each 10 ms since the last */
	uint64_t fixed_ns; /* each period, ticked or not */
	uint64_t spent_ns;
	double limit_percent;
	unsigned int changes;
};

static struct world new_world(double limit_percent)
{
	struct world world = { .now_ns = 5 * SECOND,
			       .limit_percent = limit_percent };

	fgt_rate_init(&world.rate, PERIOD);
	return world;
}

static void live(struct world *world, uint64_t duration_ns)
{
	uint64_t end_ns = world->now_ns + duration_ns;

	while (world->now_ns < end_ns) {
		uint32_t periods = world->rate.periods;
		uint64_t ticks_ns = world->tick_ns + world->event_ns * periods;
		uint64_t fixed_ns = world->fixed_ns * periods;

		world->now_ns += (uint64_t)PERIOD * periods;
		world->spent_ns += ticks_ns + fixed_ns;
		fgt_rate_charge(&world->rate, ticks_ns, fixed_ns);
		fgt_rate_decide(&world->rate, world->now_ns,
				world->limit_percent);
		world->changes += world->rate.periods != periods;
	}
}

/* Percent of a core over the next while. */
static double cost_of(struct world *world, uint64_t duration_ns)
{
	uint64_t from_ns = world->now_ns;

	world->spent_ns = 0;
	live(world, duration_ns);
	return (double)world->spent_ns * 100 /
	       (double)(world->now_ns - from_ns);
}

static void what_fits_is_left_alone(void **state)
{
	struct world world = new_world(2);

	(void)state;
	world.tick_ns = PERIOD / 100 * 19 / 10; /* 1.9 % */
	live(&world, 600 * SECOND);
	assert_int_equal(world.rate.periods, 1);
	assert_int_equal(world.changes, 0);
	assert_true(world.rate.cost_percent > 1.8 &&
		    world.rate.cost_percent < 2);
}

static void one_burst_changes_nothing(void **state)
{
	struct world world = new_world(2);

	(void)state;
	for (int i = 0; i < 20; i++) {
		world.tick_ns = 5 * MS; /* 50 % for less than a second */
		live(&world, 900 * MS);
		world.tick_ns = PERIOD / 100;
		live(&world, 9 * SECOND);
	}
	assert_int_equal(world.rate.periods, 1);
	assert_int_equal(world.changes, 0);
}

/* 10 % for half a second in every four: 1.25 % as a whole. */
static void bursts_that_fit_on_the_whole_are_left_alone(void **state)
{
	struct world world = new_world(2);

	(void)state;
	for (int i = 0; i < 100; i++) {
		world.tick_ns = PERIOD / 10;
		live(&world, 500 * MS);
		world.tick_ns = 0;
		live(&world, 3500 * MS);
	}
	assert_int_equal(world.changes, 0);
}

/* A burst on top of it asks for no more than the rest does. */
static void rate_ignores_a_burst_at_one_end(void **state)
{
	struct world world = new_world(2);

	(void)state;
	world.tick_ns = PERIOD * 8 / 10;
	live(&world, 900 * MS);
	world.tick_ns = PERIOD / 100 * 3;
	live(&world, 6 * SECOND);
	assert_int_equal(world.rate.periods, 2);
}

static void a_budget_is_kept_by_steps_of_two(void **state)
{
	struct world world = new_world(2);

	(void)state;
	world.tick_ns = PERIOD / 10; /* 10 %: 1.25 % at a rate of 1/8 */
	live(&world, 4 * SECOND);
	assert_int_equal(world.rate.periods, 8);
	assert_int_equal(world.changes, 1);
	assert_true(cost_of(&world, 10 * SECOND) < 2);
}

/* Where fewer ticks have the more to look at, more is to be lowered. */
static void ticks_that_grow_dearer_are_followed(void **state)
{
	struct world world = new_world(2);

	(void)state;
	world.event_ns = PERIOD / 100; /* 1 % whatever the rate */
	world.tick_ns = PERIOD / 5; /* 20 % */
	live(&world, 60 * SECOND);
	assert_in_range(world.rate.periods, 16, 64);
	assert_true(cost_of(&world, 60 * SECOND) <= 2.05);
}

static void the_rate_returns_when_the_load_is_gone(void **state)
{
	struct world world = new_world(2);

	(void)state;
	world.tick_ns = PERIOD / 2;
	live(&world, 30 * SECOND);
	assert_true(world.rate.periods >= 32);
	world.tick_ns = PERIOD / 100;
	live(&world, 30 * SECOND);
	assert_int_equal(world.rate.periods, 1);
	assert_true(world.rate.cost_percent < 1.1);
}

/* At 1/2 it costs 1.2 %: twice that would not fit. Nothing swings. */
static void a_rate_that_would_not_fit_is_tried_ever_more_rarely(void **state)
{
	struct world world = new_world(2);
	unsigned int first;

	(void)state;
	world.tick_ns = PERIOD / 100 * 24 / 10;
	live(&world, 600 * SECOND);
	first = world.changes;
	assert_true(first <= 2 * 6 + 1);
	assert_true(cost_of(&world, 3600 * SECOND) <= 2);
	assert_true(world.changes - first <= 2 * 5);
}

/* 1.5 % at any rate: the bound forbids it, a trial allows it. */
static void a_trial_finds_what_the_bound_denies(void **state)
{
	struct world world = new_world(2);

	(void)state;
	world.tick_ns = PERIOD;
	live(&world, 10 * SECOND);
	assert_true(world.rate.periods >= 32);
	world.tick_ns = 0;
	world.event_ns = PERIOD / 100 * 3 / 2;
	live(&world, 300 * SECOND);
	assert_int_equal(world.rate.periods, 1);
}

static void limit_is_exceeded_where_no_period_keeps_it(void **state)
{
	struct world world = new_world(0.1);

	(void)state;
	world.event_ns = PERIOD / 20; /* 5 % whatever is done */
	live(&world, 300 * SECOND);
	assert_int_equal(world.rate.periods, world.rate.periods_max);
	assert_true(world.rate.is_exceeded);
	/* Not less than one tick in eight seconds. */
	assert_int_equal(world.rate.periods_max, 512);
	world.event_ns = 0;
	live(&world, 60 * SECOND);
	assert_false(world.rate.is_exceeded);
}

static void without_a_limit_the_rate_is_full_at_once(void **state)
{
	struct world world = new_world(0.5);

	(void)state;
	world.tick_ns = PERIOD / 3;
	live(&world, 10 * SECOND);
	assert_true(world.rate.periods >= 64);
	world.limit_percent = 0;
	live(&world, 3 * SECOND);
	assert_int_equal(world.rate.periods, 1);
	live(&world, 60 * SECOND);
	assert_int_equal(world.rate.periods, 1);
	/* And a limit set later holds from then on. */
	world.limit_percent = 5;
	live(&world, 10 * SECOND);
	assert_int_equal(world.rate.periods, 8);
}

static void a_slow_sampler_keeps_its_floor(void **state)
{
	struct fgt_rate rate;

	(void)state;
	fgt_rate_init(&rate, SECOND); /* 1 Hz */
	assert_int_equal(rate.periods_max, 8);
	fgt_rate_init(&rate, SECOND / 1000);
	assert_int_equal(rate.periods_max, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_fits_is_left_alone),
		cmocka_unit_test(one_burst_changes_nothing),
		cmocka_unit_test(bursts_that_fit_on_the_whole_are_left_alone),
		cmocka_unit_test(rate_ignores_a_burst_at_one_end),
		cmocka_unit_test(a_budget_is_kept_by_steps_of_two),
		cmocka_unit_test(ticks_that_grow_dearer_are_followed),
		cmocka_unit_test(the_rate_returns_when_the_load_is_gone),
		cmocka_unit_test(
			a_rate_that_would_not_fit_is_tried_ever_more_rarely),
		cmocka_unit_test(a_trial_finds_what_the_bound_denies),
		cmocka_unit_test(limit_is_exceeded_where_no_period_keeps_it),
		cmocka_unit_test(without_a_limit_the_rate_is_full_at_once),
		cmocka_unit_test(a_slow_sampler_keeps_its_floor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
