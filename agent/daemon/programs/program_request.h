/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs send: the arguments of register, and the verb deliver.
 */
#ifndef FGT_AGENT_DAEMON_PROGRAMS_PROGRAM_REQUEST_H
#define FGT_AGENT_DAEMON_PROGRAMS_PROGRAM_REQUEST_H

#include "agent/daemon/delivery/deliveries.h"
#include "agent/daemon/programs/registration.h"

/*
 * Fills in what the request holds, and takes the descriptors that came with
 * it, also on errors. -EINVAL, with why.
 */
int fgt_registration_read(struct fgt_registration *facts,
			  struct fgt_control_client *client,
			  const struct fgt_message *request,
			  struct fgt_why *why);

/* The verb deliver of a registered process: answers the client. limits: of the
 * configuration in force. */
void fgt_program_deliver(struct fgt_deliveries *deliveries,
			 const struct fgt_upload_limits *limits,
			 const struct fgt_registration *registration,
			 struct fgt_control_client *client,
			 const struct fgt_message *request);

#endif
