/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients may do with targets: attach, detach, look, choose one; each
 * only with those that its user could trace (FAULTS C3, Z7).
 */
#ifndef FGT_AGENT_DAEMON_TARGETS_TARGET_VERB_H
#define FGT_AGENT_DAEMON_TARGETS_TARGET_VERB_H

#include "agent/daemon/socket/control.h"
#include "agent/daemon/targets/selector.h"
#include "agent/daemon/targets/targets.h"

#define FGT_TARGETS_PER_USER 32 /* that attach adds; root is not counted */

/* A target as the verbs see it; valid during the visit. */
struct fgt_target_view {
	struct fgt_target *target;
	enum fgt_origin origin;
	bool is_with_children;
};

/*
 * The verb: samples those that match and that the peer could trace, and tells
 * each to visit. -ESRCH none, -EPERM …; why is set.
 */
int fgt_target_verb_attach(
	struct fgt_targets *targets, const struct fgt_peer *peer,
	const struct fgt_selector *selector, bool is_with_children,
	void (*visit)(void *context, const struct fgt_target_view *view),
	void *context, struct fgt_why *why);

/* The verb: visit sees them for the last time. Children that came with one of
 * them go too. -ESRCH none that the peer may see. */
int fgt_target_verb_detach(struct fgt_targets *targets,
			   const struct fgt_peer *peer,
			   const struct fgt_selector *selector,
			   void (*visit)(void *context,
					 const struct fgt_target_view *view),
			   void *context, struct fgt_why *why);

/* Tells visit each that matches and that the peer may see; how many. */
size_t fgt_target_verb_for_each(
	struct fgt_targets *targets, const struct fgt_peer *peer,
	const struct fgt_selector *selector,
	void (*visit)(void *context, const struct fgt_target_view *view),
	void *context);

/*
 * The only one that matches, a new reference. Living ones go before ended
 * ones. -ESRCH none that the peer may see, -ENOTUNIQ several.
 */
int fgt_target_verb_find(struct fgt_targets *targets,
			 const struct fgt_peer *peer,
			 const struct fgt_selector *selector,
			 struct fgt_target **ret_target, struct fgt_why *why);

#endif
