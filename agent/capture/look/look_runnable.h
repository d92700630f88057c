/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that procfs calls running, though no sample of its CPU fell on it at
 * this tick: it waits for a CPU, it got one since, or there are no samples of
 * CPUs.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_LOOK_RUNNABLE_H
#define FGT_AGENT_CAPTURE_LOOK_LOOK_RUNNABLE_H

#include "agent/capture/look/look_target.h"

struct fgt_verdict fgt_look_runnable(struct fgt_look *target,
				     const struct fgt_tick *tick,
				     struct fgt_thread *thread);

/*
 * Found blocked. True: it blocks and goes on all the time, and is found so too
 * often, by its CPU time: the verdict is that it runs.
 */
bool fgt_look_owed(struct fgt_look *target, const struct fgt_tick *tick,
		   struct fgt_thread *thread, struct fgt_verdict *ret_verdict);

/*
 * Found blocked, before fgt_look_thread_settle(): a sample that came since the
 * last tick, without events of every CPU, stands for an earlier tick that has
 * none of its own, which is added to the verdict; if there is none, an event's
 * stands for a later tick, and so does a signal's of a run that no tick saw.
 */
void fgt_look_late_sample(const struct fgt_look *target,
			  const struct fgt_tick *tick,
			  struct fgt_thread *thread,
			  struct fgt_verdict *verdict);

/*
 * Ticks that a thread which had run had to wait for a CPU: they belong to the
 * stack that it is found with when it gets one.
 */
uint32_t fgt_look_take_credit(struct fgt_look *target,
			      struct fgt_thread *thread);

#endif
