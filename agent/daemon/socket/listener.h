/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket on the file system: its directory, its lock, its name.
 */
#ifndef FGT_AGENT_DAEMON_SOCKET_LISTENER_H
#define FGT_AGENT_DAEMON_SOCKET_LISTENER_H

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
 * Makes the directory (0750) if it is missing, takes the lock beside the
 * socket (agent.sock: agent.lock, with our pid inside), removes a stale
 * socket and listens (0660). -EADDRINUSE: another daemon holds the lock (why
 * names its pid) or somebody listens; -ENAMETOOLONG; -EPERM: the directory
 * belongs to somebody else or others may write to it; -EEXIST: something that
 * is not a socket has the name.
 */
int fgt_listener_open(const char *path, struct fgt_listener *ret_listener,
		      struct fgt_why *why);

/*
 * The next connection, non-blocking. -EAGAIN; -EMFILE: no descriptor was left
 * (or no memory), the connection has been sent away with an error: rest a
 * little before the next (FAULTS T6).
 */
int fgt_listener_accept(struct fgt_listener *listener, int *ret_fd);

/* Removes the socket's name while the lock is still held. Idempotent. */
void fgt_listener_close(struct fgt_listener *listener);

#endif
