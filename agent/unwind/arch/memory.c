/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads memory of processes. Runs in any thread, for each thread at a tick.
 */
#include "agent/unwind/arch/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ringbuf/base/heartbeat.h"
#include "ringbuf/base/owner.h"

static atomic_bool is_own; /* set once, guards nothing */

/* The file is opened for each read: filters are rare. */
static int64_t read_own(uint64_t address, void *buffer, size_t len)
{
	FGT_AUTO(fgt_fd_close)
	int fd = open("/proc/thread-self/mem", O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = pread(fd, buffer, len, (off_t)address);
	if (got < 0)
		return errno == EIO ? -EFAULT : -errno;
	return got;
}

int64_t fgt_memory_read(int32_t tid, uint64_t address, void *buffer, size_t len)
{
	struct iovec local = { .iov_base = buffer, .iov_len = len };
	struct iovec remote = { .iov_base = (void *)(uintptr_t)address,
				.iov_len = len };
	struct fgt_heartbeat *heartbeat;
	ssize_t got;

	/* Checked at each call: a program that contains this code may become
	 * unreadable at any moment. */
	if (atomic_load_explicit(&is_own, memory_order_relaxed) &&
	    prctl(PR_GET_SECCOMP, 0, 0, 0, 0) > 0)
		return read_own(address, buffer, len);
	/* The kernel copies page by page and returns how far it came. */
	heartbeat = fgt_call_enter(FGT_STEP_MEMORY);
	got = process_vm_readv(tid, &local, 1, &remote, 1, 0);
	fgt_call_leave(heartbeat, -1);
	return got < 0 ? -errno : got;
}

void fgt_memory_only_own(void)
{
	atomic_store_explicit(&is_own, true, memory_order_relaxed);
}
