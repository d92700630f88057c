/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small reads of procfs. Runs in any thread; must not allocate.
 */
#include "agent/capture/threads/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ringbuf/base/fd.h"
#include "ringbuf/base/heartbeat.h"
#include "ringbuf/base/owner.h"

/* Of an entry in pagemap. */
#define PAGE_IS_FILE	(UINT64_C(1) << 61)
#define PAGE_IS_PRESENT (UINT64_C(1) << 63)

static int open_and_read(int dir_fd, const char *path, char *buffer,
			 size_t size, int *fd)
{
	size_t len = 0;

	*fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	if (*fd < 0)
		return -errno;
	while (len < size - 1) {
		ssize_t got = fgt_fd_pread(fd, buffer + len, size - 1 - len,
					   (off_t)len);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		len += (size_t)got;
	}
	buffer[len] = '\0';
	return (int)len;
}

int fgt_procfs_read(int dir_fd, const char *path, char *buffer, size_t size)
{
	struct fgt_heartbeat *heartbeat = fgt_call_enter(FGT_STEP_PROCFS);
	FGT_AUTO(fgt_fd_close) int fd = -1;
	int len = open_and_read(dir_fd, path, buffer, size, &fd);

	fgt_call_leave(heartbeat, fd);
	return len;
}

int fgt_procfs_open(int dir_fd, const char *path, int flags)
{
	struct fgt_heartbeat *heartbeat = fgt_call_enter(FGT_STEP_PROCFS);
	int fd = openat(dir_fd, path, flags | O_CLOEXEC);
	int error = errno;

	fgt_call_leave(heartbeat, fd);
	return fd < 0 ? -error : fd;
}

int fgt_procfs_status(int dir_fd, const char *path, struct stat *ret_status)
{
	struct fgt_heartbeat *heartbeat = fgt_call_enter(FGT_STEP_PROCFS);
	struct stat status;
	int r = fstatat(dir_fd, path, &status, 0) < 0 ? -errno : 0;

	fgt_call_leave(heartbeat, -1);
	if (r == 0)
		*ret_status = status;
	return r;
}

int fgt_procfs_link(int dir_fd, const char *path, char *text, size_t size)
{
	struct fgt_heartbeat *heartbeat = fgt_call_enter(FGT_STEP_PROCFS);
	char target[PATH_MAX];
	ssize_t len = readlinkat(dir_fd, path, target, sizeof(target));
	int error = errno;

	fgt_call_leave(heartbeat, -1);
	if (len < 0)
		return -error;
	if ((size_t)len >= size)
		len = (ssize_t)size - 1;
	memcpy(text, target, (size_t)len);
	text[len] = '\0';
	return (int)len;
}

int fgt_procfs_read_line(int dir_fd, const char *path, char *buffer,
			 size_t size)
{
	int len = fgt_procfs_read(dir_fd, path, buffer, size);

	if (len > 0 && buffer[len - 1] == '\n')
		buffer[--len] = '\0';
	return len;
}

int64_t fgt_procfs_read_number(int dir_fd, const char *path, int64_t fallback)
{
	char text[32];
	char *end;
	long long value;

	if (fgt_procfs_read_line(dir_fd, path, text, sizeof(text)) <= 0)
		return fallback;
	errno = 0;
	value = strtoll(text, &end, 10);
	return errno || *end != '\0' ? fallback : value;
}

static bool are_own(int fd, uint64_t first, uint64_t last)
{
	uint64_t entry;

	for (uint64_t page = first; page <= last; page++)
		if (pread(fd, &entry, sizeof(entry),
			  (off_t)(page * sizeof(entry))) != sizeof(entry) ||
		    !(entry & PAGE_IS_PRESENT) || (entry & PAGE_IS_FILE))
			return false;
	return true;
}

bool fgt_procfs_owns(int proc_fd, uint64_t address, size_t len)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	struct fgt_heartbeat *heartbeat = fgt_call_enter(FGT_STEP_PROCFS);
	FGT_AUTO(fgt_fd_close)
	int fd = openat(proc_fd, "pagemap", O_RDONLY | O_CLOEXEC);
	bool is_own = fd >= 0 && are_own(fd, address / page_bytes,
					 (address + len - 1) / page_bytes);

	fgt_call_leave(heartbeat, fd);
	return is_own;
}

int fgt_procfs_begin(int32_t pid)
{
	struct fgt_heartbeat *heartbeat = fgt_heartbeat_of_caller();

	if (!heartbeat)
		return 0;
	fgt_heartbeat_set(heartbeat, FGT_STEP_WORK, pid);
	return fgt_heartbeat_is_lost_in(pid) ? -EAGAIN : 0;
}

int32_t fgt_procfs_number(const char *name)
{
	int64_t value = 0;

	if (*name < '1' || *name > '9')
		return 0;
	for (; *name; name++) {
		if (*name < '0' || *name > '9')
			return 0;
		value = value * 10 + (*name - '0');
		if (value > INT32_MAX)
			return 0;
	}
	return (int32_t)value;
}
