/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server: libmicrohttpd, with a thread for each connection, and what
 * every answer has in common. One request a connection.
 */
#ifndef FGT_AGENT_HTTP_SERVER_H
#define FGT_AGENT_HTTP_SERVER_H

#include "agent/http/guard.h"
#include "agent/http/source.h"
#include "ringbuf/base/owner.h"
#include "upload/format/parts/options.h"

struct fgt_web_server;

struct fgt_web_options {
	int listen_fd; /* the server's from a success on */
	const struct fgt_web_guard *guard; /* copied */
	const struct fgt_web_source *source; /* outlives the server */
	enum fgt_state_frames state_frames;
};

/* Starts its thread, which gets no signal. -EAGAIN, -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_web_server_new(const struct fgt_web_options *options,
		       struct fgt_web_server **ret_server);

/* Several times a second, in one thread: time limits. */
void fgt_web_server_tend(struct fgt_web_server *server);

/* Closes all connections; waits until the slices under way are cut. */
void fgt_web_server_free(struct fgt_web_server *server);
FGT_DEFINE_AUTO(struct fgt_web_server *, fgt_web_server_free);

#endif
