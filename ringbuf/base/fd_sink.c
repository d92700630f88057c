/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what encoders give to a descriptor. Runs in any thread.
 */
#include "ringbuf/base/fd_sink.h"

#include <errno.h>
#include <unistd.h>

int fgt_fd_write(int fd, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len > 0) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static int write_fd(void *context, const void *bytes, size_t len)
{
	const int *fd = context;

	return fgt_fd_write(*fd, bytes, len);
}

struct fgt_sink fgt_fd_sink(int *fd)
{
	return (struct fgt_sink){ .write = write_fd, .context = fd };
}
