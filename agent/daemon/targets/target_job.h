/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests attach and detach: they wait for the sampler and read files of
 * processes, so they run as jobs.
 */
#ifndef FGT_AGENT_DAEMON_TARGETS_TARGET_JOB_H
#define FGT_AGENT_DAEMON_TARGETS_TARGET_JOB_H

#include <stdbool.h>

#include "agent/daemon/service.h"
#include "agent/daemon/socket/control.h"
#include "agent/daemon/targets/selector.h"

/* What is asked for. */
struct fgt_target_order {
	struct fgt_selector selector; /* copied, the name too */
	bool is_attach; /* else detach */
	bool is_with_children;
};

/* Answers the client in the end, whatever happens. */
void fgt_target_job_submit(struct fgt_service *service,
			   struct fgt_control_client *client,
			   const struct fgt_target_order *order);

#endif
