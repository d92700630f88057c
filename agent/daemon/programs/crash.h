/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered processes that ended without bye: where a signal ended them, their
 * last seconds are delivered.
 */
#ifndef FGT_AGENT_DAEMON_PROGRAMS_CRASH_H
#define FGT_AGENT_DAEMON_PROGRAMS_CRASH_H

#include <stdbool.h>

#include "agent/daemon/delivery/deliveries.h"
#include "agent/daemon/programs/registration.h"

/*
 * Its pidfd is readable. True: a signal ended it that is not a request to
 * end (see fgt_death_is_asked_for), or the cause is not known. The result goes to the log and, if it named a destination, to deliveries, within
 * limits.
 */
bool fgt_crash_examine(struct fgt_deliveries *deliveries,
		       const struct fgt_upload_limits *limits,
		       const struct fgt_registration *registration);

#endif
