/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's system calls of a spool. The spool's thread; wait as long as the
 * disk does.
 */
#include "upload/deliver/spool/spool_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int create(void *context, int directory_fd, const char *name)
{
	int fd = openat(directory_fd, name,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0600);

	(void)context;
	return fd < 0 ? -errno : fd;
}

static ssize_t write_at(void *context, int fd, const void *bytes, size_t len,
			uint64_t at)
{
	ssize_t n;

	(void)context;
	do {
		n = pwrite(fd, bytes, len, (off_t)at);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int sync_file(void *context, int fd)
{
	int r;

	(void)context;
	do {
		r = fsync(fd);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

static int rename_file(void *context, int from_fd, const char *from, int to_fd,
		       const char *to)
{
	(void)context;
	return renameat(from_fd, from, to_fd, to) < 0 ? -errno : 0;
}

static int remove_file(void *context, int directory_fd, const char *name)
{
	(void)context;
	return unlinkat(directory_fd, name, 0) < 0 ? -errno : 0;
}

const struct fgt_spool_disk fgt_spool_disk = {
	.create = create,
	.write = write_at,
	.sync = sync_file,
	.rename = rename_file,
	.remove = remove_file,
};

int fgt_spool_disk_write(const struct fgt_spool_disk *disk, int fd,
			 const void *bytes, size_t len, uint64_t at)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = disk->write(disk->context, fd,
					(const char *)bytes + done, len - done,
					at + done);

		if (n <= 0)
			return n < 0 ? (int)n : -EIO;
		done += (size_t)n;
	}
	return 0;
}
