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

#include <microhttpd.h>

#include "agent/http/live.h"

/* live is borrowed, until the request is completed; its events are frames. NULL
 * without memory. */
struct MHD_Response *fgt_web_upgrade(struct fgt_web_live *live);

#endif
