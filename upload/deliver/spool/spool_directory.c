/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and locks a spool's directory. The spool's thread; must not follow a
 * link at the end of the path, nor believe a pid in a file.
 */
#include "upload/deliver/spool/spool_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"

#define PATH_SHOWN "%.200s"
#define NOT_OTHERS (S_IWGRP | S_IWOTH)

static const char *remedy_of(int error)
{
	switch (error) {
	case -ENOENT:
		return "make the directory above it";
	case -ENOTDIR:
	case -ELOOP:
		return "name a directory, not a link";
	case -ENOSPC:
	case -EDQUOT:
		return "make room on its disk";
	case -EROFS:
		return "name a directory that can be written; if the program "
		       "is a service, add it to ReadWritePaths=";
	default:
		return "make it writable for the user that the program has";
	}
}

static int explain(int error, const char *path, struct fgt_why *why)
{
	return fgt_why_set(why, error,
			   "cannot open the spool " PATH_SHOWN ": %s; %s", path,
			   strerror(-error), remedy_of(error));
}

static int check(int fd, const char *path, struct fgt_why *why)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return explain(-errno, path, why);
	if (status.st_uid != geteuid())
		return fgt_why_set(why, -EACCES,
				   "cannot use the spool " PATH_SHOWN
				   ": owned by uid %u, not %u; run this as "
				   "its owner, or name another directory",
				   path, status.st_uid, geteuid());
	if (status.st_mode & NOT_OTHERS)
		return fgt_why_set(why, -EACCES,
				   "cannot use the spool " PATH_SHOWN
				   ": mode %04o; chmod it to 0700",
				   path, status.st_mode & 07777);
	return 0;
}

static int open_lock(int directory_fd, int *ret_fd)
{
	FGT_AUTO(fgt_fd_close)
	int fd = openat(directory_fd, "lock",
			O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
			0600);
	struct stat status;

	if (fd < 0 || fstat(fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EEXIST;
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}

/* A lock of the process: children of a program do not keep it. */
static int lock(int fd, const char *path, struct fgt_why *why)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(fd, F_SETLK, &whole) == 0)
		return 0;
	if (errno != EAGAIN && errno != EACCES)
		return explain(-errno, path, why);
	if (fcntl(fd, F_GETLK, &whole) < 0 || whole.l_pid <= 0)
		whole.l_pid = 0;
	return fgt_why_set(why, -EBUSY,
			   "the spool " PATH_SHOWN
			   " is used by process %ld: stop it, or name another "
			   "directory",
			   path, (long)whole.l_pid);
}

/* Or a loss of power would take the new directory with all that is in it. */
static int sync_parent(const char *path)
{
	FGT_AUTO(free) void *copy = strdup(path);
	FGT_AUTO(fgt_fd_close) int fd = -1;

	if (!copy)
		return -ENOMEM;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int make(const char *path)
{
	if (mkdir(path, 0700) == 0)
		return sync_parent(path);
	return errno == EEXIST || errno == EROFS ? 0 : -errno;
}

int fgt_spool_directory_open(const char *path, int *ret_fd, int *ret_lock_fd,
			     struct fgt_why *why)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	FGT_AUTO(fgt_fd_close) int lock_fd = -1;
	int r = make(path);

	if (r < 0)
		return explain(r, path, why);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return explain(-errno, path, why);
	r = check(fd, path, why);
	if (r < 0)
		return r;
	if (ret_lock_fd) {
		r = open_lock(fd, &lock_fd);
		if (r < 0)
			return explain(r, path, why);
		r = lock(lock_fd, path, why);
		if (r < 0)
			return r;
		*ret_lock_fd = FGT_TAKE_FD(lock_fd);
	}
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}

bool fgt_spool_directory_is_locked(int directory_fd)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	FGT_AUTO(fgt_fd_close)
	int fd = openat(directory_fd, "lock",
			O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	return fd >= 0 && fcntl(fd, F_GETLK, &whole) == 0 &&
	       whole.l_type != F_UNLCK;
}
