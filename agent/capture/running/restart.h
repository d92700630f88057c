/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that a ptrace stop has interrupted: the last net, for a thread
 * that blocked between our look and our stop.
 */
#ifndef FGT_AGENT_CAPTURE_RUNNING_RESTART_H
#define FGT_AGENT_CAPTURE_RUNNING_RESTART_H

#include <stdbool.h>
#include <sys/user.h>

/*
 * Do the registers say that a call is about to return EINTR, of which we know
 * that it then has done nothing? Then they are changed so that the kernel
 * restarts it, unless a signal's handler runs first: that one's EINTR stays.
 * MT-Safe | AS-Safe
 */
bool fgt_restart_prepare(struct user_regs_struct *user);

#endif
