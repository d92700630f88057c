/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client of the control socket, as control.c (limits) and control_client.c
 * (requests and replies) share it. Only for these two.
 *
 * Runs in the loop's thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_SOCKET_CONTROL_CLIENT_H
#define FGT_AGENT_DAEMON_SOCKET_CONTROL_CLIENT_H

#include <sys/queue.h>

#include "agent/daemon/socket/control.h"

enum fgt_client_state {
	FGT_CLIENT_READS, /* its request is not complete */
	FGT_CLIENT_AT_FRONT, /* a front reads its request */
	FGT_CLIENT_PARKED, /* a verb will reply later */
	FGT_CLIENT_LENT, /* another thread answers */
	FGT_CLIENT_WRITES, /* its reply is on the way */
};

struct fgt_control_client {
	struct fgt_control *control;
	LIST_ENTRY(fgt_control_client) link;
	struct fgt_peer peer;
	enum fgt_client_state state;
	uint64_t since_ns; /* when it connected */
	struct fgt_watch watch;
	struct fgt_timer timer;
	uint8_t *bytes; /* the request with its length, or the reply */
	size_t len, capacity, written;
	int fds[FGT_CONTROL_FDS_MAX]; /* that came with the first request */
	unsigned int fd_count;
	struct fgt_reading reading; /* of its request by a front */
	void (*gone)(void *context); /* while it is parked */
	void *gone_context;
	bool has_place; /* among those that stay; it may wait for _keep still */
	/* Handles its requests; gone is not NULL if it stays. */
	struct fgt_control_keeper keeper;
	size_t large_bytes; /* of the control's, its own */
	bool is_ending; /* after this reply, even if it was to stay */
	bool is_adopted; /* fgt_control_adopt() */
};

struct fgt_control {
	struct fgt_loop *loop;
	struct fgt_control_options options;
	struct fgt_listener *listener;
	struct fgt_fronts *fronts;
	struct fgt_watch watch; /* of the listener */
	struct fgt_timer back_off;
	LIST_HEAD(, fgt_control_client) clients; /* newest first */
	size_t count, kept_count; /* count: those with a place included */
	uint64_t empty_ns; /* when no connection waited, last */
	size_t large_bytes; /* of requests that those that stay are sending */
};

/* A pidfd of the process that made the connection, as fgt_control_open_peer().
 */
int fgt_control_peer_pidfd(int connection_fd, int32_t pid);

/* fgt_watch and fgt_timer of a client. */
void fgt_control_client_ready(void *context, uint32_t events);
void fgt_control_client_expired(void *context);

/* Its request has been read: fgt_reading's done. */
void fgt_control_client_asks(void *context, const struct fgt_request *request);

static inline bool
fgt_control_client_is_kept(const struct fgt_control_client *client)
{
	return client->keeper.gone;
}

/* Its request is complete: do not too many wait for an answer already? Sets
 * why. */
bool fgt_control_client_may_ask(const struct fgt_control_client *client,
				struct fgt_why *why);

#endif
