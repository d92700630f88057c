/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts one process under the sampler and into the table of targets, and takes
 * it out again. targets.c and target_verb.c decide which.
 */
#ifndef FGT_AGENT_DAEMON_TARGETS_ATTACHING_H
#define FGT_AGENT_DAEMON_TARGETS_ATTACHING_H

#include "agent/daemon/targets/target_table.h"

/* Why an entry is made. */
struct fgt_attach_cause {
	enum fgt_origin origin;
	int32_t parent_pid;
	bool is_with_children;
	uint32_t charged_uid; /* as in the entry */
	uint32_t uid, gid; /* of _ATTACHED: of the user who asked */
};

/* All of them: as jobs only. */

/*
 * start_time: the process that is meant. -ESRCH it has ended, -ENOSPC too many
 * targets or rings, -ESHUTDOWN, the sampler's errors; why is set. Of _ATTACHED
 * also -EPERM, without why: the user could not trace it; and -ENOSPC:
 * FGT_TARGETS_PER_USER processes of the user are sampled already.
 */
int fgt_attaching_process(struct fgt_targets *targets, int32_t pid,
			  uint64_t start_time,
			  const struct fgt_attach_cause *cause,
			  struct fgt_why *why);

/* For rules and children: a failure is logged once, and the process is tried
 * again a minute later. */
void fgt_attaching_found(struct fgt_targets *targets, int32_t pid,
			 uint64_t start_time,
			 const struct fgt_attach_cause *cause, uint64_t now_ns);

/* Ends the sampling; the entry stays. */
void fgt_attaching_stop(struct fgt_targets *targets,
			const struct fgt_target_entry *entry,
			const char *reason);
/* The last entry takes its place. */
void fgt_attaching_remove(struct fgt_targets *targets, size_t index);

/* The entry at an index of the table leaves, with its ring; a rule does not
 * bring it back before the next configuration. reason: for the log. */
void fgt_attaching_detach(struct fgt_targets *targets, size_t index,
			  const char *reason);

#endif
