/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signals that end a recording, as a descriptor to poll. No handler is
 * installed, so no code of this program is interrupted.
 */
#include "agent/cli/verbs/signals.h"

#include <errno.h>
#include <sys/signalfd.h>

#include "ringbuf/base/owner.h"

#define WANTED_COUNT FGT_SIGNALS_WANTED

static const int wanted[WANTED_COUNT] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD };

int fgt_signals_open(struct fgt_signals *ret_signals)
{
	const struct sigaction by_default = { .sa_handler = SIG_DFL };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < WANTED_COUNT; i++)
		sigaddset(&set, wanted[i]);
	ret_signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (ret_signals->fd < 0)
		return -errno;
	sigprocmask(SIG_BLOCK, &set, &ret_signals->before);
	/* Blocked first: one that comes now waits for the descriptor. */
	for (size_t i = 0; i < WANTED_COUNT; i++)
		(void)sigaction(wanted[i], &by_default,
				&ret_signals->actions[i]);
	return 0;
}

int fgt_signals_take(struct fgt_signals *signals, bool *ret_is_from_terminal)
{
	struct signalfd_siginfo info;

	if (read(signals->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	*ret_is_from_terminal = info.ssi_code == SI_KERNEL;
	return (int)info.ssi_signo;
}

void fgt_signals_close(struct fgt_signals *signals)
{
	const struct sigaction ignored = { .sa_handler = SIG_IGN };

	fgt_fd_close(FGT_TAKE_FD(signals->fd));
	for (size_t i = 0; i < WANTED_COUNT; i++)
		/* The terminal and the shell each send a SIGHUP. */
		(void)sigaction(wanted[i],
				wanted[i] == SIGHUP ? &ignored
						    : &signals->actions[i],
				NULL);
	sigprocmask(SIG_SETMASK, &signals->before, NULL);
}
