/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device and inode. Any thread; async-signal-safe.
 */
#include "ringbuf/base/file_id.h"

#include <errno.h>
#include <sys/stat.h>

int fgt_file_id_get(int fd, struct fgt_file_id *ret_id)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return -errno;
	ret_id->device = status.st_dev;
	ret_id->inode = status.st_ino;
	return 0;
}

bool fgt_file_id_is(const struct fgt_file_id *id, int fd)
{
	struct fgt_file_id now;

	return fd >= 0 && id->inode != 0 && fgt_file_id_get(fd, &now) == 0 &&
	       now.device == id->device && now.inode == id->inode;
}
