/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines of deliveries. Runs in the daemon's loop; must not get a secret.
 */
#ifndef FGT_AGENT_DAEMON_DELIVERY_DELIVERY_LOG_H
#define FGT_AGENT_DAEMON_DELIVERY_DELIVERY_LOG_H

#include <stdint.h>

#include "agent/daemon/delivery/delivery_child.h"

/* Which one, after so many tries. */
struct fgt_delivery_about {
	int32_t pid;
	const char *name;
	unsigned int tries;
};

void fgt_delivery_log_done(const struct fgt_delivery_about *about,
			   const struct fgt_delivery_result *result);
/* Warns after the first, the second and the fourth try, and so on. */
void fgt_delivery_log_retry(const struct fgt_delivery_about *about,
			    uint64_t seconds, unsigned int tries_max,
			    const char *why);
/* where: "" if it is not known. */
void fgt_delivery_log_given_up(const struct fgt_delivery_about *about,
			       const char *where, const char *why);

#endif
