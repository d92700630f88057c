/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The distance of ticks, which keeps no step with anything that a program does.
 * Pure arithmetic.
 *
 * Work in step with equally spaced ticks would be seen at the same place of its
 * turn each time. So the distance changes with each group of 16 ticks, by up to
 * three sixteenths of a period up or down. A change of the distance gives the
 * perf events of all CPUs another period, which interrupts each CPU: done once
 * a group it costs little, for ticks at random places it would be needed at
 * each tick.
 *
 * Within a group the ticks move on by one part of a program's turn each. Where
 * that part is near 0 all 16 look at the same place of the turn, and count as
 * one. So of several distances the one is taken that is farthest from whole
 * multiples of the turns that programs have: round numbers of milliseconds, and
 * those in step with the period.
 */
#include "agent/capture/sampling.h"

#define PARTS	   16 /* of a period */
#define PARTS_LESS 13 /* that the shortest distance has */
#define PARTS_MORE 19 /* … and the longest */
#define GROUP_BIG  64u
#define CPUS_MANY  16
#define RANDOM_MAX 65536u
#define CANDIDATES 8u
/* In parts of RANDOM_MAX: ticks that move on by less of a turn look at less
 * than half of it. */
#define NEAR (RANDOM_MAX / (2 * PARTS))

static const uint32_t round_turns_ns[] = { 1000000, 2000000, 4000000,
					   5000000, 8000000, 10000000 };
/* In quarters of a period. */
static const uint32_t period_turns[] = { 1, 2, 4, 8 };

static uint32_t draw(struct fgt_sampling_pace *pace, uint32_t below)
{
	pace->random = pace->random * 1664525u + 1013904223u;
	return (pace->random >> 16) * below / RANDOM_MAX;
}

void fgt_sampling_pace_init(struct fgt_sampling_pace *pace, uint32_t seed,
			    long cpus)
{
	*pace = (struct fgt_sampling_pace){
		.random = seed,
		.group_ticks = cpus > CPUS_MANY ? GROUP_BIG : PARTS,
	};
	for (uint8_t i = 0; i < FGT_PACE_STEPS; i++)
		pace->order[i] = i;
}

/* Each step once, in a new order each time: they even out. */
static uint32_t next_step(struct fgt_sampling_pace *pace)
{
	if (pace->next == 0)
		for (uint32_t i = FGT_PACE_STEPS - 1; i > 0; i--) {
			uint32_t other = draw(pace, i + 1);
			uint8_t step = pace->order[i];

			pace->order[i] = pace->order[other];
			pace->order[other] = step;
		}
	pace->next = (pace->next + 1) % FGT_PACE_STEPS;
	return pace->order[pace->next];
}

/* 1: all ticks look at one place of such turns. Squares, as variances are. */
static double cost_of_turn(uint64_t distance_ns, uint64_t turn_ns)
{
	uint64_t part = distance_ns % turn_ns * RANDOM_MAX / turn_ns;
	double far = (double)(part < RANDOM_MAX / 2 ? part : RANDOM_MAX - part);

	return far > NEAR ? NEAR / far * (NEAR / far) : 1;
}

static double cost_of(uint64_t distance_ns, uint64_t period_ns)
{
	double cost = 0;

	for (size_t i = 0;
	     i < sizeof(round_turns_ns) / sizeof(round_turns_ns[0]); i++)
		cost += cost_of_turn(distance_ns, round_turns_ns[i]);
	for (size_t i = 0; i < sizeof(period_turns) / sizeof(period_turns[0]);
	     i++)
		cost += cost_of_turn(distance_ns,
				     period_ns * period_turns[i] / 4);
	return cost;
}

/* What is chosen must not be longer, or shorter, than a period on average. */
static double cost_of_balance(int64_t balance_ns, uint64_t period_ns)
{
	double far = (double)balance_ns * 20 / (double)period_ns;

	return far * far;
}

uint64_t fgt_sampling_pace_next(struct fgt_sampling_pace *pace,
				uint64_t period_ns)
{
	uint64_t width_ns =
		period_ns * (PARTS_MORE - PARTS_LESS) / PARTS / FGT_PACE_STEPS;
	uint64_t least_ns =
		period_ns * PARTS_LESS / PARTS + next_step(pace) * width_ns;
	uint64_t chosen_ns = 0;
	int64_t balance_ns = 0;
	double least_cost = 0;

	for (uint32_t i = 0; i < CANDIDATES; i++) {
		uint64_t more_ns =
			draw(pace, RANDOM_MAX) * width_ns / RANDOM_MAX;
		int64_t balance = pace->balance_ns + (int64_t)more_ns -
				  (int64_t)(width_ns / 2);
		double cost = cost_of(least_ns + more_ns, period_ns) +
			      cost_of_balance(balance, period_ns);

		if (i && cost >= least_cost)
			continue;
		least_cost = cost;
		chosen_ns = least_ns + more_ns;
		balance_ns = balance;
	}
	pace->balance_ns = balance_ns;
	pace->ticks_left = pace->group_ticks;
	return chosen_ns;
}
