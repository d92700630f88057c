/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes a signal and gives it back. Runs in the thread that starts and stops
 * the sampler, and in the child of a fork.
 */
#include "agent/embed/signal/signal_choice.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "agent/embed/signal/running_signal_slot.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Ignored by default, best first. */
static const int candidates[] = { SIGURG, SIGWINCH };

bool fgt_signal_choice_is_ours(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) == 0 &&
	       (action.sa_flags & SA_SIGINFO) &&
	       action.sa_sigaction == fgt_signal_handle;
}

static int find_free(void)
{
	for (size_t i = 0; i < COUNT(candidates); i++) {
		struct sigaction action;

		if (sigaction(candidates[i], NULL, &action) < 0)
			continue;
		if (!(action.sa_flags & SA_SIGINFO) &&
		    (action.sa_handler == SIG_DFL ||
		     action.sa_handler == SIG_IGN))
			return candidates[i];
	}
	return 0;
}

int fgt_signal_choice_take(int *ret_number)
{
	/* On the alternate stack where there is one: languages with small
	 * stacks of their own insist on it. */
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_RESTART |
						SA_ONSTACK };
	int number = find_free();

	if (!number)
		return -ENOSPC;
	action.sa_sigaction = fgt_signal_handle;
	sigfillset(&action.sa_mask);
	if (sigaction(number, NULL, &fgt_signal_table.previous) < 0 ||
	    sigaction(number, &action, NULL) < 0)
		return -errno;
	*ret_number = number;
	return 0;
}

void fgt_signal_choice_give_back(void)
{
	for (size_t i = 0; i < COUNT(candidates); i++)
		if (fgt_signal_choice_is_ours(candidates[i]))
			sigaction(candidates[i], &fgt_signal_table.previous,
				  NULL);
}
