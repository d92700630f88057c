/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large numbers for descriptors. Any thread; async-signal-safe.
 */
#include "ringbuf/fd_apart.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

/* The kernel's table grows with the largest number: not beyond this. */
#define TABLE_MAX 1024u
#define ROOM	  128u /* for ours, below the end of the table */

static atomic_bool has_begun;

void fgt_fd_apart_begin(void)
{
	atomic_store_explicit(&has_begun, true, memory_order_relaxed);
}

/* 0: there are too few numbers. */
static int first_number(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < 2 * ROOM)
		return 0;
	if (limit.rlim_cur > TABLE_MAX)
		limit.rlim_cur = TABLE_MAX;
	return (int)(limit.rlim_cur - ROOM);
}

int fgt_fd_apart(int fd)
{
	int saved_errno = errno, first, moved = -1;

	if (fd < 0 || !atomic_load_explicit(&has_begun, memory_order_relaxed))
		return fd;
	first = first_number();
	if (first > fd)
		moved = fcntl(fd, F_DUPFD_CLOEXEC, first);
	if (moved >= 0)
		close(fd);
	errno = saved_errno;
	return moved >= 0 ? moved : fd;
}
