/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of running threads for ordinary users: perf events on single threads
 * of their own processes, user mode only. They cost 0.7 µs at each context
 * switch of the thread, so only threads that use a CPU and switch rarely get
 * them. All write into one buffer per CPU: what may be locked is scarce.
 */
#ifndef FGT_AGENT_CAPTURE_RUNNING_RUNNING_PERF_THREAD_H
#define FGT_AGENT_CAPTURE_RUNNING_RUNNING_PERF_THREAD_H

#include "agent/capture/running/running_perf.h"
#include "agent/capture/threads/fd_budget.h"
#include "agent/capture/threads/thread_table.h"

struct fgt_perf_threads;

#define FGT_PERF_SWITCHES_MAX 1000u /* a second; more: no event */

/* -EACCES … with why, as fgt_running_perf_open(). */
int fgt_perf_threads_open(struct fgt_fd_budget *budget,
			  struct fgt_perf_threads **ret_perf,
			  struct fgt_why *why);
void fgt_perf_threads_close(struct fgt_perf_threads *perf);
FGT_DEFINE_AUTO(struct fgt_perf_threads *, fgt_perf_threads_close);

/* What a thread did since its last tick. */
struct fgt_perf_use {
	uint64_t now_ns;
	uint64_t period_ns; /* of its ticks */
	uint64_t event_ns; /* that its event shall have, of CPU time */
	uint64_t runtime_ns, switches;
	int64_t hidden_ns; /* of CPU time so far that no sample has shown */
	bool is_throughout; /* it was on a CPU nearly all the time */
};

/* Decides by that whether it shall have an event, and opens or closes it. */
void fgt_perf_threads_consider(struct fgt_perf_threads *perf,
			       struct fgt_thread *thread,
			       const struct fgt_perf_use *use);
/* Closes the events of a thread; perf may be NULL if it has none. */
void fgt_perf_threads_drop(struct fgt_perf_threads *perf,
			   struct fgt_thread *thread);
/* Has it had an event for long enough that its silence means something? */
bool fgt_perf_threads_has(const struct fgt_thread *thread);

void fgt_perf_threads_drain(struct fgt_perf_threads *perf,
			    const struct fgt_perf_handler *handler);

#endif
