/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signals that end a recording, as a descriptor to poll.
 */
#ifndef FGT_AGENT_CLI_VERBS_SIGNALS_H
#define FGT_AGENT_CLI_VERBS_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

#define FGT_SIGNALS_WANTED 4

struct fgt_signals {
	int fd;
	struct sigaction actions[FGT_SIGNALS_WANTED]; /* as they were */
	sigset_t before;
};

/*
 * Blocks SIGINT, SIGTERM, SIGHUP and SIGCHLD and opens fd for them, those
 * included that were ignored: a script's background job inherits SIGINT so,
 * and its recording could not be ended. Call before threads are started and
 * after a command was forked: it keeps what was ignored. errno of signalfd.
 */
int fgt_signals_open(struct fgt_signals *ret_signals);

/* The next signal that came, 0 if none; never waits. *ret_is_from_terminal:
 * all processes of the foreground group got it. */
int fgt_signals_take(struct fgt_signals *signals, bool *ret_is_from_terminal);

/* As it was before: the next ^C ends the program, a hang-up does not. */
void fgt_signals_close(struct fgt_signals *signals);

#endif
