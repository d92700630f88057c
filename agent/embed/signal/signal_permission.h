/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which threads of this process may be sent a signal; of the other threads,
 * when they are asked for again and what is logged. Used in the sampler's
 * thread.
 *
 * MT-Unsafe for one thread | AS-Unsafe
 */
#ifndef FGT_AGENT_EMBED_SIGNAL_SIGNAL_PERMISSION_H
#define FGT_AGENT_EMBED_SIGNAL_SIGNAL_PERMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/capture/threads/thread.h"
#include "ringbuf/base/why.h"

/*
 * Reads a thread's /proc/…/status: 0 if it may be sent a signal. -EACCES: it
 * blocks the signal; -EPERM: more system calls are filtered than for the
 * sampler; -EAGAIN: it sleeps, perhaps in sigwait(3) or ppoll(2), which unblock
 * signals that would end them.
 */
int fgt_signal_permission_parse(const char *status, int number,
				unsigned long own_filters);

/*
 * The same of a thread that sleeps, by its status, the call that it sleeps in
 * (/proc/…/syscall) and its status again: futex(2) or read(2) change nothing
 * about signals, as long as both states are of one sleep. (Not seen: a handler
 * that interrupted ppoll(2), and sleeps itself.) 0, -EACCES; -EAGAIN: another
 * call, or another sleep.
 */
int fgt_signal_permission_judge(const char *before, const char *syscall_line,
				const char *after, int number);

/* Both of a living thread; -ESRCH. */
int fgt_signal_permission_ask(int32_t tid, int number,
			      unsigned long own_filters);

/*
 * False: an active thread was seen on an alternate stack that may lack room for
 * a signal, and may be there now. Of a thread that had no signal, the size of
 * that stack is not known.
 */
bool fgt_signal_has_safe_stacks(const struct fgt_thread *thread);

/* Filters of system calls that hold for the calling thread. */
unsigned long fgt_signal_permission_filters(void);
/* Is it certain that the calling thread has none? */
bool fgt_signal_permission_is_free(void);

/* ---- Refusals ---------------------------------------------------------- */

/* For how long, ns, a thread is not asked for that was refused with rc; counts
 * the refusal. */
uint64_t fgt_signal_refusals_pause(struct fgt_thread *thread, int rc);

/* It is refused with rc: -EACCES it blocks the signal, -ENOSPC its stack has no
 * room, -EPERM its alternate one may have none: never again. Nothing is noted of one that is refused for a moment, or otherwise.
 * why, here and below: which threads, why, and what would help; the first
 * reason stays. */
void fgt_signal_refusals_note(struct fgt_why *why, struct fgt_thread *thread,
			      int rc, int number);

/* It was seen on a stack of unknown room: never again. */
void fgt_signal_refusals_note_foreign(struct fgt_why *why,
				      struct fgt_thread *thread);

#endif
