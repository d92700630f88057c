/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child that executes this program again: it gets nothing of the parent's
 * memory, one descriptor (the rest is CLOEXEC), and only the environment that
 * it needs. What the child then gives up: agent/children/confinement.h.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_CHILDREN_SELF_CHILD_H
#define FGT_AGENT_CHILDREN_SELF_CHILD_H

#include <stdbool.h>
#include <stdint.h>

#define FGT_SELF_CHILD_FD 3 /* its end of the socket */

struct fgt_self_child {
	const char *path; /* what to execute, NULL: /proc/self/exe */
	/* Its argv[0], also its thread's name (at most 15 bytes), and argv[1]:
	 * by these its main() knows what it is. */
	const char *name, *verb;
	int socket_type; /* SOCK_STREAM or SOCK_SEQPACKET */
	uint32_t uid; /* the user that it works for: for the log */
	bool is_on_network; /* gets the administrator's proxies, too */
};

/*
 * It is a child of this process: its death sends SIGCHLD. *ret_fd is this end
 * of the socket, *ret_pid_fd the only handle on the child. -EAGAIN: it could
 * not be started, or this process is such a child, whose main() does not call
 * fgt_self_child_is_asked() first: it must not start children without end.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_self_child_start(const struct fgt_self_child *child, int *ret_fd,
			 int *ret_pid_fd);

/*
 * For main(): this process is a child of that name and verb. Names its thread.
 *
 * MT-Safe | AS-Unsafe
 */
bool fgt_self_child_is_asked(int argc, char **argv, const char *name,
			     const char *verb);

/* The number of a child that has not been waited for; 0: unknown. */
int32_t fgt_self_child_pid(int pid_fd);

/*
 * Gives a child the real-time class SCHED_FIFO, with the least priority, and
 * takes it away again: *ret_class is for that. A nice value would have no effect
 * where the kernel gives each session its part of the CPUs (autogroup). pid:
 * must not have been waited for. -errno.
 */
int fgt_self_child_raise(int32_t pid, int *ret_class);
int fgt_self_child_lower(int32_t pid, int class);

/* If its end of the socket fd is closed, child_ends.h reports how it ended, also
 * where it is killed now. */
void fgt_self_child_lose(int fd, int pid_fd);
/* pid_fd may be -1: nothing is done, it has ended. */
void fgt_self_child_kill(int pid_fd);
/* False: it has not ended yet. Else pid_fd is closed. */
bool fgt_self_child_reap(int pid_fd);
/* Both: ends it if it still runs, and waits for it, for a second at most. */
void fgt_self_child_end(int pid_fd);

#endif
