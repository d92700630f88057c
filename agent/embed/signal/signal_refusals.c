/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows when a thread is not signalled. Runs in the sampler's thread.
 */
#include "agent/embed/signal/signal_refusals.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define RETRY_NS 1000000000u
/* Of a thread that blocks the signal: many do for a moment only, in
 * pthread_create(3), and many for ever. Of one whose stack has no room, too. */
#define RETRY_FIRST_NS	20000000u
#define RETRY_DOUBLINGS 6u
#define RETRY_ASLEEP_NS 50000000u /* it may be found running then */

uint64_t fgt_signal_refusals_pause(struct fgt_thread *thread, int rc)
{
	if (rc == -EAGAIN)
		return RETRY_ASLEEP_NS;
	if ((rc != -EACCES && rc != -ENOSPC) ||
	    thread->signal_refusals == RETRY_DOUBLINGS)
		return RETRY_NS;
	return RETRY_FIRST_NS << thread->signal_refusals++;
}

void fgt_signal_refusals_note(struct fgt_signal_refusals *refusals,
			      const struct fgt_thread *thread, int rc,
			      int number)
{
	if (thread->signal_refusals < RETRY_DOUBLINGS || refusals->text[0])
		return;
	if (rc == -EACCES)
		snprintf(refusals->text, sizeof(refusals->text),
			 "threads that block SIG%s have no stacks while they "
			 "run: unblock it in them, or let an agent sample the "
			 "program",
			 sigabbrev_np(number));
	else if (rc == -ENOSPC)
		snprintf(
			refusals->text, sizeof(refusals->text),
			"threads that are near the end of their stack, or "
			"whose stack is locked in memory (mlockall), have no "
			"stacks while they run: give them larger ones that are "
			"not locked, or let an agent sample the program");
}

void fgt_signal_refusals_note_foreign(struct fgt_signal_refusals *refusals,
				      struct fgt_thread *thread)
{
	thread->is_fragile = true;
	if (refusals->text[0])
		return;
	snprintf(refusals->text, sizeof(refusals->text),
		 "threads that switch stacks themselves (coroutines), or whose "
		 "stack is not known, have no stacks while they run, as "
		 "room for a signal is unknown: give them an "
		 "alternate one (sigaltstack), or let an agent sample the "
		 "program");
}

const char *fgt_signal_refusals_text(const struct fgt_signal_refusals *refusals)
{
	return refusals->text[0] ? refusals->text : NULL;
}
