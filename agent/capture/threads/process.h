/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process exactly: (pid, start time, pidfd), never a pid alone, which may
 * be reused. Everything here reads procfs defensively.
 */
#ifndef FGT_AGENT_CAPTURE_THREADS_PROCESS_H
#define FGT_AGENT_CAPTURE_THREADS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"

/* Threads of one that can be left out. */
#define FGT_EXCLUDED_MAX 8u

/* An open process; embedded by its owner. All descriptors are CLOEXEC. */
struct fgt_process {
	int32_t pid;
	uint64_t start_time; /* clock ticks since boot, stat field 22 */
	int pidfd; /* readable when the process has ended; -1: this process */
	int proc_fd; /* directory /proc/PID */
	int task_fd; /* directory /proc/PID/task */
};

/*
 * -ESRCH no such process (or a zombie), -EINVAL pid < 1 or a kernel thread,
 * -EMFILE …; why is set.
 */
int fgt_process_open(int32_t pid, struct fgt_process *ret_process,
		     struct fgt_why *why);
void fgt_process_close(struct fgt_process *process);
/* Opens the directories of this very process again, whatever has become of the
 * descriptors. Errors of open(2). */
int fgt_process_reopen(struct fgt_process *process);

/* Still that process (not ended, not reused)? Costs one poll of the pidfd. */
bool fgt_process_is_alive(const struct fgt_process *process);

/*
 * Would a ptrace-style read be permitted (tried for real by reading its
 * memory map)? 0, -EPERM/-EACCES with why naming user, capability, sysctl or
 * dumpable flag; -ESRCH.
 */
int fgt_process_check_access(const struct fgt_process *process,
			     struct fgt_why *why);

/*
 * A new descriptor (caller closes) of the directory, /proc/PID or that of a
 * living thread, whose maps and mem show the memory of the process: those of
 * a first thread that has ended show none while other threads live. *ret_tid: a
 * thread to read it by. -ESRCH all have ended.
 */
int fgt_process_open_memory(const struct fgt_process *process, int *ret_dir_fd,
			    int32_t *ret_tid);

/* Fills everything that a slice holds about its process. */
int fgt_process_get_info(const struct fgt_process *process,
			 struct fgt_process_info *ret_info);

/* One line of /proc/PID/task/TID/stat, or of /proc/PID/stat, taken apart. */
struct fgt_stat {
	int32_t id; /* pid or tid */
	int32_t parent_pid;
	char name[64]; /* between the first '(' and the last ')' */
	char state; /* R S D T t Z X I … */
	uint64_t start_time; /* clock ticks since boot */
	uint64_t flags; /* PF_KTHREAD = 0x200000, … */
};
/* text need not be NUL-terminated. -EBADMSG. MT-Safe | AS-Safe */
int fgt_stat_parse(const char *text, size_t len, struct fgt_stat *ret_stat);
/*
 * Reads FOLDER + "ID/stat" below dir_fd. That of a process's first thread
 * (folder "task/" below /proc/PID) has the same beginning as the file of the
 * process, which adds up the times of all its threads first, a quarter of a
 * microsecond each. -ENOENT, -ESRCH, -EBADMSG, errno of open and read.
 */
int fgt_stat_read(int dir_fd, const char *folder, int32_t id,
		  struct fgt_stat *ret_stat);

/* Visits every process that may be looked at; stops at a non-zero return and
 * returns it. info->exe may be "". Kernel threads are left out. */
typedef int fgt_process_visit(void *context,
			      const struct fgt_process_info *info,
			      int32_t parent_pid);
int fgt_process_for_each(fgt_process_visit *visit, void *context);

/*
 * ---- Access to other processes (access.c) --------------------------------
 *
 * Tried for real. why: the user, capability, sysctl or flag that is in the way.
 */

/* May it be read (map, stack memory)? 0, -EPERM, -EACCES, -ESRCH; -EINVAL it has
 * 32 bits. */
int fgt_access_check(int proc_fd, int32_t pid, struct fgt_why *why);

/* Real user of a process; world-readable. -ESRCH, -EBADMSG. */
int fgt_access_uid(int proc_fd, uint32_t *ret_uid);

/* Is one of the capability numbers (linux/capability.h) effective here? */
bool fgt_access_has_capability(unsigned int capability);

/* Pid of the tracer of a process, 0 if there is none. */
int32_t fgt_access_tracer(int proc_fd);

#endif
