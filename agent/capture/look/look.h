/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread at one tick: sampled on a CPU, blocked, or neither. Looks return
 * what they have found and write nothing to the ring.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_LOOK_H
#define FGT_AGENT_CAPTURE_LOOK_LOOK_H

#include "agent/capture/look/look_target.h"

/* A sample of its source fell on it. */
struct fgt_verdict fgt_look_sampled(struct fgt_look *target,
				    const struct fgt_tick *tick,
				    struct fgt_thread *thread,
				    const struct fgt_running_sample *sample);

/*
 * CPU time used since the last tick goes onto the thread's account; once a
 * tick for every active thread, before the next one.
 */
void fgt_look_account(struct fgt_look *target, const struct fgt_tick *tick,
		      struct fgt_thread *thread);

/* No sample did; it ran, or needs a look for another reason. */
struct fgt_verdict fgt_look_unsampled(struct fgt_look *target,
				      const struct fgt_tick *tick,
				      struct fgt_thread *thread);

#endif
