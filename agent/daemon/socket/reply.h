/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The beginning of every reply, and error replies whole.
 */
#ifndef FGT_AGENT_DAEMON_SOCKET_REPLY_H
#define FGT_AGENT_DAEMON_SOCKET_REPLY_H

#include <stdint.h>

#include "agent/protocol/builder.h"

/* A builder that holds "v" and "ok": true. -ENOMEM. */
int fgt_reply_new(struct fgt_builder **ret_builder);

/* A builder that holds a whole error reply; keys may be added. -ENOMEM. */
int fgt_reply_new_error(int error, const char *why,
			struct fgt_builder **ret_builder);

/* Keys with numbers, into the map that is open. */
struct fgt_figure {
	const char *key;
	uint64_t value;
};
void fgt_reply_put_figures(struct fgt_builder *builder,
			   const struct fgt_figure *figures, size_t count);

/* Sends an error reply to a socket if it takes it at once. */
void fgt_reply_turn_away(int fd, int error, const char *why);

#endif
