/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of one thread, where no perf event of every CPU shows at each
 * tick which threads are on a CPU: CPU time that the thread used and that no
 * sample has shown. It shows which thread is worth an event, and, where a
 * thread has one, how long it was in the kernel, where the sampler may not
 * look.
 *
 * Pure arithmetic; knows no thread.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_ACCOUNT_H
#define FGT_AGENT_CAPTURE_LOOK_ACCOUNT_H

#include "agent/capture/threads/thread.h"

struct fgt_account {
	struct fgt_cpu_use seen; /* up to here it is on the account */
	int64_t due_ns; /* used and not shown; negative: shown too much */
	int64_t hidden_ns; /* used and in no sample */
};

/* Forgets what was before: the thread is older than the recording. */
void fgt_account_start(struct fgt_account *account,
		       const struct fgt_cpu_use *use);

/* Adds what came since. */
void fgt_account_add(struct fgt_account *account,
		     const struct fgt_cpu_use *use);

/* A tick is about to be shown as running: false if it is not paid for. */
bool fgt_account_take_tick(struct fgt_account *account, uint64_t period_ns);

/* Has it used the CPU for more ticks than chance leaves unshown? */
bool fgt_account_is_overdue(const struct fgt_account *account,
			    uint64_t period_ns);

/* A sample came: it stands for a period of CPU time. */
void fgt_account_take_sample(struct fgt_account *account, uint64_t period_ns);

/* Is there CPU time that samples should have shown, were they permitted?
 * Then one tick of it is taken. */
bool fgt_account_take_hidden(struct fgt_account *account, uint64_t period_ns);

/* Once a tick: what is too old to be made up for is written off. */
void fgt_account_age(struct fgt_account *account, uint64_t period_ns);

#endif
