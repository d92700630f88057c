/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signals that end a recording, as a descriptor to poll.
 */
#ifndef FGT_AGENT_CLI_SIGNALS_H
#define FGT_AGENT_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct fgt_signals {
	int fd;
	sigset_t before;
};

/*
 * Blocks SIGINT, SIGTERM, SIGHUP and SIGCHLD, except those that are ignored
 * (nohup, background jobs of a script), and opens fd for them. Call before
 * threads are started and after a command was forked. errno of signalfd.
 */
int fgt_signals_open(struct fgt_signals *ret_signals);

/* The next signal that came, 0 if none; never waits. *ret_is_from_terminal:
 * the whole foreground group got it, not only we. */
int fgt_signals_take(struct fgt_signals *signals, bool *ret_is_from_terminal);

/* As it was before: the next ^C ends the program. */
void fgt_signals_close(struct fgt_signals *signals);

#endif
