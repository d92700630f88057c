/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files inside a target's root. Runs in any thread; must never follow
 * a link that leads out of that root, nor block on a FIFO.
 */
#include "agent/unwind/elf/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"

int fgt_rootfs_open(int root_fd, const char *path, int *ret_fd)
{
	const struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct stat status;

	fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}
