/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the control socket go to their verbs.
 */
#ifndef FGT_AGENT_DAEMON_REQUEST_H
#define FGT_AGENT_DAEMON_REQUEST_H

#include "agent/daemon/socket/control.h"

/* A verb: answers the client in the end, see fgt_control_options.handle. */
struct fgt_request_verb {
	const char *name; /* NULL ends a table */
	void (*handle)(void *context, struct fgt_control_client *client,
		       const struct fgt_message *request);
	void *context;
};

/* context: a table of verbs. See fgt_control_options.handle. */
void fgt_request_handle(void *context, struct fgt_control_client *client,
			const struct fgt_message *request);

#endif
