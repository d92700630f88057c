/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pace of a target: in which of the sampler's periods it is ticked, what
 * that costs, and what its governor says to it. Used in the sampler's thread.
 */
#ifndef FGT_AGENT_CAPTURE_BUDGET_PACING_H
#define FGT_AGENT_CAPTURE_BUDGET_PACING_H

#include "agent/capture/target_sampling.h"

void fgt_pacing_init(struct fgt_target *target, unsigned int hz);

/*
 * A period of the sampler begins, the number period: is the target ticked in
 * it? Then also takes over the rate that its governor wants.
 */
bool fgt_pacing_begin(struct fgt_target *target, uint64_t period);

/* What all targets share, as it is for this one: tick, rate, what it missed. */
struct fgt_tick fgt_pacing_tick(const struct fgt_target *target,
				const struct fgt_tick *shared);

/* A sample of perf: is it of use to the target in this period? */
bool fgt_pacing_wants_sample(const struct fgt_target *target,
			     const struct fgt_tick *shared);

/* CPU time of the sampler's thread. */
void fgt_pacing_charge(struct fgt_target *target, uint64_t ticks_ns,
		       uint64_t fixed_ns);

/* After its tick was charged: lowers or raises the rate, and says so. */
void fgt_pacing_decide(struct fgt_target *target, const struct fgt_tick *tick,
		       double limit_percent);

#endif
