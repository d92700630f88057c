/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signals that end a recording, as a descriptor to poll. No handler is
 * installed, so nothing runs between two instructions of ours.
 */
#include "agent/cli/signals.h"

#include <errno.h>
#include <sys/signalfd.h>

#include "ringbuf/owner.h"

static const int wanted[] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD };

int fgt_signals_open(struct fgt_signals *ret_signals)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		struct sigaction action;

		if (sigaction(wanted[i], NULL, &action) == 0 &&
		    (action.sa_handler != SIG_IGN || wanted[i] == SIGCHLD))
			sigaddset(&set, wanted[i]);
	}
	ret_signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (ret_signals->fd < 0)
		return -errno;
	sigprocmask(SIG_BLOCK, &set, &ret_signals->before);
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
	fgt_fd_close(FGT_TAKE_FD(signals->fd));
	sigprocmask(SIG_SETMASK, &signals->before, NULL);
}
