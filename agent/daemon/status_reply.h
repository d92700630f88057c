/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What status and targets tell; each key is listed in protocol.h.
 */
#ifndef FGT_AGENT_DAEMON_STATUS_REPLY_H
#define FGT_AGENT_DAEMON_STATUS_REPLY_H

#include "agent/daemon/service.h"
#include "agent/daemon/targets/target_verb.h"

/* Everything about the daemon itself. */
void fgt_status_reply_add(struct fgt_builder *builder,
			  struct fgt_service *service,
			  const struct fgt_peer *peer);
/* targets: those that the peer may see. */
void fgt_status_reply_add_targets(struct fgt_builder *builder,
				  struct fgt_service *service,
				  const struct fgt_peer *peer);
/* A visit that adds {pid, name} to the array that is open; context is the
 * builder. Any thread. */
void fgt_status_reply_add_name(void *context,
			       const struct fgt_target_view *view);

#endif
