/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last resort for threads on a CPU: stop one for some microseconds and
 * read its registers. Never a blocked thread, never more than one at a time.
 */
#ifndef FGT_AGENT_CAPTURE_RUNNING_RUNNING_PTRACE_H
#define FGT_AGENT_CAPTURE_RUNNING_RUNNING_PTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#include "agent/unwind/arch/arch.h"
#include "ringbuf/base/why.h"

/* Used by the sampler's thread only, which is the tracer. */
struct fgt_ptrace {
	int32_t tid; /* seized and not yet released, 0: none */
	bool is_read; /* its registers were read already */
};

/*
 * Of a struct fgt_ptrace: stops a thread that was running a moment ago, calls read() with its
 * registers while it stands, and lets it go. read() copies and does nothing
 * else. A call that the stop interrupted is restarted. -EPERM/-ESRCH; -EBUSY another
 * one is still held, or this one did not stop within a millisecond (it is
 * let go by fgt_ptrace_poll() as soon as it stops).
 */
int fgt_ptrace_sample(void *ptrace_state, int32_t tid,
		      void (*read)(void *context, const struct fgt_regs *regs),
		      void *context);

/* Once a tick: lets go of a thread that was late to stop. */
void fgt_ptrace_poll(void *ptrace_state);

/* Is a call of this state certain to be restarted unnoticed after a stop? */
bool fgt_ptrace_is_safe_call(uint32_t state);

/*
 * Do the registers say that one of the calls that can be restarted is about to
 * return EINTR? Then changes them so that the kernel restarts it, unless a
 * signal's handler runs first: that one's EINTR stays. MT-Safe | AS-Safe
 */
bool fgt_ptrace_prepare_restart(struct user_regs_struct *user);

/* Is ptrace permitted at all here (Yama, seccomp)? 0, else -EPERM with why. */
int fgt_ptrace_check(struct fgt_why *why);

#endif
