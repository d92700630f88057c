/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes snapshots of a test's children. Not for real targets: it stops
 * threads whenever it likes.
 */
#include "tests/programs/unwind/unwind_capture.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

/* The end of the mapping that holds an address, from maps' text. */
static uint64_t find_mapping_end(int32_t pid, uint64_t address)
{
	static int32_t last_pid;
	static uint64_t start, end;
	FGT_AUTO(fgt_file_close) FILE *maps = NULL;
	char path[64], line[4096];

	if (pid == last_pid && address >= start && address < end)
		return end;
	last_pid = pid;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2 &&
		    address >= start && address < end)
			return end;
	end = 0;
	return 0;
}

int capture_stack(int32_t pid, size_t len, struct captured *captured)
{
	struct fgt_snapshot *snapshot = &captured->snapshot;
	uint64_t sp = snapshot->regs.value[fgt_arch_host.sp];
	struct iovec local = { captured->stack, len };
	struct iovec remote = { (void *)(uintptr_t)sp, len };
	ssize_t got;

	snapshot->stack_limit = find_mapping_end(pid, sp);
	if (snapshot->stack_limit > sp && len > snapshot->stack_limit - sp)
		local.iov_len = remote.iov_len = snapshot->stack_limit - sp;
	got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
	if (got < 0)
		return -errno;
	snapshot->stack_start = sp;
	snapshot->stack = captured->stack;
	snapshot->stack_len = (size_t)got;
	return 0;
}

static int wait_for_stop(int32_t tid)
{
	int status;

	do {
		if (waitpid(tid, &status, __WALL) < 0)
			return -errno;
		if (!WIFSTOPPED(status))
			return -ESRCH;
		if (status >> 16 == PTRACE_EVENT_STOP)
			return 0;
		/* Another signal: it belongs to the child. */
		if (ptrace(PTRACE_CONT, tid, 0, WSTOPSIG(status)) < 0)
			return -errno;
	} while (true);
}

int capture_by_ptrace(int32_t pid, int32_t tid, struct captured *captured)
{
	struct user_regs_struct regs;
	struct iovec vector = { &regs, sizeof(regs) };
	int r;

	memset(&captured->snapshot, 0, sizeof(captured->snapshot));
	if (ptrace(PTRACE_SEIZE, tid, 0, 0) < 0)
		return -errno;
	r = ptrace(PTRACE_INTERRUPT, tid, 0, 0) < 0 ? -errno : 0;
	if (r == 0)
		r = wait_for_stop(tid);
	if (r == 0 && ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &vector) < 0)
		r = -errno;
	if (r == 0) {
		fgt_arch_host.regs_from_ptrace(&regs, &captured->snapshot.regs);
		r = capture_stack(pid, FGT_SNAPSHOT_MAX_BYTES, captured);
	}
	ptrace(PTRACE_DETACH, tid, 0, 0);
	return r;
}

int capture_by_syscall(int32_t pid, int32_t tid, bool has_args,
		       struct captured *captured)
{
	FGT_AUTO(fgt_file_close) FILE *file = NULL;
	struct fgt_snapshot *snapshot = &captured->snapshot;
	char path[64], line[256], *at;
	uint64_t words[8];

	memset(snapshot, 0, sizeof(*snapshot));
	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	file = fopen(path, "re");
	if (!file || !fgets(line, sizeof(line), file))
		return -ESRCH;
	/* "NUMBER ARG… SP PC" */
	at = strchr(line, ' ');
	for (int i = 0; i < 8; i++) {
		if (!at || *at != ' ')
			return -EAGAIN;
		words[i] = strtoull(at, &at, 16);
	}
	if (has_args)
		for (int i = 0; i < 6; i++)
			fgt_regs_set(&snapshot->regs,
				     fgt_arch_host.call_args[i], words[i]);
	fgt_regs_set(&snapshot->regs, fgt_arch_host.sp, words[6]);
	fgt_regs_set(&snapshot->regs, fgt_arch_host.pc, words[7]);
	snapshot->is_blocked = true;
	return capture_stack(pid, FGT_SNAPSHOT_FIRST_BYTES, captured);
}

int capture_maps(int32_t pid, struct fgt_image_cache *cache,
		 struct fgt_maps **ret_maps)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fgt_maps_read(fd, pid, cache, 0, ret_maps, NULL);
}

/* Memory that ends early gives what there is. */
static int capture_other(int32_t pid, uint64_t start, size_t len,
			 struct captured *captured)
{
	struct fgt_snapshot *snapshot = &captured->snapshot;
	struct iovec local = { captured->other, len };
	struct iovec remote = { (void *)(uintptr_t)start, len };
	ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	if (got <= 0)
		return -EFAULT;
	snapshot->other = captured->other;
	snapshot->other_start = start;
	snapshot->other_len = (size_t)got;
	return 0;
}

void capture_unwind(int32_t pid, struct fgt_unwinder *unwinder,
		    const struct fgt_maps *maps, struct captured *captured,
		    struct fgt_unwound_frame *frames, size_t capacity,
		    struct fgt_unwind_result *ret_result)
{
	fgt_unwind(unwinder, maps, &captured->snapshot, frames, capacity,
		   ret_result);
	for (int i = 0; i < 8; i++) {
		if (ret_result->need_bytes &&
		    capture_stack(pid, ret_result->need_bytes, captured) < 0)
			return;
		if (ret_result->need_other &&
		    capture_other(pid, ret_result->need_other,
				  ret_result->need_other_bytes, captured) < 0)
			return;
		if (!ret_result->need_bytes && !ret_result->need_other)
			return;
		fgt_unwind(unwinder, maps, &captured->snapshot, frames,
			   capacity, ret_result);
	}
}
