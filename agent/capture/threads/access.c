/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out whether a target may be read, and if not, what forbids it.
 * Runs on attach, on exec, and in the sampler's thread once a second for a
 * target that runs; never for each tick.
 */
#include "agent/capture/threads/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/capture/threads/procfs.h"
#include "agent/unwind/arch/memory.h"

#define YAMA_FILE "/proc/sys/kernel/yama/ptrace_scope"

/*
 * The number behind "\nKEY:\t" in a status file. The kernel escapes newlines in
 * Name: so this matches one line. -EBADMSG there is none, errno of open.
 */
static int read_status(int dir_fd, const char *path, const char *key, int base,
		       uint64_t *ret_number)
{
	char status[4096];
	const char *found;
	int len = fgt_procfs_read(dir_fd, path, status, sizeof(status));

	if (len < 0)
		return len;
	found = strstr(status, key);
	if (!found)
		return -EBADMSG;
	*ret_number = strtoull(found + strlen(key), NULL, base);
	return 0;
}

int fgt_access_uid(int proc_fd, uint32_t *ret_uid)
{
	uint64_t uid;
	int rc = read_status(proc_fd, "status", "\nUid:\t", 10, &uid);

	if (rc == 0)
		*ret_uid = (uint32_t)uid;
	return rc;
}

int32_t fgt_access_tracer(int proc_fd)
{
	uint64_t tracer = 0;

	(void)read_status(proc_fd, "status", "\nTracerPid:\t", 10, &tracer);
	return (int32_t)tracer;
}

bool fgt_access_has_capability(unsigned int capability)
{
	uint64_t effective = 0;

	(void)read_status(AT_FDCWD, "/proc/thread-self/status", "\nCapEff:\t",
			  16, &effective);
	return effective >> capability & 1;
}

static int read_one_byte(int32_t pid, uint64_t address)
{
	char byte;
	int64_t len = fgt_memory_read(pid, address, &byte, 1);

	return len < 0 ? (int)len : 0;
}

/* Reads the map, then one byte of the first mapping that allows it. A file's
 * bytes may never come (fault X7). */
static int try_to_read(int proc_fd, int32_t pid)
{
	char maps[16384];
	int len = fgt_procfs_read(proc_fd, "maps", maps, sizeof(maps));
	char *line, *rest = maps;

	if (len <= 0)
		return len < 0 ? len : -ESRCH;
	while ((line = strsep(&rest, "\n")) && rest) {
		char mode[8], dev[32];
		uint64_t start;
		int rc;

		/* Most are files', and sscanf() is slow. */
		if (!strstr(line, " 00:00 ") ||
		    sscanf(line, "%" SCNx64 "-%*x %7s %*x %31s", &start, mode,
			   dev) != 3 ||
		    mode[0] != 'r' || strcmp(dev, "00:00") != 0)
			continue;
		rc = read_one_byte(pid, start);
		if (rc != -EFAULT)
			return rc;
	}
	return 0;
}

static int explain_same_user(int proc_fd, int32_t pid, int error,
			     struct fgt_why *why)
{
	struct stat status;
	int64_t yama = fgt_procfs_read_number(AT_FDCWD, YAMA_FILE, 0);

	/* procfs gives the files (not the directory) of a process that is not
	 * dumpable to root. */
	if (fgt_procfs_status(proc_fd, "maps", &status) == 0 &&
	    status.st_uid != geteuid())
		return fgt_why_set(why, error,
				   "process %d is not dumpable (set-uid, file "
				   "capabilities or PR_SET_DUMPABLE 0): "
				   "CAP_SYS_PTRACE is needed",
				   pid);
	if (yama > 0)
		return fgt_why_set(why, error,
				   "process %d: Yama forbids reading it "
				   "(kernel.yama.ptrace_scope = %d): set it to "
				   "0, or give the agent CAP_SYS_PTRACE",
				   pid, (int)yama);
	return fgt_why_set(why, error,
			   "process %d has capabilities, a user namespace or "
			   "a security label that the agent lacks: "
			   "CAP_SYS_PTRACE is needed",
			   pid);
}

static int explain_refusal(int proc_fd, int32_t pid, int error,
			   struct fgt_why *why)
{
	uint32_t uid;
	char own = 0;

	if (read_one_byte(getpid(), (uint64_t)(uintptr_t)&own) < 0)
		return fgt_why_set(why, error,
				   "process_vm_readv is forbidden to the agent "
				   "itself: a seccomp filter (container "
				   "profile) must allow it");
	if (fgt_access_has_capability(CAP_SYS_PTRACE))
		return fgt_why_set(why, error,
				   "process %d may not be read although the "
				   "agent has CAP_SYS_PTRACE: a security "
				   "module or another user namespace forbids "
				   "it",
				   pid);
	if (fgt_access_uid(proc_fd, &uid) == 0 && uid != geteuid())
		return fgt_why_set(why, error,
				   "process %d belongs to user %u: run the "
				   "agent as that user, or with "
				   "CAP_SYS_PTRACE",
				   pid, uid);
	return explain_same_user(proc_fd, pid, error, why);
}

/* The first word of its vector is a kind, a small number, and with 32 bits the
 * value behind that, too. */
static bool has_32_bits(int proc_fd)
{
	union {
		char bytes[sizeof(uint64_t) + 1]; /* a NUL is added */
		uint64_t word;
	} vector = { .word = 0 };

	return fgt_procfs_read(proc_fd, "auxv", vector.bytes,
			       sizeof(vector.bytes)) > 0 &&
	       vector.word > UINT32_MAX;
}

int fgt_access_check(int proc_fd, int32_t pid, struct fgt_why *why)
{
	int rc = try_to_read(proc_fd, pid);

	if (rc == -ENOENT || rc == -ESRCH)
		return fgt_why_set(why, -ESRCH, FGT_PROCESS_HAS_ENDED, pid);
	if (rc == -EPERM || rc == -EACCES)
		return explain_refusal(proc_fd, pid, rc, why);
	if (rc < 0)
		return fgt_why_set(why, rc, "process %d: %s", pid,
				   strerror(-rc));
	if (has_32_bits(proc_fd))
		return fgt_why_set(why, -EINVAL,
				   "process %d is a program of 32 bits, whose "
				   "system calls have other numbers: such are "
				   "not sampled",
				   pid);
	return 0;
}
