/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that clients pass (fault C5): which ones are taken, and how all
 * other descriptors are closed. A file of a file system in user space (FUSE)
 * may make close(2) wait for ever.
 *
 * Runs in the loop's thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_SOCKET_PASSED_FDS_H
#define FGT_AGENT_DAEMON_SOCKET_PASSED_FDS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * True if the bytes that wait in the socket begin a request to register, and
 * that user's descriptors that came before could be closed within 0.2 s. Where
 * there is no room for descriptors, the kernel drops them, and does not wait
 * for that.
 */
bool fgt_passed_fds_are_wanted(int socket_fd, uint32_t uid);

/* Closes fd on a separate thread. */
void fgt_passed_fd_discard(int fd, uint32_t uid);

#endif
