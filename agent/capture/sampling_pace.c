/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The distance of ticks, which keeps no step with anything that a program does.
 * Pure arithmetic.
 *
 * Work in step with equally spaced ticks would be seen at the same place of its
 * turn each time. So the distance changes with each group of 16 ticks, by 1, 2
 * or 3 sixteenths of a period up or down: the ticks of a group then look at 16
 * different places of a turn of one period. A change of the distance gives the
 * perf events of all CPUs another period, which interrupts each CPU: done once
 * a group it costs little, for ticks at random places it would be needed at
 * each tick.
 */
#include "agent/capture/sampling.h"

#include <string.h>

#define PARTS	   16 /* of a period */
#define GROUP_BIG  64u
#define CPUS_MANY  16
#define RANDOM_MAX 65536u

static const int8_t steps[FGT_PACE_STEPS] = { -3, -2, -1, 1, 2, 3 };

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
	memcpy(pace->order, steps, sizeof(steps));
}

/* Each step once, in a new order each time: they even out. */
static int next_step(struct fgt_sampling_pace *pace)
{
	if (pace->next == 0)
		for (uint32_t i = FGT_PACE_STEPS - 1; i > 0; i--) {
			uint32_t other = draw(pace, i + 1);
			int8_t step = pace->order[i];

			pace->order[i] = pace->order[other];
			pace->order[other] = step;
		}
	pace->next = (pace->next + 1) % FGT_PACE_STEPS;
	return pace->order[pace->next];
}

uint64_t fgt_sampling_pace_next(struct fgt_sampling_pace *pace,
				uint64_t period_ns)
{
	int64_t sixteenth_ns = (int64_t)period_ns / PARTS;
	int64_t step_ns = next_step(pace) * sixteenth_ns;
	/* An eighth of a step up or down: no distance comes twice. */
	int64_t more_ns = (int64_t)draw(pace, RANDOM_MAX) * sixteenth_ns / 4 /
				  (int64_t)RANDOM_MAX -
			  sixteenth_ns / 8;

	pace->ticks_left = pace->group_ticks;
	return (uint64_t)((int64_t)period_ns + step_ns + more_ns);
}
