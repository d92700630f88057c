/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What looks remember of a thread while it is active.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_LOOK_THREAD_H
#define FGT_AGENT_CAPTURE_LOOK_LOOK_THREAD_H

#include "agent/capture/look/account.h"
#include "agent/capture/stacks/kept_stack.h"
#include "agent/capture/threads/thread_table.h"

struct fgt_look_thread {
	bool is_run_sampled; /* a sample showed a tick since it blocked */
	bool was_stopped; /* by ptrace since: that switch does not count */
	uint32_t pending_ticks; /* the last so many have no sample yet */
	struct fgt_account account; /* where perf has no events per CPU */
	uint64_t used_ns; /* CPU time since the last tick, likewise */
	uint64_t stretch_ns; /* used since it was last put on a CPU */

	uint64_t sampled_wait_ns; /* use.wait_ns at its last sample */
	struct fgt_kept_stack last_run, last_block; /* its last sample, block */
	struct fgt_kept_stack unshown; /* a sample that no tick has shown … */
	uint64_t unshown_tick; /* … and when it came */
	uint64_t sample_tick; /* when the last sample came */
	uint64_t counted_switches; /* times put on a CPU … */
	uint64_t counted_ns; /* … up to this instant */
};

/*
 * For fgt_thread_table's on_active and on_idle: what the thread keeps of its
 * account while it is idle is taken up again. False: no memory.
 */
bool fgt_look_thread_begin(struct fgt_thread_table *threads,
			   struct fgt_thread *thread);
void fgt_look_thread_end(struct fgt_thread_table *threads,
			 struct fgt_thread *thread);

/* The verdict on it has this state. */
void fgt_look_thread_settle(struct fgt_thread *thread, uint32_t state);
/* What waits for a sample, or for a tick, is given up. */
void fgt_look_thread_forget(struct fgt_thread *thread);

#endif
