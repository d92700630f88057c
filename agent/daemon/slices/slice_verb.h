/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verb slice: reads the request, finds its target, and maps its times by
 * the clock anchors of the target's ring, so that one request is enough.
 */
#ifndef FGT_AGENT_DAEMON_SLICES_SLICE_VERB_H
#define FGT_AGENT_DAEMON_SLICES_SLICE_VERB_H

#include "agent/daemon/slices/slices.h"
#include "agent/daemon/targets/targets.h"

struct fgt_slice_verb {
	struct fgt_slices *slices;
	struct fgt_targets *targets;
};

/* context: struct fgt_slice_verb. Answers the client in the end. */
void fgt_slice_verb_handle(void *context, struct fgt_control_client *client,
			   const struct fgt_message *request);

#endif
