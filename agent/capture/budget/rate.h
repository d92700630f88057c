/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate of one target: keeps what its sampling costs within a budget
 * by ticking it only at every 2nd, 4th, 8th … period of the sampler.
 *
 * Pure arithmetic; knows no target, no thread and no clock.
 */
#ifndef FGT_AGENT_CAPTURE_BUDGET_RATE_H
#define FGT_AGENT_CAPTURE_BUDGET_RATE_H

#include <stdbool.h>
#include <stdint.h>

/* CPU time of ticks, and what is spent whatever the rate, over some time. */
struct fgt_expense {
	uint64_t ticks_ns, fixed_ns, elapsed_ns;
};

struct fgt_rate {
	uint32_t periods; /* wanted: one tick in so many; a power of two */
	uint32_t periods_max;
	double cost_percent; /* of one core, over the last seconds */
	bool is_exceeded; /* nothing is left to lower, and it is not enough */

	/* The rest is its own. */
	bool has_begun, is_shown;
	uint64_t begun_ns; /* of the span that is being measured */
	struct fgt_expense span; /* so far */
	uint64_t over_ns; /* above the budget for so long, with pauses */
	struct fgt_expense episode; /* since then */
	uint64_t calm_ns; /* for so long a higher rate would have fit … */
	uint32_t calm_periods; /* … this one, all the time */
	uint64_t still_ns; /* for so long nothing was known of a higher */
	uint64_t since_raise_ns;
	bool has_raised, was_trial;
	uint64_t wait_ns, trial_wait_ns; /* what calm_ns, still_ns must reach */
};

/* In which periods of the sampler a target is ticked. */
struct fgt_rate_turn {
	uint32_t periods; /* in force: that each tick stands for */
	uint64_t due_period; /* number of the sampler's period of the next */
	bool has_begun;
	bool is_due; /* ticked in this period */
	uint64_t missed; /* ticks before this one */
};

/* period_ns: of the sampler; no target is ticked less than every 8 s. */
void fgt_rate_init(struct fgt_rate *rate, uint64_t period_ns);

/* CPU time was spent: ticks_ns on a tick, fixed_ns whatever the rate. */
void fgt_rate_charge(struct fgt_rate *rate, uint64_t ticks_ns,
		     uint64_t fixed_ns);

/* After a tick at now_ns: sets periods. limit_percent of one core; 0: none. */
void fgt_rate_decide(struct fgt_rate *rate, uint64_t now_ns,
		     double limit_percent);

/*
 * A period of the sampler begins, the number period: is_due, and missed. A rate
 * that is wanted is in force from a tick on. turn->periods is 1 at first.
 */
void fgt_rate_take_turn(struct fgt_rate_turn *turn, uint64_t period,
			uint32_t wanted_periods);

#endif
