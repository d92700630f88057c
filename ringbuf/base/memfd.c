/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes memory that can be shared, and tells whether others did. Runs in any
 * thread.
 */
#include "ringbuf/base/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ringbuf/base/fd_apart.h"
#include "ringbuf/base/owner.h"

int fgt_memfd_open(const char *name, size_t len_bytes, int *ret_fd)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;

	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)len_bytes))
		return -errno;
	*ret_fd = fgt_fd_apart(FGT_TAKE_FD(fd));
	return 0;
}

int fgt_memfd_seal(int fd)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	if (!fcntl(fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE) ||
	    !fcntl(fd, F_ADD_SEALS, seals))
		return 0;
	return -errno;
}

bool fgt_memfd_is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & F_SEAL_SHRINK);
}
