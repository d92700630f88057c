/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread at one tick: sampled on a CPU, blocked, or neither; its stack and
 * state go into the ring.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_LOOK_H
#define FGT_AGENT_CAPTURE_LOOK_LOOK_H

#include "agent/capture/look/look_thread.h"
#include "agent/capture/target_sampling.h"

/* A perf sample fell on it. */
void fgt_look_sampled(struct fgt_target *target, const struct fgt_tick *tick,
		      struct fgt_thread *thread,
		      const struct fgt_running_sample *sample);

/*
 * CPU time used since the last tick goes onto the thread's account; once a
 * tick for every active thread, before the next one.
 */
void fgt_look_account(struct fgt_target *target, const struct fgt_tick *tick,
		      struct fgt_thread *thread);

/* No sample did; it ran, or needs a look for another reason. */
void fgt_look_unsampled(struct fgt_target *target, const struct fgt_tick *tick,
			struct fgt_thread *thread);

/* ---- For the parts of a look ------------------------------------------- */

/* The ring has its state. */
void fgt_look_settle(struct fgt_thread *thread, uint32_t state);

/* What waits for a sample, or for a tick, is given up. */
void fgt_look_forget(struct fgt_thread *thread);

/*
 * Ticks that a thread which had run had to wait for a CPU: they belong to the
 * stack that it is found with when it gets one.
 */
uint32_t fgt_look_take_credit(struct fgt_target *target,
			      struct fgt_thread *thread);

/*
 * Shows a stack that was kept, below a leaf marker unless that is 0. If there
 * is none of these images: the stack that the ring has, below a marker that
 * says so; "stack unknown" if it has none, either.
 */
void fgt_look_show_kept(struct fgt_target *target, struct fgt_thread *thread,
			const struct fgt_last_run *kept, uint32_t state,
			enum fgt_marker leaf, uint32_t credit_ticks);

#endif
