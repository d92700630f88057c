/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of one thread at one tick, by the three ways to get it. The frames
 * are in tick->frames afterwards, leaf first.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_LOOK_STACK_H
#define FGT_AGENT_CAPTURE_LOOK_LOOK_STACK_H

#include "agent/capture/look/look_target.h"

/* So much of it is read at first: as much as was needed the last time. */
size_t fgt_look_stack_first_bytes(const struct fgt_thread *thread);

/*
 * Of a thread that is on no CPU, by a snapshot in tick->buffer; more of its
 * stacks is read as the unwinder wants it. leaf: marker to begin with, or 0.
 * Returns the number of frames.
 */
size_t fgt_look_stack_blocked(struct fgt_look *target,
			      const struct fgt_tick *tick,
			      struct fgt_thread *thread,
			      struct fgt_snapshot *snapshot,
			      enum fgt_marker leaf);

/* Of a thread that a sample fell on. 0 frames: it had no registers. */
size_t fgt_look_stack_sampled(struct fgt_look *target,
			      const struct fgt_tick *tick,
			      struct fgt_thread *thread,
			      const struct fgt_running_sample *sample);

/* Of a thread on a CPU, which is stopped for it. As fgt_ptrace_sample(). */
int fgt_look_stack_running(struct fgt_look *target, const struct fgt_tick *tick,
			   struct fgt_thread *thread, size_t *ret_count);

#endif
