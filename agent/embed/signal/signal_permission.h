/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which threads of this process may be sent a signal; of the others, when they
 * are asked for again and what is logged. Used in the sampler's thread.
 */
#ifndef FGT_AGENT_EMBED_SIGNAL_SIGNAL_PERMISSION_H
#define FGT_AGENT_EMBED_SIGNAL_SIGNAL_PERMISSION_H

#include <stdint.h>

#include "agent/capture/threads/thread.h"
#include "ringbuf/base/why.h"

/*
 * May a signal be sent to a thread (/proc/…/status)? 0; -EACCES: it blocks the
 * signal; -EPERM: more system calls are filtered than for the sampler; -EAGAIN: it
 * sleeps, and what it blocks then may not be what it blocks: sigwait(3) and
 * ppoll(2) let signals through that would end them.
 */
int fgt_signal_permission_parse(const char *status, int number,
				unsigned long own_filters);

/*
 * The same of one that sleeps, by its status, the call that it sleeps in
 * (/proc/…/syscall) and its status again: what it blocks in futex(2) or read(2)
 * is what it blocks, as long as that is one sleep. (Except a handler that came
 * while it was in ppoll(2), and sleeps itself.) 0, -EACCES; -EAGAIN: another
 * call, or no longer the same sleep.
 */
int fgt_signal_permission_judge(const char *before, const char *syscall_line,
				const char *after, int number);

/* Both of a living thread; -ESRCH. */
int fgt_signal_permission_ask(int32_t tid, int number,
			      unsigned long own_filters);

/* Filters of system calls that hold for the calling thread. */
unsigned long fgt_signal_permission_filters(void);

/* ---- Refusals ---------------------------------------------------------- */

/* For how long, ns, a thread is not asked for that was refused with rc; counts
 * the refusal. */
uint64_t fgt_signal_refusals_pause(struct fgt_thread *thread, int rc);

/* It is refused with rc: -EACCES it blocks the signal, -ENOSPC its stack has no
 * room. Nothing is noted of one that is refused for a moment, or otherwise. why,
 * here and below: which threads, why, and what would help; the first reason
 * stays. */
void fgt_signal_refusals_note(struct fgt_why *why,
			      const struct fgt_thread *thread, int rc,
			      int number);

/* It was seen on a stack of unknown room: never again. */
void fgt_signal_refusals_note_foreign(struct fgt_why *why,
				      struct fgt_thread *thread);

#endif
