/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One tick of one target: begin, the samples that perf has, finish. A look
 * at each thread returns a verdict, which is written to the ring here.
 */
#ifndef FGT_AGENT_CAPTURE_TICK_H
#define FGT_AGENT_CAPTURE_TICK_H

#include "agent/capture/sampled.h"

/* What all targets of a sampler share at a tick, beside the tick itself. */
struct fgt_tick_shared {
	struct fgt_switches *switches; /* NULL: not permitted, not wanted */
	int64_t last_pid; /* see fgt_thread_table_scan() */
	int last_pid_fd;
	int32_t own_tid; /* of the sampler, where it is embedded; else 0 */
	const char *limitation; /* what is not permitted here, or "" */
};

void fgt_tick_begin(struct fgt_sampled *sampled, const struct fgt_tick *tick);

/* Between begin and finish: a thread was on a CPU. */
void fgt_tick_sample(struct fgt_sampled *sampled, const struct fgt_tick *tick,
		     const struct fgt_running_sample *sample);
/* The kernel reported a birth, death, name, exec or mapping. */
void fgt_tick_task(struct fgt_sampled *sampled, uint32_t type,
		   const struct fgt_running_task *task);

/* Looks at all other threads and commits. False: the process has ended. */
bool fgt_tick_finish(struct fgt_sampled *sampled, const struct fgt_tick *tick,
		     const struct fgt_tick_shared *shared);

#endif
