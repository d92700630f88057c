/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The governor of one target: keeps what its sampling costs within a budget
 * by ticking it only at every 2nd, 4th, 8th … period of the sampler.
 *
 * Pure arithmetic; knows no target, no thread and no clock.
 */
#ifndef FGT_AGENT_CAPTURE_BUDGET_GOVERNOR_H
#define FGT_AGENT_CAPTURE_BUDGET_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

/* CPU time of ticks, and what is spent whatever the rate, over some time. */
struct fgt_expense {
	uint64_t ticks_ns, fixed_ns, elapsed_ns;
};

struct fgt_governor {
	uint32_t periods; /* in force: one tick in so many; a power of two */
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
	uint64_t still_ns; /* for so long nothing could be said of a higher */
	uint64_t since_raise_ns;
	bool has_raised, was_trial;
	uint64_t wait_ns, trial_wait_ns; /* what calm_ns, still_ns must reach */
};

/* period_ns: of the sampler; no target is ticked less than every 8 s. */
void fgt_governor_init(struct fgt_governor *governor, uint64_t period_ns);

/* CPU time was spent: ticks_ns on a tick, fixed_ns whatever the rate. */
void fgt_governor_charge(struct fgt_governor *governor, uint64_t ticks_ns,
			 uint64_t fixed_ns);

/*
 * After a tick at now_ns: shall the rate change? limit_percent of one core; 0
 * for none. True if periods is another one now.
 */
bool fgt_governor_decide(struct fgt_governor *governor, uint64_t now_ns,
			 double limit_percent);

#endif
