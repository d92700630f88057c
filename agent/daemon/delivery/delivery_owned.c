/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries that the configuration alone orders. Runs in the daemon's loop.
 */
#include "agent/daemon/delivery/deliveries.h"

#include <unistd.h>

#include "agent/config/config.h"

int fgt_deliveries_submit_owned(struct fgt_deliveries *deliveries,
				const struct fgt_config *config,
				const struct fgt_delivery_order *order,
				const char *place, struct fgt_why *why)
{
	const struct fgt_upload_limits limits = {
		.ca_file = config->upload.ca_file,
		.is_http_allowed = config->upload.is_http_allowed,
	};
	const struct fgt_delivery_asker asker = { .destination = place,
						  .uid = geteuid() };
	struct fgt_delivery_order owned = *order;

	owned.uid = geteuid();
	owned.gid = getegid();
	owned.gate = (struct fgt_gate){ .peer = { .pid = getpid(),
						  .uid = owned.uid,
						  .gid = owned.gid,
						  .is_root = owned.uid == 0 },
					.asked_ns = fgt_loop_now() };
	owned.limits = &limits;
	return fgt_deliveries_route(deliveries, &owned, &asker, why);
}
