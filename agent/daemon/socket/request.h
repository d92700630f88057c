/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the control socket become work: one function a verb.
 */
#ifndef FGT_AGENT_DAEMON_SOCKET_REQUEST_H
#define FGT_AGENT_DAEMON_SOCKET_REQUEST_H

#include "agent/daemon/service.h"
#include "agent/daemon/socket/control.h"

/* context: struct fgt_service. See fgt_control_options.handle. */
void fgt_request_handle(void *context, struct fgt_control_client *client,
			const struct fgt_message *request);

#endif
