/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process says of itself when it registers.
 */
#ifndef FGT_AGENT_DAEMON_PROGRAMS_REGISTRATION_REQUEST_H
#define FGT_AGENT_DAEMON_PROGRAMS_REGISTRATION_REQUEST_H

#include "agent/daemon/programs/registration.h"

/*
 * Fills in what the request tells, and takes the descriptors that came with
 * it, also on errors. -EINVAL, with why.
 */
int fgt_registration_read(struct fgt_registration *facts,
			  struct fgt_control_client *client,
			  const struct fgt_message *request,
			  struct fgt_why *why);

#endif
