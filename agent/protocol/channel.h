/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to the agent on which every step ends at a deadline, whatever
 * the other side does; SIGPIPE is never raised.
 */
#ifndef FGT_AGENT_PROTOCOL_CHANNEL_H
#define FGT_AGENT_PROTOCOL_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/fd.h"

#define FGT_CHANNEL_FDS_MAX 2

/* A program may close descriptors that are not its own and get the number
 * again for a file. */
struct fgt_channel {
	int fd; /* -1: closed */
	struct fgt_file_id socket;
};

/*
 * Deadlines are CLOCK_MONOTONIC. -ENOENT, -ECONNREFUSED: no agent; -EACCES;
 * -ETIMEDOUT; -ENAMETOOLONG; -EPERM: is_checked, and it runs as neither root
 * nor this user; errno of socket(2).
 */
int fgt_channel_open(const char *path, bool is_checked, uint64_t deadline_ns,
		     struct fgt_channel *ret_channel);
/* Only the descriptor that was opened; idempotent. */
void fgt_channel_close(struct fgt_channel *channel);

/* -ETIMEDOUT, -EPIPE, -ECONNRESET, -EBADF: the program has closed it. */
int fgt_channel_send(const struct fgt_channel *channel, const uint8_t *bytes,
		     size_t len, const int *fds, unsigned int fd_count,
		     uint64_t deadline_ns);

/*
 * One frame's body into a buffer that grows, up to max_bytes. -ETIMEDOUT,
 * -ECONNRESET, -EBADMSG: empty or too long; -ENOMEM, -EBADF.
 */
struct fgt_channel_frame {
	uint8_t *bytes; /* of malloc() */
	size_t len, capacity;
};
int fgt_channel_receive(const struct fgt_channel *channel,
			struct fgt_channel_frame *frame, size_t max_bytes,
			uint64_t deadline_ns);

/* Has the other side hung up, or said what nobody asked for? */
bool fgt_channel_is_dead(const struct fgt_channel *channel);

#endif
