/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that lost their CPU. Runs in the sampler's thread; reads only.
 */
#include "agent/capture/look/preempted.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/capture/threads/procfs.h"

/* On the kernel stack of every system call: x86-64, aarch64. */
static const char *const call_entries[] = { "do_syscall_64", "entry_SYSCALL_64",
					    "el0_svc", "invoke_syscall" };
/* On top of it when its work was interrupted rather than waiting. */
static const char *const interruptions[] = { "preempt_schedule", "cond_resched",
					     "irqentry_exit" };

static bool has_any(const char *text, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strstr(text, names[i]))
			return true;
	return false;
}

static int parse(const char *text)
{
	if (!*text)
		return -ENODATA;
	return !has_any(text, call_entries,
			sizeof(call_entries) / sizeof(call_entries[0])) ||
	       has_any(text, interruptions,
		       sizeof(interruptions) / sizeof(interruptions[0]));
}

int fgt_preempted_look(int task_fd, int32_t tid)
{
	char path[32], text[2048];
	int len;

	snprintf(path, sizeof(path), "%d/stack", tid);
	len = fgt_procfs_read(task_fd, path, text, sizeof(text));
	return len < 0 ? len : parse(text);
}
