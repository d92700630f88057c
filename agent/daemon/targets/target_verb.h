/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs attach and detach. They wait for the sampler and read files of
 * processes, so they run as jobs; each acts only on processes that the
 * client's user could trace.
 */
#ifndef FGT_AGENT_DAEMON_TARGETS_TARGET_VERB_H
#define FGT_AGENT_DAEMON_TARGETS_TARGET_VERB_H

#include "agent/daemon/socket/control.h"

#define FGT_TARGETS_PER_USER 32 /* that attach adds; root is not counted */

/* context: struct fgt_targets. Each answers the client in the end. */
void fgt_target_verb_attach(void *context, struct fgt_control_client *client,
			    const struct fgt_message *request);
void fgt_target_verb_detach(void *context, struct fgt_control_client *client,
			    const struct fgt_message *request);

#endif
