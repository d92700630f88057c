/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership helpers that cannot be inline.
 * Runs in any thread; async-signal-safe.
 */
#include "ringbuf/base/owner.h"

#include <errno.h>

#include "ringbuf/base/fd_apart.h"

void fgt_fd_close(int fd)
{
	int saved_errno = errno;

	if (fd >= 0 && !fgt_fd_apart_has_lost(fd))
		close(fd);
	errno = saved_errno;
}
