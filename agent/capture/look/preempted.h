/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A runnable thread that waits for a CPU between two samples: was it put off
 * its CPU, or only woken up?
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_PREEMPTED_H
#define FGT_AGENT_CAPTURE_LOOK_PREEMPTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Looks at the kernel stack of a thread that is not on a CPU (needs
 * CAP_SYS_ADMIN): 1 it was interrupted in its own code or in the midst of a
 * system call's work, 0 it was woken and stands where it was blocked;
 * negative errno if that is not known. Costs about 10 µs.
 *
 * MT-Safe | AS-Safe
 */
int fgt_preempted_look(int task_fd, int32_t tid);

#endif
