/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that lost their CPU. Runs in the sampler's thread; reads only.
 */
#include "agent/capture/look/preempted.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

int fgt_preempted_parse(const char *text)
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
	return len < 0 ? len : fgt_preempted_parse(text);
}

void fgt_last_run_keep(struct fgt_last_run *last,
		       const struct fgt_frame *frames, size_t count,
		       uint64_t generation)
{
	size_t markers = 0;

	while (markers < count && (frames[markers].flags & FGT_FRAME_MARKER))
		markers++;
	count -= markers;
	last->count = 0;
	if (count > last->capacity) {
		struct fgt_frame *grown =
			reallocarray(last->frames, count, sizeof(*grown));

		if (!grown)
			return;
		last->frames = grown;
		last->capacity = (uint32_t)count;
	}
	if (count)
		memcpy(last->frames, frames + markers, count * sizeof(*frames));
	last->count = (uint32_t)count;
	last->generation = generation;
}

size_t fgt_last_run_show(const struct fgt_last_run *last, uint64_t generation,
			 enum fgt_marker leaf, struct fgt_frame *frames,
			 size_t capacity)
{
	size_t count = 0;

	if (!last->count || last->generation != generation ||
	    last->count + 1 > capacity)
		return 0;
	if (leaf)
		frames[count++] = (struct fgt_frame){
			.address = leaf,
			.flags = FGT_FRAME_MARKER,
		};
	memcpy(frames + count, last->frames, last->count * sizeof(*frames));
	return count + last->count;
}

void fgt_last_run_done(struct fgt_last_run *last)
{
	free(last->frames);
	*last = (struct fgt_last_run){ 0 };
}
