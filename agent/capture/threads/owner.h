/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose a process is, as far as tracing it goes: its users, its groups, and
 * whether it has more rights than another process of its user.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_CAPTURE_THREADS_OWNER_H
#define FGT_AGENT_CAPTURE_THREADS_OWNER_H

#include <stdbool.h>
#include <stdint.h>

/* {0} belongs to root only. */
struct fgt_owner {
	uint32_t uid, gid;
	/* All its uids and gids are these, it has no capability and it is
	 * dumpable: another process of the same user could trace it. */
	bool is_plain;
};

/* Plain, and of the same user and group? */
bool fgt_owner_is_same(const struct fgt_owner *a, const struct fgt_owner *b);

/* -ESRCH: no such process, or the pid is another's by now; -ENODATA: it has no
 * memory (it is ending, or its first thread has ended), so that its files do
 * not show whose it is. */
int fgt_owner_read(int32_t pid, uint64_t start_time,
		   struct fgt_owner *ret_owner);
/* The same of a directory /proc/PID. */
int fgt_owner_read_at(int proc_fd, struct fgt_owner *ret_owner);

#endif
