/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon consists of while it runs: the parts that requests use.
 */
#ifndef FGT_AGENT_DAEMON_SERVICE_H
#define FGT_AGENT_DAEMON_SERVICE_H

#include "agent/capture/sampler.h"
#include "agent/config/config.h"
#include "agent/daemon/delivery/deliveries.h"
#include "agent/daemon/delivery/delivery_recent.h"
#include "agent/daemon/loop/jobs.h"
#include "agent/daemon/programs/registration.h"
#include "agent/daemon/slices/slices.h"
#include "agent/daemon/socket/control.h"
#include "agent/daemon/targets/targets.h"

/* Owned by daemon.c; everything in it is the loop's, but for what jobs do
 * with the targets. */
struct fgt_service {
	struct fgt_loop *loop;
	struct fgt_control *control;
	struct fgt_sampler *sampler;
	struct fgt_jobs *jobs;
	struct fgt_targets *targets;
	struct fgt_slices *slices;
	struct fgt_registrations *registrations;
	struct fgt_deliveries *deliveries;
	struct fgt_delivery_recent accepted; /* of those */
	struct fgt_config *config; /* in force */
	const char *socket_path;
	uint64_t started_ns;
	uint64_t crashes; /* registered processes ended by a signal */
	uint64_t reloads, reload_failed;
	struct fgt_why reload_why; /* of the last one that failed */
};

#endif
