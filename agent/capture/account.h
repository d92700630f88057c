/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of one thread, where no perf event of every CPU says at each
 * tick who is on a CPU: CPU time that the thread used and that no tick has
 * shown as running yet. Samples of single threads follow their CPU time and
 * not our ticks, and in the kernel there are none; what is shown is paid from
 * this account, so that shares are true whatever samples come.
 *
 * Pure arithmetic; knows no thread.
 */
#ifndef FGT_AGENT_CAPTURE_ACCOUNT_H
#define FGT_AGENT_CAPTURE_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

/* What the scheduler has counted; compared whole, with zero tolerance. */
struct fgt_cpu_use {
	uint64_t runtime_ns; /* on a CPU */
	uint64_t wait_ns; /* runnable, waiting for one */
	uint64_t switches; /* times put on a CPU */
};

struct fgt_account {
	struct fgt_cpu_use seen; /* up to here it is on the account */
	int64_t due_ns; /* used and not shown; negative: shown too much */
	int64_t lent_ns; /* shown on trust: it may have waited for a CPU */
	int64_t hidden_ns; /* used and in no sample: in the kernel */
};

/* Forgets what was before: the thread existed before we came. */
void fgt_account_start(struct fgt_account *account,
		       const struct fgt_cpu_use *use);

/* Adds what came since; time that it waited pays back what was lent. */
void fgt_account_add(struct fgt_account *account,
		     const struct fgt_cpu_use *use);

/* A sample came. True, and paid, if the tick shall show it: false only if
 * more was shown than was due already. */
bool fgt_account_take_sample(struct fgt_account *account, uint64_t period_ns);

/*
 * No sample came: true, and paid, if the tick shall be shown as running.
 * has_samples: one is likely to come soon, so be patient. is_first: the
 * thread has no other state yet, so round.
 */
bool fgt_account_take_tick(struct fgt_account *account, uint64_t period_ns,
			   bool has_samples, bool is_first);

/* Pays for past ticks that a sample speaks for: how many of so many can be. */
uint32_t fgt_account_take_past(struct fgt_account *account, uint64_t period_ns,
			       uint32_t most);

/* A tick goes on showing the thread as running, for want of better. */
void fgt_account_lend(struct fgt_account *account, uint64_t period_ns);
/* It is blocked: what it waited from now on pays nothing back. */
void fgt_account_settle(struct fgt_account *account);

/* Is there CPU time that samples should have shown, were they permitted?
 * Then one tick of it is taken. */
bool fgt_account_take_hidden(struct fgt_account *account, uint64_t period_ns);

/* Once a tick: what is too old to be made up for is written off. */
void fgt_account_age(struct fgt_account *account, uint64_t period_ns);

#endif
