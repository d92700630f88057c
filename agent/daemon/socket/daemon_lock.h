/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock that decides which daemon has a control socket (fault R6).
 *
 * Runs in the daemon's main thread at start. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_SOCKET_DAEMON_LOCK_H
#define FGT_AGENT_DAEMON_SOCKET_DAEMON_LOCK_H

#include <stdbool.h>

#include "ringbuf/base/why.h"

#define FGT_CHOOSE_ANOTHER ": choose another socket path"

/*
 * Takes the lock beside the socket (agent.sock: agent.lock, which holds the
 * daemon's pid); it is held as long as the descriptor is open.
 * ret_is_taken_over: from a daemon that was killed and cannot end, since the
 * kernel waits for a file system in one of its threads: its socket is stale,
 * even if the kernel accepts connections. -EADDRINUSE: another daemon holds
 * it (why names its pid); -EEXIST: its file is not one; errno of openat(2),
 * flock(2), write(2).
 */
int fgt_daemon_lock_take(int directory_fd, const char *socket_path, int *ret_fd,
			 bool *ret_is_taken_over, struct fgt_why *why);

#endif
