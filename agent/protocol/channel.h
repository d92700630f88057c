/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to the agent. Every step ends at a deadline (CLOCK_MONOTONIC),
 * whatever the agent does; SIGPIPE is never raised.
 *
 * MT-Unsafe for one channel | AS-Unsafe, except close
 */
#ifndef FGT_AGENT_PROTOCOL_CHANNEL_H
#define FGT_AGENT_PROTOCOL_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol/builder.h"
#include "agent/protocol/message.h"
#include "ringbuf/base/fd.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/base/why.h"

#define FGT_CHANNEL_FDS_MAX 2

/* The program may close any descriptor and get its number for a file. */
struct fgt_channel {
	int fd; /* -1: closed */
	struct fgt_file_id socket;
};

/*
 * -ENOENT, -ECONNREFUSED: no agent; -EACCES; -ETIMEDOUT; -ENAMETOOLONG; -EPERM:
 * is_checked, and the agent runs as neither root nor this user; errno of
 * socket(2).
 */
int fgt_channel_open(const char *path, bool is_checked, uint64_t deadline_ns,
		     struct fgt_channel *ret_channel);
/* Closes only the descriptor that was opened; idempotent. AS-Safe. */
void fgt_channel_close(struct fgt_channel *channel);
static inline void fgt_channel_close_auto(struct fgt_channel *channel)
{
	fgt_channel_close(channel);
}

/* Sets why for an error of open, send or receive; returns the error. */
int fgt_channel_explain(int error, const char *path, struct fgt_why *why);

/*
 * Finishes the request and sends it, with the descriptors. 0 also where the
 * agent has hung up: it may have replied before, so receive next. -ETIMEDOUT;
 * -EBADF: the program has closed the descriptor; errors of the builder.
 */
int fgt_channel_send(const struct fgt_channel *channel,
		     struct fgt_builder *request, const int *fds,
		     unsigned int fd_count, uint64_t deadline_ns);

/*
 * The next frame. -ETIMEDOUT; -ECONNRESET: the agent hung up; -EBADMSG: a frame
 * without bytes, above FGT_PROTOCOL_REPLY_MAX or malformed; -ENOMEM; -EBADF.
 */
int fgt_channel_receive(const struct fgt_channel *channel, uint64_t deadline_ns,
			struct fgt_message **ret_message);

/* Until there is something to receive. -ETIMEDOUT, -EBADF. */
int fgt_channel_wait(const struct fgt_channel *channel, uint64_t deadline_ns);

/*
 * Sends the request and receives its reply. Errors of both, with why left as it
 * was; errors of fgt_message_check_reply(), with why set. ret_reply is also set
 * when the reply is an error, else NULL.
 */
int fgt_channel_call(const struct fgt_channel *channel,
		     struct fgt_builder *request, uint64_t deadline_ns,
		     struct fgt_message **ret_reply, struct fgt_why *why);
/* The second half of it. */
int fgt_channel_receive_reply(const struct fgt_channel *channel,
			      uint64_t deadline_ns,
			      struct fgt_message **ret_reply,
			      struct fgt_why *why);

/*
 * The file after the reply to `slice`, up to its end. Each frame must come
 * within frame_ns (0: no such limit), all of them before deadline_ns. Errors
 * as _receive_reply, of the sink, and -EBADMSG with why set: it is incomplete.
 */
int fgt_channel_receive_file(const struct fgt_channel *channel,
			     const struct fgt_sink *sink, uint64_t frame_ns,
			     uint64_t deadline_ns, struct fgt_why *why);

/* True if the agent has hung up or has sent what was not asked for. */
bool fgt_channel_is_dead(const struct fgt_channel *channel);

#endif
