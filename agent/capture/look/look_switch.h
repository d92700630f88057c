/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a thread was at a tick's instant, by its context switches: on
 * a CPU, put aside while it ran, or blocked, and where it stood.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_LOOK_SWITCH_H
#define FGT_AGENT_CAPTURE_LOOK_LOOK_SWITCH_H

#include "agent/capture/look/look_target.h"

/* Where a thread was at an instant. */
enum fgt_whereabouts {
	FGT_OFF_STILL, /* off its CPU, and has not got one since */
	FGT_OFF_THEN, /* off its CPU as in the slot, but runs again */
	FGT_OFF_BEFORE, /* the time before the last that it left its CPU */
	FGT_ON, /* on a CPU */
};

/* instant_ns: the one that was set for the kernel's half. MT-Safe | AS-Safe */
enum fgt_whereabouts fgt_whereabouts_at(const struct fgt_switch_slot *slot,
					uint64_t instant_ns);

/*
 * Of a thread without a sample. False: its switches show nothing, and procfs
 * must be read.
 */
bool fgt_look_switched(struct fgt_look *target, const struct fgt_tick *tick,
		       struct fgt_thread *thread,
		       struct fgt_verdict *ret_verdict);

/*
 * A sample fell on it, a little after the instant. True: it was running then,
 * as far as is known, and if it was blocked before, its switches show until
 * when (else 0). False: fgt_look_switched() finds what it did.
 */
bool fgt_look_switch_sampled(struct fgt_look *target,
			     const struct fgt_tick *tick,
			     struct fgt_thread *thread, uint64_t *ret_on_ns);

/*
 * First time on a CPU after the last look's instant and up to this one's; 0:
 * none, or not known. instant_ns becomes the last look's.
 *
 * MT-Unsafe | AS-Safe
 */
uint64_t fgt_switch_seen_take(struct fgt_switch_seen *seen,
			      const struct fgt_switch_slot *slot,
			      uint64_t instant_ns);

#endif
