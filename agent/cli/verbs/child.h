/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that waits before its exec, so that sampling has begun when its
 * first instruction runs.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_VERBS_CHILD_H
#define FGT_AGENT_CLI_VERBS_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "ringbuf/base/why.h"

struct fgt_child {
	pid_t pid; /* 0: none */
	int go_fd; /* a byte lets it exec; closed without one it leaves */
	int done_fd; /* its errno if exec failed; end of file if it worked */
	bool is_reaped;
	int wait_status;
};

/* Forks; call before threads are started and before signals are blocked: the
 * command inherits both as they are. -EAGAIN, -EMFILE, -ENOMEM. */
int fgt_child_new(char **command, struct fgt_child *ret_child,
		  struct fgt_why *why);

/* Lets it exec and waits until it has. errno of exec, why names the command. */
int fgt_child_exec(struct fgt_child *child, const char *name,
		   struct fgt_why *why);

/* Whether it has ended; never waits. */
bool fgt_child_has_ended(struct fgt_child *child);

/* Waits for its end: its exit status, or 128 + signal. */
int fgt_child_wait(struct fgt_child *child);

/* Releases it; a command that has not been executed exits at once. */
void fgt_child_done(struct fgt_child *child);

#endif
