/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process may do to other processes, tried for real, and why not: every
 * refusal names the user, capability, sysctl or flag that is in the way.
 */
#ifndef FGT_AGENT_CAPTURE_THREADS_ACCESS_H
#define FGT_AGENT_CAPTURE_THREADS_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/base/why.h"

/* May it be read (map, stack memory)? 0, -EPERM, -EACCES, -ESRCH. */
int fgt_access_check(int proc_fd, int32_t pid, struct fgt_why *why);

/* Real user of a process; world-readable. -ESRCH, -EBADMSG. */
int fgt_access_uid(int proc_fd, uint32_t *ret_uid);

/* Is one of the capability numbers (linux/capability.h) effective here? */
bool fgt_access_has_capability(unsigned int capability);

/* Pid of the tracer of a thread or process, 0 if there is none. dir_fd: /proc/PID. */
int32_t fgt_access_tracer(int dir_fd, const char *status_path);

#endif
