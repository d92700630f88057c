/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that becomes a websocket: sends a stream of events as text
 * frames, answers pings, takes no message.
 *
 * Runs in the thread of its connection, until the stream or the client ends.
 * AS-Unsafe
 */
#ifndef FGT_AGENT_HTTP_UPGRADE_H
#define FGT_AGENT_HTTP_UPGRADE_H

#include <stddef.h>

#include "agent/http/live.h"

/*
 * The life of the websocket on fd. live is borrowed; its events are frames.
 * extra: what the client has sent behind its request. fd stays open.
 */
void fgt_web_upgraded(struct fgt_web_live *live, int fd, const char *extra,
		      size_t extra_len);

#endif
