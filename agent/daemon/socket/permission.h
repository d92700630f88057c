/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes a client of the control socket may see: those that its user
 * could trace. targets/gate.h asks this of targets, whose program may change.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_SOCKET_PERMISSION_H
#define FGT_AGENT_DAEMON_SOCKET_PERMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/capture/threads/owner.h"
#include "agent/daemon/socket/control.h"

/* Root sees all; others see plain processes of their uid and gid. */
bool fgt_owner_is_visible_to(const struct fgt_owner *owner,
			     const struct fgt_peer *peer);

/*
 * Is that process root here? Root of another user or pid namespace is not: it
 * could not trace the processes here. Where the namespaces cannot be read, an
 * ordinary user's agent believes root. peer_fd: a pidfd of the process.
 */
bool fgt_peer_is_root(int32_t pid, uint32_t uid, int peer_fd);

/* Is it root, or has it capabilities of root? */
bool fgt_agent_has_rights(void);

/* Does the uid stand for all users that the agent's user namespace has no
 * number for? They must not see each other's processes. */
bool fgt_uid_is_of_strangers(uint32_t uid);

/*
 * Do pids mean the same to that process as to the daemon? Where the namespace
 * cannot be read, only root is believed: a process that may not be examined, or
 * has ended, could name another user's process.
 */
bool fgt_pid_means_the_same_to(const struct fgt_peer *peer);

#endif
