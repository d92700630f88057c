/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory bad/ of a spool. The spool's thread; must not read what is in
 * the files, nor remove one whose name no spool gave.
 */
#include "upload/deliver/spool/spool_bad.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"
#include "upload/deliver/spool/spool_scan.h"

static int open_bad(int directory_fd, int *ret_fd)
{
	int fd;

	if (mkdirat(directory_fd, "bad", 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(directory_fd, "bad",
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/* So that there is room for one more. */
static int remove_oldest(const struct fgt_spool_disk *disk, int bad_fd)
{
	struct fgt_spool_names names = { 0 };
	int r = fgt_spool_scan(bad_fd, FGT_SPOOL_SUFFIX, &names);

	for (size_t i = 0; r == 0 && names.count - i >= FGT_SPOOL_BAD_MAX;
	     i++) {
		char name[FGT_SPOOL_NAME_SIZE];

		fgt_spool_name_write(&names.ids[i], FGT_SPOOL_SUFFIX, name);
		r = disk->remove(disk->context, bad_fd, name);
	}
	fgt_spool_names_done(&names);
	return r;
}

/* What is cut off is of no use: the whole has a wrong sum. */
static void cut(int bad_fd, const char *name)
{
	FGT_AUTO(fgt_fd_close)
	int fd = openat(bad_fd, name,
			O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;

	if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	    status.st_size > FGT_SPOOL_BAD_BYTES)
		(void)!ftruncate(fd, FGT_SPOOL_BAD_BYTES);
}

int fgt_spool_bad_take(const struct fgt_spool_disk *disk, int directory_fd,
		       const struct fgt_spool_id *id)
{
	FGT_AUTO(fgt_fd_close) int bad_fd = -1;
	char name[FGT_SPOOL_NAME_SIZE];
	int r = open_bad(directory_fd, &bad_fd);

	fgt_spool_name_write(id, FGT_SPOOL_SUFFIX, name);
	if (r == 0)
		r = remove_oldest(disk, bad_fd);
	if (r == 0)
		r = disk->rename(disk->context, directory_fd, name, bad_fd,
				 name);
	if (r < 0)
		return disk->remove(disk->context, directory_fd, name);
	cut(bad_fd, name);
	return 0;
}
