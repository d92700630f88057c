/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread used of the CPUs, by /proc/PID/task/TID/schedstat.
 */
#ifndef FGT_AGENT_CAPTURE_WHO_RAN_SCHEDSTAT_H
#define FGT_AGENT_CAPTURE_WHO_RAN_SCHEDSTAT_H

#include "agent/capture/threads/thread_table.h"

/* "runtime wait switches\n". -EBADMSG. */
int fgt_cpu_use_parse(const char *text, struct fgt_cpu_use *ret_use);

/* Keeps the file open as far as the budget goes. -ESRCH: the thread is gone;
 * -EBADMSG, errno of open and read. */
int fgt_schedstat_read(const struct fgt_thread_table *threads,
		       struct fgt_thread *thread, struct fgt_cpu_use *ret_use);

#endif
