/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of the control socket: takes one request of each, has it read by a
 * front, writes replies, and keeps each client from using up what other clients
 * need.
 *
 * Runs in the loop's thread; _turn_away in any thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_SOCKET_CONTROL_H
#define FGT_AGENT_DAEMON_SOCKET_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "agent/daemon/loop/loop.h"
#include "agent/daemon/requests/fronts.h"
#include "agent/daemon/requests/request.h"
#include "agent/daemon/socket/listener.h"
#include "agent/protocol/builder.h"
#include "ringbuf/base/owner.h"

#define FGT_CONTROL_CLIENTS_MAX 64 /* the last one is kept for root */
#define FGT_CONTROL_PER_USER	8 /* root is not counted */
/* In addition: clients that connected less than a second ago and have not asked
 * yet. Many come at once where many programs start. */
#define FGT_CONTROL_YOUNG_MAX	   96
#define FGT_CONTROL_YOUNG_PER_USER 24 /* root is not counted */
#define FGT_CONTROL_YOUNG_MS	   1000
/* In addition: closed connections, while their reply is still being made. */
#define FGT_CONTROL_GONE_MAX 8
/* Connections that stay open have separate limits. */
#define FGT_CONTROL_KEPT_MAX	  512
#define FGT_CONTROL_KEPT_PER_USER 64 /* root is not counted */
#define FGT_CONTROL_FDS_MAX	  2 /* that a client may pass */
/* Bytes of requests above 1 MiB that are being read, of all clients together.
 */
#define FGT_CONTROL_LARGE_BYTES ((size_t)64 << 20)

struct fgt_control;
struct fgt_control_client;

/* The process that connected, by SO_PEERCRED. */
struct fgt_peer {
	int32_t pid;
	uint32_t uid, gid;
	bool is_root; /* sees all: see permission.h */
	bool is_stranger; /* its uid is that of several users */
	/* It did not connect before then: no other connection waited. */
	uint64_t since_ns;
	/* The request was sent by that very process: not by one that it passed
	 * the connection on to, nor by a child. */
	bool is_sender;
};

struct fgt_control_options {
	/*
	 * A request is complete and has been read. Exactly one of _reply,
	 * _fail, _park and _lend follows, before this returns. request is
	 * gone afterwards, and its frame from the first of these on.
	 */
	void (*handle)(void *context, struct fgt_control_client *client,
		       const struct fgt_request *request);
	void *context;
	unsigned int request_timeout_ms; /* 0: 5000 */
	unsigned int stall_timeout_ms; /* 0: 30000, no progress of a reply */
	struct fgt_fronts_options fronts; /* tests */
};

/* The owner of a connection that stays open. */
struct fgt_control_keeper {
	/* Takes each later request, with the duties of fgt_control_options.
	 * handle. They come one after the other: each is answered before the
	 * next is read. */
	void (*handle)(void *context, struct fgt_control_client *client,
		       const struct fgt_request *request);
	/* The connection has ended; the client is freed. */
	void (*gone)(void *context);
	void *context;
};

/* The listener is borrowed. -ENOMEM, errno of epoll_ctl. */
int fgt_control_new(struct fgt_loop *loop, struct fgt_listener *listener,
		    const struct fgt_control_options *options,
		    struct fgt_control **ret_control);
/* No client may be lent out any more. */
void fgt_control_free(struct fgt_control *control);
FGT_DEFINE_AUTO(struct fgt_control *, fgt_control_free);

/*
 * Makes a client of one end of a socketpair that this process has made, whose
 * other end one of its children has: with the rights of the daemon's user, and
 * the limits of its clients. fd is the control's in any case. handle: as in the
 * options. Requests are read by the front of that uid, which is no user's.
 */
void fgt_control_adopt(struct fgt_control *control, int fd, uint32_t front_uid,
		       void (*handle)(void *context,
				      struct fgt_control_client *client,
				      const struct fgt_request *request),
		       void *context);
/* It is such a client: another user may see what it gets. */
bool fgt_control_is_adopted(const struct fgt_control_client *client);

/* Takes no new clients and sends those away that have not asked yet. */
void fgt_control_leave(struct fgt_control *control);
/* To be called often, so that since_ns of peers is recent: looks whether
 * connections wait. */
void fgt_control_look(struct fgt_control *control);
/* Once a second: that, and fgt_fronts_tend(). */
void fgt_control_tend(struct fgt_control *control);
/* Clients, without those whose connection stays open. */
size_t fgt_control_count(const struct fgt_control *control);

const struct fgt_peer *
fgt_control_peer(const struct fgt_control_client *client);

/*
 * A pidfd of the process that connected, the caller's; readable once it has
 * ended. Before Linux 6.5: of the process that has its pid now. -ESRCH: it has
 * ended.
 */
int fgt_control_open_peer(const struct fgt_control_client *client);

/* The bytes of its request, as they came: unchecked. */
const uint8_t *fgt_control_frame(const struct fgt_control_client *client);

/* Has it sent more than its request? */
bool fgt_control_has_unread(const struct fgt_control_client *client);

/* Writes the frame, then closes (unless it stays). The builder is copied; NULL:
 * the error that memory ran out. */
void fgt_control_reply(struct fgt_control_client *client,
		       struct fgt_builder *reply);
/* The same with an error; why is one line. */
void fgt_control_fail(struct fgt_control_client *client, int error,
		      const char *why);

/* Sends an error reply to any socket if it takes it at once. */
void fgt_control_turn_away(int fd, int error, const char *why);

/*
 * The answer comes later, by _reply, _fail or _lend. gone is called if the
 * client hangs up before; the client is no more when it returns.
 */
void fgt_control_park(struct fgt_control_client *client,
		      void (*gone)(void *context), void *context);

/*
 * It is to stay open: from now on it counts among those that stay, no longer
 * among the clients, however long its request may take. -EUSERS: too many.
 */
int fgt_control_reserve(struct fgt_control_client *client);

/* A connection that has its place stays open beyond the answer to this
 * request. */
void fgt_control_keep(struct fgt_control_client *client,
		      const struct fgt_control_keeper *keeper);

/* The next descriptor that came with the request, a memfd that is sealed
 * against shrinking (any other has been closed); the caller's. -ENOENT. */
int fgt_control_take_fd(struct fgt_control_client *client);

/*
 * Lends the descriptor to another thread, which writes the answer; the loop
 * does not use it until _close.
 */
int fgt_control_lend(struct fgt_control_client *client);

/* Ends the connection in any state and frees the client. The gone of a keeper
 * is called before this returns, that of _park is not. */
void fgt_control_close(struct fgt_control_client *client);

/* ---- Verbs ------------------------------------------------------------- */

struct fgt_control_verb {
	/* Takes a request of this verb, with the duties of
	 * fgt_control_options.handle. */
	void (*handle)(void *context, struct fgt_control_client *client,
		       const struct fgt_request *request);
	void *context;
};

/* For the handle of the options: calls the verb. context: a table of
 * FGT_REQUEST_VERBS. */
void fgt_control_dispatch(void *context, struct fgt_control_client *client,
			  const struct fgt_request *request);

#endif
