/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a thread that sleeps without touching it: which system call, its
 * registers as far as procfs shows them, and its stack.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_BLOCKED_H
#define FGT_AGENT_CAPTURE_LOOK_BLOCKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/capture/threads/thread_table.h"
#include "agent/unwind/arch/snapshot.h"

/* What /proc/PID/task/TID/syscall shows. */
struct fgt_blocked {
	bool is_running; /* or waiting for a CPU; nothing else is set then */
	int32_t call; /* number, -1: not in a system call (a page fault) */
	uint64_t sp, pc; /* 0: no user stack any more (it has ended) */
};

/* text is NUL-terminated. -EBADMSG. MT-Safe | AS-Safe */
int fgt_blocked_parse(const char *text, struct fgt_blocked *ret_blocked);

/* -ESRCH gone, -EPERM/-EACCES, -EBADMSG. */
int fgt_blocked_look(struct fgt_thread_table *threads,
		     struct fgt_thread *thread,
		     struct fgt_blocked *ret_blocked);

/*
 * The ring's state for it; a call that is only resumed (restart_syscall) keeps
 * the state of the call it resumes.
 */
uint32_t fgt_blocked_state(const struct fgt_blocked *blocked,
			   struct fgt_thread *thread);

/* The letter of /proc/PID/task/TID/stat: 'T', 't' stopped …; 0 if gone. */
char fgt_blocked_letter(const struct fgt_thread_table *threads, int32_t tid);

/*
 * Copies [sp, sp + size) of a thread's memory, or as much of it as there is.
 * Bytes copied, at least 8; -EFAULT nothing there, -EPERM, -ESRCH.
 */
int64_t fgt_blocked_copy(int32_t tid, uint64_t sp, uint8_t *buffer,
			 size_t size);

#endif
