/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread on no CPU when the samples fell, by what its context switches tell:
 * put aside while it ran, or blocked, and where it stood.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_SWITCH_H
#define FGT_AGENT_CAPTURE_LOOK_SWITCH_H

#include "agent/capture/target_sampling.h"

/* Where a thread was at an instant at which no sample fell on it. */
enum fgt_whereabouts {
	FGT_OFF_STILL, /* off its CPU, and has not got one since */
	FGT_OFF_THEN, /* off its CPU as the slot says, but runs again */
	FGT_OFF_BEFORE, /* the time before the last that it left its CPU */
	FGT_ON_UNSAMPLED, /* on a CPU, though no sample fell on it */
};

/* MT-Safe | AS-Safe */
enum fgt_whereabouts fgt_whereabouts_at(const struct fgt_switch_slot *slot,
					uint64_t instant_ns,
					uint64_t period_ns);

/* Sets its stack and state in the ring. False: its switches tell nothing, and
 * procfs must be asked. */
bool fgt_look_switched(struct fgt_target *target, const struct fgt_tick *tick,
		       struct fgt_thread *thread);

/*
 * A sample fell on it at that instant: what its switches told of where it
 * stood is old; if it was blocked before, they tell until when.
 */
void fgt_look_switch_sampled(struct fgt_target *target,
			     struct fgt_thread *thread, uint64_t instant_ns);

#endif
