/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is sampled: what the configuration names, what was attached by hand,
 * and their children.
 */
#ifndef FGT_AGENT_DAEMON_TARGETS_TARGETS_H
#define FGT_AGENT_DAEMON_TARGETS_TARGETS_H

#include "agent/capture/sampler.h"
#include "agent/config/config.h"
#include "ringbuf/base/why.h"

#define FGT_TARGETS_ENDED_MAX 32 /* rings kept of processes that ended */

struct fgt_targets;
struct fgt_target_table;

enum fgt_origin {
	FGT_ORIGIN_ATTACHED,
	FGT_ORIGIN_CONFIGURED,
	FGT_ORIGIN_CHILD,
	FGT_ORIGIN_REGISTERED, /* by itself */
};

/* "attached", "configured", "child", "registered" */
const char *fgt_origin_name(enum fgt_origin origin);

/* kept_ns: how long the ring of an ended process is kept. -ENOMEM. */
int fgt_targets_new(struct fgt_sampler *sampler, uint64_t kept_ns,
		    struct fgt_targets **ret_targets);
/* Detaches all. */
void fgt_targets_free(struct fgt_targets *targets);
FGT_DEFINE_AUTO(struct fgt_targets *, fgt_targets_free);

/*
 * Everything below runs on the thread of jobs (or where there is none yet
 * or no longer), but for _lock, _unlock, _leave and _kept_ns.
 *
 * Takes over the rules of a configuration, which stays until the next call:
 * attaches what they name, detaches what only the former ones named.
 */
void fgt_targets_set_rules(struct fgt_targets *targets,
			   const struct fgt_config *config);

/* Once a second: new processes that match, children, ended ones. */
void fgt_targets_refresh(struct fgt_targets *targets, uint64_t now_ns);

/*
 * Samples this very process from now on; already sampled: its origin and
 * children are brought up to date. charged_uid: see the entry. -ESRCH it has
 * ended, -ENOSPC too many rings; the sampler's errors.
 */
int fgt_targets_attach_process(struct fgt_targets *targets, int32_t pid,
			       uint64_t start_time, bool is_with_children,
			       uint32_t charged_uid, struct fgt_why *why);

/*
 * The same for a process that asks for itself, perhaps more than once: sampled
 * until it has asked for the contrary as often, unless it is also wanted for
 * another reason. ret_target: a new reference.
 */
int fgt_targets_register(struct fgt_targets *targets, int32_t pid,
			 uint64_t start_time, uint32_t charged_uid,
			 struct fgt_target **ret_target, struct fgt_why *why);
/* reason: for the log. */
void fgt_targets_unregister(struct fgt_targets *targets,
			    const struct fgt_target *target,
			    const char *reason);

/* The entry at an index of the table leaves, with its ring; a rule does not
 * bring it back before the next configuration. reason: for the log. */
void fgt_targets_detach_index(struct fgt_targets *targets, size_t index,
			      const char *reason);

/* Any thread: what is attached or looked for meanwhile gives up. */
void fgt_targets_leave(struct fgt_targets *targets);
bool fgt_targets_is_leaving(const struct fgt_targets *targets);

/* Other threads than that of jobs look at the table under the lock. */
void fgt_targets_lock(struct fgt_targets *targets);
void fgt_targets_unlock(struct fgt_targets *targets);
struct fgt_target_table *fgt_targets_table(struct fgt_targets *targets);
uint64_t fgt_targets_kept_ns(const struct fgt_targets *targets);

#endif
