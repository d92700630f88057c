/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes a client of the control socket may see: those that its user
 * could trace.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_SOCKET_PERMISSION_H
#define FGT_AGENT_DAEMON_SOCKET_PERMISSION_H

#include <stdbool.h>
#include <stdint.h>

/* The owner of a process, as far as tracing it goes. */
struct fgt_owner {
	uint32_t uid, gid;
	/* All its uids and gids are these, it has no capability and it is
	 * dumpable: another process of the same user could trace it. */
	bool is_plain;
};

/* -ESRCH: no such process, or the pid is another's by now. */
int fgt_owner_read(int32_t pid, uint64_t start_time,
		   struct fgt_owner *ret_owner);

/* Root sees all; others see plain processes of their uid and gid. */
bool fgt_owner_is_visible_to(const struct fgt_owner *owner, uint32_t uid,
			     uint32_t gid);

/*
 * Do pids mean the same to that process as to the daemon? Where the namespace
 * cannot be read, only root is believed: a process that may not be examined, or
 * has ended, could name another user's process.
 */
bool fgt_pid_means_the_same_to(int32_t peer_pid, uint32_t peer_uid);

#endif
