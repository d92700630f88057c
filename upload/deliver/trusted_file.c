/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads files that only root and this user can write. Any thread; must not
 * wait, nor put the content of a file into a message.
 */
#include "upload/deliver/trusted_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/base/sink.h"

#define NAME_SHOWN 120 /* bytes of its end */

const char *fgt_trusted_file_name(const char *path)
{
	size_t len = strlen(path);

	if (len <= NAME_SHOWN)
		return path;
	path += len - NAME_SHOWN;
	while (((unsigned char)*path & 0xc0) == 0x80)
		path++;
	return path;
}

int fgt_trusted_file_absolute(const char *name, const char *path, char *buffer,
			      size_t size, struct fgt_why *why)
{
	size_t len = 0;

	if (path[0] != '/') {
		if (!getcwd(buffer, size - 1))
			return fgt_why_set(
				why, -EINVAL,
				"cannot resolve the relative path in %s: "
				"working directory: %m; use an absolute path",
				name);
		len = strlen(buffer);
		buffer[len++] = '/';
	}
	if (len + strnlen(path, size) >= size)
		return fgt_why_set(why, -EINVAL,
				   "the path in %s is longer than %zu bytes; "
				   "use a shorter one",
				   name, size - 1);
	strcpy(buffer + len, path);
	return 0;
}

static int refuse_size(const struct fgt_trust *trust, const char *name,
		       struct fgt_why *why)
{
	return fgt_why_set(why, -EINVAL, "%s: larger than %s", name,
			   trust->max_text);
}

static int check_file(int fd, const struct fgt_trust *trust, const char *name,
		      struct fgt_why *why)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return fgt_why_set(why, -errno,
				   "%s: cannot stat: %m; check its path and "
				   "permissions",
				   name);
	if (!S_ISREG(status.st_mode))
		return fgt_why_set(why, -EINVAL,
				   "%s: not a regular file; name a regular one",
				   name);
	if (status.st_uid != 0 && status.st_uid != geteuid())
		return fgt_why_set(
			why, -EACCES,
			"%s: owned by uid %u; chown it to root or to "
			"uid %u",
			name, status.st_uid, geteuid());
	if (status.st_mode & trust->refused_mode)
		return fgt_why_set(why, -EACCES, "%s: mode %04o: %s", name,
				   status.st_mode & 07777, trust->mode_text);
	if ((uint64_t)status.st_size > trust->max_bytes)
		return refuse_size(trust, name, why);
	return 0;
}

int fgt_trusted_file_read(const char *path, const struct fgt_trust *trust,
			  char *bytes, size_t *ret_len, struct fgt_why *why)
{
	const char *name = fgt_trusted_file_name(path);
	FGT_AUTO(fgt_fd_close) int fd = -1;
	ssize_t got;
	int error;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return fgt_why_set(
			why, -errno,
			"%s: cannot open: %m; check its path and permissions",
			name);
	error = check_file(fd, trust, name, why);
	if (error)
		return error;
	got = fgt_fd_read(fd, bytes, trust->max_bytes + 1);
	if (got < 0)
		return fgt_why_set(why, (int)got,
				   "%s: cannot read: %m; check the disk", name);
	if ((size_t)got > trust->max_bytes)
		return refuse_size(trust, name, why);
	*ret_len = (size_t)got;
	return 0;
}
