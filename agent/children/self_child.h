/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child that executes this program again: it gets nothing of the parent's
 * memory, and only the descriptors and the environment that it needs. What the
 * child then gives up: agent/children/confinement.h.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_CHILDREN_SELF_CHILD_H
#define FGT_AGENT_CHILDREN_SELF_CHILD_H

#include <stdbool.h>

struct fgt_self_child {
	const char *path; /* what to execute, NULL: /proc/self/exe */
	char **arguments; /* by which it knows what it is; NULL ends */
	int fd; /* becomes its child_fd; all other descriptors are CLOEXEC */
	int child_fd;
	bool is_on_network; /* gets the administrator's proxies, too */
};

/*
 * It is a child of this process: its death sends SIGCHLD. *ret_pid_fd is the
 * only handle on it. -EAGAIN: it could not be started.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_self_child_start(const struct fgt_self_child *child, int *ret_pid_fd);

/* pid_fd may be -1: nothing is done, it has ended. */
void fgt_self_child_kill(int pid_fd);
/* False: it has not ended yet. Else pid_fd is closed. */
bool fgt_self_child_reap(int pid_fd);
/* Both: ends it if it still runs, and waits for it, for a second at most. */
void fgt_self_child_end(int pid_fd);

#endif
