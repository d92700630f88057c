/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One tick of one target: begin, the samples that perf has, finish. Each
 * thread is asked the three questions of DESIGN §4.
 */
#ifndef FGT_AGENT_CAPTURE_TICK_H
#define FGT_AGENT_CAPTURE_TICK_H

#include "agent/capture/target_sampling.h"

void fgt_tick_begin(struct fgt_target *target, const struct fgt_tick *tick);

/* Between begin and finish: a thread was on a CPU. */
void fgt_tick_sample(struct fgt_target *target, const struct fgt_tick *tick,
		     const struct fgt_running_sample *sample);
/* The kernel told of a birth, death, name, exec or mapping. */
void fgt_tick_task(struct fgt_target *target, uint32_t type,
		   const struct fgt_running_task *task);

/* Looks at all others and commits. False: the process has ended. */
bool fgt_tick_finish(struct fgt_target *target, const struct fgt_tick *tick);

#endif
