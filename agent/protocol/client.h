/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of the control socket: one request, its replies.
 */
#ifndef FGT_AGENT_PROTOCOL_CLIENT_H
#define FGT_AGENT_PROTOCOL_CLIENT_H

#include "agent/protocol/protocol.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/base/why.h"

struct fgt_client;

/* A builder that holds "v" and "verb" already. -ENOMEM. */
int fgt_client_request_new(const char *verb, struct fgt_builder **ret_builder);

/*
 * Connects. -ENOENT and -ECONNREFUSED: no agent; -EACCES: not permitted;
 * -ENAMETOOLONG; -ETIMEDOUT; errno of socket and connect. why names the
 * socket and the remedy.
 */
int fgt_client_open(const char *socket_path, int timeout_ms,
		    struct fgt_client **ret_client, struct fgt_why *why);
void fgt_client_close(struct fgt_client *client);
FGT_DEFINE_AUTO(struct fgt_client *, fgt_client_close);

/* How long one _send or one _receive may take from now on, > 0; a slice whose
 * end lies in the future needs more. */
void fgt_client_set_timeout(struct fgt_client *client, int timeout_ms);

/* Finishes the builder and sends its frame. -ETIMEDOUT, -EPIPE, the
 * builder's error. */
int fgt_client_send(struct fgt_client *client, struct fgt_builder *request,
		    struct fgt_why *why);

/*
 * The next reply frame, whatever it says. -ETIMEDOUT; -ECONNRESET: the agent
 * closed the connection; -EBADMSG, also for a frame that is larger than
 * FGT_PROTOCOL_REPLY_MAX; -ENOMEM.
 */
int fgt_client_receive(struct fgt_client *client,
		       struct fgt_message **ret_reply, struct fgt_why *why);

/*
 * What a reply with "ok" says: 0, or its negative errno with its why.
 * -EPROTONOSUPPORT for another version (why names both), -EBADMSG.
 */
int fgt_client_check(const struct fgt_message *reply, struct fgt_why *why);

/* _send, _receive and _check in one. ret_reply is also set when the reply
 * says that the request failed, NULL when there is none. */
int fgt_client_call(struct fgt_client *client, struct fgt_builder *request,
		    struct fgt_message **ret_reply, struct fgt_why *why);

#endif
