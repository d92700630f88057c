/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts one process under the sampler and into the table of targets, and takes
 * it out again. Only targets.c decides which.
 */
#ifndef FGT_AGENT_DAEMON_TARGETS_ATTACHING_H
#define FGT_AGENT_DAEMON_TARGETS_ATTACHING_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/daemon/targets/target_table.h"
#include "agent/daemon/targets/targets.h"

struct fgt_targets {
	struct fgt_sampler *sampler;
	const struct fgt_config *config; /* NULL until the first rules */
	uint64_t kept_ns;
	atomic_bool is_leaving; /* relaxed: only ends the work sooner */
	struct fgt_target_table table;
	/*
	 * For the table. Errands are its one writer: they take the lock to
	 * write and read without it, but for the owner and hidden_until_ns of
	 * an entry, which everybody may bring up to date under the lock.
	 */
	pthread_mutex_t lock;
};

/* Why an entry is made. */
struct fgt_attach_cause {
	enum fgt_origin origin;
	int32_t parent_pid;
	bool is_with_children;
	uint32_t charged_uid; /* as in the entry */
};

/* All four: as jobs only. */

/* start_time: the process that is meant. -ESRCH it has ended, -ENOSPC too many
 * targets or rings, -ESHUTDOWN, the sampler's errors; why is set. */
int fgt_attaching_process(struct fgt_targets *targets, int32_t pid,
			  uint64_t start_time,
			  const struct fgt_attach_cause *cause,
			  struct fgt_why *why);

/* For rules and children: a failure is explained once, then kept in mind. */
void fgt_attaching_found(struct fgt_targets *targets, int32_t pid,
			 uint64_t start_time,
			 const struct fgt_attach_cause *cause, uint64_t now_ns);

/* Ends the sampling; the entry stays. */
void fgt_attaching_stop(struct fgt_targets *targets,
			const struct fgt_target_entry *entry,
			const char *reason);
/* The last entry takes its place. */
void fgt_attaching_remove(struct fgt_targets *targets, size_t index);

#endif
