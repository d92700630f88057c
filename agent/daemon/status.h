/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon is and may do: the verb status, whose keys
 * agent/protocol/README.md lists, and the first lines of the log.
 *
 * Runs in the loop's thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_STATUS_H
#define FGT_AGENT_DAEMON_STATUS_H

#include "agent/capture/sampler.h"
#include "agent/config/config.h"
#include "agent/daemon/delivery/deliveries.h"
#include "agent/daemon/http/http_service.h"
#include "agent/daemon/loop/watchdog.h"
#include "agent/daemon/programs/registration.h"
#include "agent/daemon/slices/slices.h"
#include "agent/daemon/socket/control.h"
#include "agent/daemon/spool/spooler.h"
#include "agent/daemon/targets/targets.h"

/* The parts whose figures a reply shows, borrowed, and the daemon's own. Only
 * the loop's. */
struct fgt_daemon_status {
	struct fgt_config *const *config; /* the one in force */
	struct fgt_sampler *sampler;
	struct fgt_image_cache *cache;
	struct fgt_control *control;
	struct fgt_targets *targets;
	struct fgt_slices *slices;
	struct fgt_registrations *registrations;
	struct fgt_deliveries *deliveries;
	struct fgt_spooler *spooler;
	struct fgt_watchdog *watchdog;
	struct fgt_web_service *http; /* NULL: none */
	const char *socket_path;
	uint64_t started_ns;
	uint64_t reloads, reload_failed;
	struct fgt_why reload_why; /* of the last one, if it failed */
	bool is_refusal_logged; /* of the cache */
};

void fgt_daemon_status_log(const struct fgt_daemon_status *status);

/* Once a second: logs the first time that something is refused in silence. */
void fgt_daemon_status_watch(struct fgt_daemon_status *status);

/* context: struct fgt_daemon_status. */
void fgt_daemon_status_handle(void *context, struct fgt_control_client *client,
			      const struct fgt_request *request);

#endif
