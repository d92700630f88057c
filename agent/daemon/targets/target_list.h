/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients may see of the targets: find the one that a request means, or
 * list them in a reply; each only if the client's user could trace it.
 */
#ifndef FGT_AGENT_DAEMON_TARGETS_TARGET_LIST_H
#define FGT_AGENT_DAEMON_TARGETS_TARGET_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/daemon/socket/control.h"
#include "agent/daemon/targets/targets.h"

#define FGT_SELECTOR_NAME_MAX 64

/* Which targets a request means. pid 0 and name NULL: all. */
struct fgt_selector {
	int32_t pid;
	const char *name; /* the request's */
	bool is_own; /* the process pid itself asks, for its own past */
};

/* Reads pid, name and self. -EINVAL, with why. */
int fgt_selector_read(const struct fgt_control_client *client,
		      const struct fgt_message *request,
		      struct fgt_selector *ret_selector, struct fgt_why *why);

/*
 * The only one that matches, a new reference. Living ones go before ended
 * ones. -ESRCH none that the peer may see, -ENOTUNIQ several.
 */
int fgt_target_list_find(struct fgt_targets *targets,
			 const struct fgt_peer *peer,
			 const struct fgt_selector *selector,
			 struct fgt_target **ret_target, struct fgt_why *why);

/* targets: [{pid, name}] of those that match; running_only: without those that
 * have ended. Any thread. */
void fgt_target_list_put_names(struct fgt_targets *targets,
			       const struct fgt_peer *peer,
			       const struct fgt_selector *selector,
			       bool running_only, struct fgt_builder *builder);

/* targets: [target], rules: [rule]; all that the peer may see. Returns the
 * number of targets. */
size_t fgt_target_list_put(struct fgt_targets *targets,
			   const struct fgt_peer *peer,
			   struct fgt_builder *builder);

/* The verb targets; context: struct fgt_targets. */
void fgt_target_list_handle(void *context, struct fgt_control_client *client,
			    const struct fgt_message *request);

/* -ESRCH, with the remedy. */
int fgt_target_list_none_found(const struct fgt_selector *selector,
			       struct fgt_why *why);

/* For attach and detach: {pid, name} into the array that is open. */
struct fgt_target;
void fgt_target_list_put_name(struct fgt_builder *builder,
			      const struct fgt_target *target);

#endif
