/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and reads the configuration file. Runs at start and on reload; must
 * not block on what is not a file, nor believe a file that others can write.
 */
#include "agent/daemon/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/daemon/config_scan.h"
#include "agent/daemon/config_text.h"
#include "ringbuf/owner.h"

static int check_file(int fd, const char *name, struct fgt_why *why)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return fgt_why_set(why, -errno, "%s: cannot stat: %m", name);
	if (!S_ISREG(status.st_mode))
		return fgt_why_set(why, -EINVAL,
				   "%s: not a regular file; name one", name);
	if (status.st_uid != 0 && status.st_uid != geteuid())
		return fgt_why_set(why, -EACCES,
				   "%s: owned by uid %u, who could change what "
				   "we do; chown it to root or to uid %u",
				   name, status.st_uid, geteuid());
	if (status.st_mode & S_IWOTH)
		return fgt_why_set(why, -EACCES,
				   "%s: everybody may write to it; chmod o-w",
				   name);
	if (status.st_size > FGT_CONFIG_FILE_MAX)
		return fgt_why_set(why, -EINVAL, "%s: larger than 1 MiB", name);
	return 0;
}

static int read_all(int fd, const char *name, char **ret_bytes, size_t *ret_len,
		    struct fgt_why *why)
{
	/* One byte more than allowed: a file that grows is noticed. */
	const size_t capacity = FGT_CONFIG_FILE_MAX + 1;
	FGT_AUTO(free) void *bytes = malloc(capacity);
	size_t len = 0;
	ssize_t got = 1;

	if (!bytes)
		return -ENOMEM;
	while (got && len < capacity) {
		got = read(fd, (char *)bytes + len, capacity - len);
		if (got < 0 && errno != EINTR)
			return fgt_why_set(why, -errno, "%s: cannot read: %m",
					   name);
		if (got > 0)
			len += (size_t)got;
	}
	if (len > FGT_CONFIG_FILE_MAX)
		return fgt_why_set(why, -EINVAL, "%s: larger than 1 MiB", name);
	*ret_bytes = FGT_TAKE(bytes);
	*ret_len = len;
	return 0;
}

int fgt_config_file_read(const char *path, char **ret_bytes, size_t *ret_len,
			 struct fgt_why *why)
{
	const char *name = fgt_config_short_name(path);
	FGT_AUTO(fgt_fd_close) int fd = -1;
	int error;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return fgt_why_set(
			why, -errno,
			"%s: cannot open: %m; check its path and permissions",
			name);
	error = check_file(fd, name, why);
	if (error)
		return error;
	return read_all(fd, name, ret_bytes, ret_len, why);
}
