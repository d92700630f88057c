/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership helpers that cannot be inline.
 * Runs in any thread; async-signal-safe.
 */
#include "ringbuf/owner.h"

#include <errno.h>

void fgt_fd_close(int fd)
{
	int saved_errno = errno;

	if (fd >= 0)
		close(fd);
	errno = saved_errno;
}
