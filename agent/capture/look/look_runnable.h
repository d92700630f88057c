/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that procfs calls running, though no sample of its CPU fell on it at
 * this tick: it waits for a CPU, it got one since, or there are no samples of
 * CPUs.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_LOOK_RUNNABLE_H
#define FGT_AGENT_CAPTURE_LOOK_LOOK_RUNNABLE_H

#include "agent/capture/target_sampling.h"

/* Sets its stack and state in the ring, or lets them go on. */
void fgt_look_runnable(struct fgt_target *target, const struct fgt_tick *tick,
		       struct fgt_thread *thread);

/*
 * Found blocked. True: it blocks and goes on all the time, and is found so too
 * often, as its CPU time tells: it has been shown as running.
 */
bool fgt_look_owed(struct fgt_target *target, const struct fgt_tick *tick,
		   struct fgt_thread *thread);

/*
 * Found blocked, before fgt_look_settle(): a sample that came since the last
 * tick, without events of every CPU, speaks for an earlier tick that has none
 * of its own; if there is none, an event's speaks for a later one, and so does
 * a signal's of a run that no tick saw.
 */
void fgt_look_late_sample(struct fgt_target *target,
			  const struct fgt_tick *tick,
			  struct fgt_thread *thread);

#endif
