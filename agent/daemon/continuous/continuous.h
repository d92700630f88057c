/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continuous mode: the whole life of a target, as chunks, to destinations of
 * the configuration. Chunks of a run of a process under this daemon have one
 * profiler id, and one relation between the wall clock and CLOCK_MONOTONIC, so
 * that they stay in order when the wall clock is set.
 *
 * A chunk for Sentry ends with the tick that the next one begins with, since a
 * sample lasts until the next one of its thread. In a chunk of sums (pprof,
 * OTLP) each tick stands for a period: it ends before that tick.
 *
 * Chunks are the agent owner's, as what triggers cut. Runs in the loop's
 * thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_CONTINUOUS_CONTINUOUS_H
#define FGT_AGENT_DAEMON_CONTINUOUS_CONTINUOUS_H

#include "agent/config/config.h"
#include "agent/daemon/delivery/deliveries.h"
#include "agent/daemon/targets/targets.h"

struct fgt_continuous;

/* What it gets is borrowed. -ENOMEM. */
int fgt_continuous_new(struct fgt_jobs *jobs, struct fgt_targets *targets,
		       struct fgt_deliveries *deliveries,
		       struct fgt_continuous **ret_continuous);
/* After the thread of jobs has ended; before the deliveries. */
void fgt_continuous_free(struct fgt_continuous *continuous);

/* Takes over the targets of a configuration, which stays until the next call.
 * First queues the rest of those whose rule it does not have, so the deliveries
 * must still have the former destinations. Not while a look is under way: as the
 * end of a later job. */
void fgt_continuous_set_rules(struct fgt_continuous *continuous,
			      const struct fgt_config *config);

/* Once a second, while the configuration stays. */
void fgt_continuous_look(struct fgt_continuous *continuous);

/* Queues what has not been delivered of all targets; then no more. */
void fgt_continuous_leave(struct fgt_continuous *continuous);
/* False: a look is under way, whose end queues it. */
bool fgt_continuous_is_idle(const struct fgt_continuous *continuous);

#endif
