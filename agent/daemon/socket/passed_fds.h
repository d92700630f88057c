/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that clients pass (fault C5): which ones are taken, and how all
 * other descriptors are closed. The last close of a descriptor may wait for
 * ever: a file of a file system in user space (FUSE), a socket that lingers
 * (SO_LINGER). The kernel closes those for which there is no room where a
 * message is received, and those of a connection that is closed with bytes
 * unread: both would keep the loop.
 *
 * Runs in the loop's thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_SOCKET_PASSED_FDS_H
#define FGT_AGENT_DAEMON_SOCKET_PASSED_FDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Copies at most len bytes that wait in a socket with SO_PASSCRED. Are there
 * descriptors beside them? Their count, 0 at the end, negative errno.
 */
ssize_t fgt_passed_fds_look(int socket_fd, void *bytes, size_t len,
			    bool *ret_are_there);

/*
 * True if the bytes that wait in the socket begin a request to register, and
 * that user's descriptors that came before could be closed within 0.2 s.
 */
bool fgt_passed_fds_are_wanted(int socket_fd, uint32_t uid);

/* Ends a client's connection without waiting for what it has passed. */
void fgt_connection_close(int socket_fd);

#endif
