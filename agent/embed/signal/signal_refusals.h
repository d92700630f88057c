/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that are not signalled: when they are asked for again, and what the
 * program is informed of. Used in the sampler's thread.
 */
#ifndef FGT_AGENT_EMBED_SIGNAL_SIGNAL_REFUSALS_H
#define FGT_AGENT_EMBED_SIGNAL_SIGNAL_REFUSALS_H

#include <stdint.h>

#include "agent/capture/threads/thread.h"

/* All zero: none so far. The first reason stays. */
struct fgt_signal_refusals {
	char text[240];
};

/* For how long, ns, a thread is not asked for that was refused with rc; counts
 * the refusal. */
uint64_t fgt_signal_refusals_pause(struct fgt_thread *thread, int rc);

/* It is refused with rc: -EACCES it blocks the signal, -ENOSPC its stack has no
 * room. Nothing is logged of one that is refused for a moment, or otherwise. */
void fgt_signal_refusals_note(struct fgt_signal_refusals *refusals,
			      const struct fgt_thread *thread, int rc,
			      int number);

/* It was seen on a stack of unknown room: never again. */
void fgt_signal_refusals_note_foreign(struct fgt_signal_refusals *refusals,
				      struct fgt_thread *thread);

/* Which threads, why, and what would help; NULL: there are none. */
const char *
fgt_signal_refusals_text(const struct fgt_signal_refusals *refusals);

#endif
