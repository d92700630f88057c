/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message as JSON, for --json.
 */
#ifndef FGT_AGENT_PROTOCOL_MESSAGE_JSON_H
#define FGT_AGENT_PROTOCOL_MESSAGE_JSON_H

#include "agent/protocol/message.h"
#include "ringbuf/base/sink.h"

/* The whole map in one line; bin becomes base64. Errors of the sink. */
int fgt_message_to_json(const struct fgt_message *message,
			const struct fgt_sink *sink);

#endif
