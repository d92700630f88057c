/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PID namespaces: which process or thread a number of a target means.
 */
#ifndef FGT_AGENT_CAPTURE_THREADS_CHILD_PID_H
#define FGT_AGENT_CAPTURE_THREADS_CHILD_PID_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The child that a process calls number, as /proc calls it. proc_fd: /proc/PID;
 * tid: the thread that waits. In another PID namespace the first 128 children
 * of that thread and of the first one are looked at, as long as *reads_left is
 * not 0: each takes 1 of it. 0: it is not known which.
 *
 * MT-Safe | AS-Safe
 */
int32_t fgt_child_pid(int proc_fd, int32_t pid, int32_t tid, int32_t number,
		      uint32_t *reads_left);

/* How many PID namespaces a process is in that /proc sees: 1: that of /proc
 * itself. 0: not known. */
unsigned int fgt_pid_level(int proc_fd);
/* What a thread of task_fd, /proc/PID/task, is called at that level; 0: not
 * known. */
int32_t fgt_pid_number(int task_fd, int32_t tid, unsigned int level);

#endif
