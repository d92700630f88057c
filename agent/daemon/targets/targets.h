/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes are sampled: those that the configuration names, those that
 * were attached on request, those that registered, and their children.
 *
 * Rules and registrations: the thread of jobs. Verbs: the loop's thread. What
 * clients may see: both, under the lock of struct fgt_targets. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_TARGETS_TARGETS_H
#define FGT_AGENT_DAEMON_TARGETS_TARGETS_H

#include "agent/capture/sampler.h"
#include "agent/config/config.h"
#include "agent/daemon/socket/control.h"
#include "agent/daemon/targets/gate.h"
#include "ringbuf/base/why.h"

#define FGT_TARGETS_ENDED_MAX	   32 /* rings kept of root's that ended */
#define FGT_TARGETS_ENDED_USERS	   64 /* … of all ordinary users' */
#define FGT_TARGETS_OF_USERS	   224 /* live; the sampler's rest is root's */
#define FGT_TARGETS_PER_USER	   32 /* that attach adds; not of root */
#define FGT_TARGETS_NAMES_MAX	   64 /* rules that attach NAME adds */
#define FGT_TARGETS_NAMES_PER_USER 16 /* of those; root is not counted */

struct fgt_targets;
struct fgt_jobs;
struct fgt_name_rule;

/* kept_ns: how long the ring of an ended process is kept. jobs: the thread on
 * which attach and detach run. -ENOMEM. */
int fgt_targets_new(struct fgt_sampler *sampler, struct fgt_jobs *jobs,
		    uint64_t kept_ns, struct fgt_targets **ret_targets);
/* Detaches all. */
void fgt_targets_free(struct fgt_targets *targets);

/*
 * Everything below runs on the thread of jobs (or where there is none yet
 * or no longer), except _leave and _get_room.
 *
 * Takes over the rules of a configuration, which stays until the next call:
 * attaches what they name, detaches what only the former ones named.
 */
void fgt_targets_set_rules(struct fgt_targets *targets,
			   const struct fgt_config *config);

/* Once a second: new processes that match, children, ended ones. */
void fgt_targets_refresh(struct fgt_targets *targets, uint64_t now_ns);

/*
 * Processes of this name that start from now on are sampled too, if the rule's
 * user could trace them. A rule of that name and user is replaced. As the job
 * in which check_name() has found room. check_name(): -ENOSPC with why.
 */
int fgt_targets_check_name(struct fgt_targets *targets, const char *name,
			   uint32_t uid, struct fgt_why *why);
void fgt_targets_add_name(struct fgt_targets *targets,
			  const struct fgt_name_rule *rule);
/* Drops the rules of this name that the user made, for root all; how many. */
size_t fgt_targets_drop_name(struct fgt_targets *targets, const char *name,
			     uint32_t uid);

/* Whose limit a target counts against: 0 for the user who runs the daemon, who
 * owns the memory. */
uint32_t fgt_charged_uid(const struct fgt_peer *peer);

/*
 * Samples a process that registered itself, perhaps more than once: until it
 * has been unregistered as often, unless it is also wanted for another reason.
 * charged_uid: see the entry. ret_target: a new reference. -ESRCH it has ended,
 * -ENOSPC too many rings; the sampler's errors.
 */
int fgt_targets_register(struct fgt_targets *targets, int32_t pid,
			 uint64_t start_time, uint32_t charged_uid,
			 struct fgt_target **ret_target, struct fgt_why *why);
/* reason: for the log. */
void fgt_targets_unregister(struct fgt_targets *targets,
			    const struct fgt_target *target,
			    const char *reason);

/* As a job, since it may read a file of /proc: is that target one that the rule
 * means? A rule of a pid means the process that has it now. */
bool fgt_targets_is_match(const struct fgt_config_target *rule,
			  const struct fgt_target *target);

/* As a job: visits each target that has a ring, those that have ended too. */
void fgt_targets_for_each(struct fgt_targets *targets,
			  void (*visit)(void *context,
					struct fgt_target *target),
			  void *context);

struct fgt_targets_room {
	uint64_t total_bytes, used_bytes; /* of rings: may have, have */
};
/* Any thread. config: in force. */
void fgt_targets_get_room(struct fgt_targets *targets,
			  const struct fgt_config *config,
			  struct fgt_targets_room *ret_room);

/* Any thread: what is attached or looked for meanwhile gives up. */
void fgt_targets_leave(struct fgt_targets *targets);

/*
 * The verbs attach and detach. They wait for the sampler and read files of
 * processes, so they run as jobs; each acts only on processes that the
 * client's user could trace.
 *
 * context: struct fgt_targets. Each answers the client in the end.
 */
void fgt_target_verb_attach(void *context, struct fgt_control_client *client,
			    const struct fgt_request *request);
void fgt_target_verb_detach(void *context, struct fgt_control_client *client,
			    const struct fgt_request *request);

/* ---- What clients may see -------------------------------------------------
 *
 * Finds the target that a request means, or lists targets in a reply; each only
 * if the client's user could trace it.
 */

/* Which targets a request means. pid 0 and name NULL: all. */
struct fgt_selector {
	int32_t pid;
	const char *name; /* the request's */
	bool is_own; /* the process pid itself asks, for its own past */
};

/* -EINVAL, with why: the pid may be another process to the client. */
int fgt_selector_take(const struct fgt_control_client *client,
		      const struct fgt_request_selector *asked,
		      struct fgt_selector *ret_selector, struct fgt_why *why);

/*
 * The only one that matches, a new reference, and the gate that its slices go
 * through. Living ones go before ended ones. -ESRCH none that the peer may see,
 * -ENOTUNIQ several.
 */
int fgt_target_list_find(struct fgt_targets *targets,
			 const struct fgt_peer *peer,
			 const struct fgt_selector *selector,
			 struct fgt_target **ret_target,
			 struct fgt_gate *ret_gate, struct fgt_why *why);

/* targets: [{pid, name}] of those that match. */
void fgt_target_list_put_names(struct fgt_targets *targets,
			       const struct fgt_peer *peer,
			       const struct fgt_selector *selector,
			       struct fgt_builder *builder);
/* The same without those that have ended. As a job: without the lock, since one
 * that reads a process may be given up. */
void fgt_target_list_put_running(const struct fgt_targets *targets,
				 const struct fgt_peer *peer,
				 const struct fgt_selector *selector,
				 struct fgt_builder *builder);

/* targets: [target], rules: [rule]; all that the peer may see. Returns the
 * number of targets. */
size_t fgt_target_list_put(struct fgt_targets *targets,
			   const struct fgt_peer *peer,
			   struct fgt_builder *builder);

/* The verb targets; context: struct fgt_targets. */
void fgt_target_list_handle(void *context, struct fgt_control_client *client,
			    const struct fgt_request *request);

/* -ESRCH, with the remedy. */
int fgt_target_list_none_found(const struct fgt_selector *selector,
			       struct fgt_why *why);

/* For attach and detach: {pid, name} into the array that is open. */
void fgt_target_list_put_name(struct fgt_builder *builder,
			      const struct fgt_target *target);

#endif
