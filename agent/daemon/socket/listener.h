/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket on the file system: its directory, its lock, its name.
 *
 * Runs in the loop's thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_SOCKET_LISTENER_H
#define FGT_AGENT_DAEMON_SOCKET_LISTENER_H

#include <stdbool.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/base/why.h"

/* Embedded by its owner. */
struct fgt_listener {
	int fd; /* listening, non-blocking */
	int lock_fd; /* holds the lock as long as it is open */
	int spare_fd; /* given up to send a client away, see _accept */
	char path[108]; /* of the socket */
};

/*
 * Takes the lock beside the socket (agent.sock: agent.lock, which holds the
 * daemon's pid), removes a stale socket and listens (0660). is_default: path is
 * the default one, whose directory is made (0750) if it is missing.
 * -EADDRINUSE: another daemon holds the lock (why names its pid) or a program
 * listens; -ENAMETOOLONG; -ENOENT: no such directory; -EPERM: it belongs to
 * another user or other users may write to it; -EEXIST: something that is not a
 * socket has the name.
 */
int fgt_listener_open(const char *path, bool is_default,
		      struct fgt_listener *ret_listener, struct fgt_why *why);

/*
 * The next connection, non-blocking. -EAGAIN; -EMFILE: no descriptor was left
 * (or no memory), the connection has been sent away with an error: wait 100 ms
 * before the next.
 */
int fgt_listener_accept(struct fgt_listener *listener, int *ret_fd);

/* Removes the socket's name while the lock is still held. Idempotent. */
void fgt_listener_close(struct fgt_listener *listener);

#endif
