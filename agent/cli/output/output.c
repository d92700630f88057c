/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that appear whole or not at all. Runs in the command line's main
 * thread. Must leave no half file behind, even if killed, where the file
 * system can hold a file without a name.
 */
#include "agent/cli/output/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "upload/format/parts/gzip.h"

#define NAME_TRIES 16

struct fgt_output {
	const char *flag; /* that names it, for messages */
	char path[PATH_MAX]; /* as asked for, likewise */
	char real_path[PATH_MAX]; /* where it goes, links followed */
	char temp_path[PATH_MAX]; /* "": no name yet, or none needed */
	int fd;
	bool is_replaced; /* a regular file: renamed into place */
	bool is_borrowed; /* standard output */
	bool is_committed;
	int write_error; /* of write() here, not the encoder's */
	uint64_t bytes; /* written */
	struct fgt_sink fd_sink;
	struct fgt_gzip *gzip; /* NULL: written as it comes */
};

/* A descriptor that was inherited may be non-blocking. */
static int write_fd(void *context, const void *bytes, size_t len)
{
	struct fgt_output *output = context;
	const char *cursor = bytes;

	while (len > 0 && output->write_error == 0) {
		ssize_t n = write(output->fd, cursor, len);

		if (n > 0) {
			cursor += n;
			len -= (size_t)n;
			output->bytes += (uint64_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			struct pollfd ready = { .fd = output->fd,
						.events = POLLOUT };

			(void)poll(&ready, 1, -1);
		} else if (n < 0 && errno != EINTR) {
			output->write_error = -errno;
		}
	}
	return output->write_error;
}

static bool has_directory(const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX] = ".";
	struct stat status;

	if (slash)
		snprintf(dir, sizeof(dir), "%.*s/", (int)(slash - path), path);
	return stat(dir, &status) == 0 && S_ISDIR(status.st_mode);
}

/* The flag follows. */
static const char *cause_of(int error, const char *path)
{
	switch (error) {
	case -ENOSPC:
	case -EDQUOT:
		return "no space left; free some or choose another place";
	case -EACCES:
	case -EPERM:
		return "not permitted; choose a directory that you may "
		       "write";
	case -EROFS:
		return "read-only file system; choose another place";
	case -ENOENT:
	case -ENOTDIR:
		return has_directory(path)
			       ? "its directory takes no files, or it is a "
				 "symbolic link to nothing; choose another "
				 "place"
			       : "the directory does not exist; create it or "
				 "choose another";
	case -EISDIR:
		return "it is a directory; add a file name to it";
	case -ELOOP:
		return "it is a symbolic link of another user; remove it or "
		       "choose another place";
	case -EBADF:
		return "it is closed; write to a file";
	default:
		return NULL;
	}
}

static int explain(const struct fgt_output *output, int error,
		   struct fgt_why *why)
{
	const char *name = output->is_borrowed ? "standard output"
			   : output->path[0]   ? output->path
					       : "into the current directory";

	const char *cause = cause_of(error, output->path);

	if (!cause)
		return fgt_why_set(why, error,
				   "cannot write %s: %s; choose another place "
				   "with %s",
				   name, strerrordesc_np(-error), output->flag);
	return fgt_why_set(why, error, "cannot write %s: %s with %s", name,
			   cause, output->flag);
}

/*
 * Follows links to the file that they name. A link of a user other than this
 * one and root (planted in /tmp, for example) is not followed.
 */
static int resolve(struct fgt_output *output)
{
	char resolved[PATH_MAX];
	struct stat status;

	strcpy(output->real_path, output->path);
	if (lstat(output->path, &status) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISLNK(status.st_mode))
		return 0;
	if (status.st_uid != geteuid() && status.st_uid != 0)
		return -ELOOP;
	if (stat(output->path, &status) == 0 && !S_ISREG(status.st_mode))
		return 0;
	if (!realpath(output->path, resolved))
		return -errno;
	strcpy(output->real_path, resolved);
	return 0;
}

/*
 * Calls make with a free name "DIR/.fgtrace-RANDOM.tmp", on the same file
 * system as the file. make: negative errno, -EEXIST to be called again.
 */
static int make_temporary(struct fgt_output *output,
			  int (*make)(struct fgt_output *output))
{
	const char *slash = strrchr(output->real_path, '/');
	int dir_len = slash ? (int)(slash + 1 - output->real_path) : 0;
	int r = -EEXIST;

	for (int i = 0; i < NAME_TRIES && r == -EEXIST; i++) {
		unsigned int number = 0;
		int len;

		(void)!getrandom(&number, sizeof(number), 0);
		len = snprintf(output->temp_path, sizeof(output->temp_path),
			       "%.*s.fgtrace-%08x.tmp", dir_len,
			       output->real_path, number);
		r = len < (int)sizeof(output->temp_path) ? make(output)
							 : -ENAMETOOLONG;
	}
	if (r < 0)
		output->temp_path[0] = '\0';
	return r;
}

static int open_nameless(struct fgt_output *output)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(output->real_path, '/');
	int len = slash ? (int)(slash - output->real_path) : 0;

	if (slash)
		snprintf(dir, sizeof(dir), "%.*s", len ? len : 1,
			 output->real_path);
	else
		strcpy(dir, ".");
	output->fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	return output->fd < 0 ? -errno : 0;
}

static int open_named(struct fgt_output *output)
{
	output->fd = open(output->temp_path,
			  O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW,
			  0600);
	return output->fd < 0 ? -errno : 0;
}

static int open_beside(struct fgt_output *output)
{
	int r = open_nameless(output);

	output->is_replaced = true;
	if (r == -EOPNOTSUPP || r == -EISDIR || r == -EINVAL || r == -ENOENT)
		r = make_temporary(output, open_named);
	return r;
}

static int open_file(struct fgt_output *output)
{
	struct stat status;
	int r = resolve(output);

	if (r < 0)
		return r;
	if (stat(output->real_path, &status) == 0) {
		if (S_ISDIR(status.st_mode))
			return -EISDIR;
		if (!S_ISREG(status.st_mode)) {
			output->fd = open(output->real_path,
					  O_WRONLY | O_CLOEXEC | O_NOCTTY);
			return output->fd < 0 ? -errno : 0;
		}
	}
	return open_beside(output);
}

static int open_any(struct fgt_output *output, const char *path)
{
	size_t len = strlen(path);

	if (strcmp(path, "-") == 0) {
		output->is_borrowed = true;
		output->fd = STDOUT_FILENO;
		return 0;
	}
	if (len >= sizeof(output->path))
		return -ENAMETOOLONG;
	strcpy(output->path, path);
	if (len == 0 || path[len - 1] == '/')
		return -EISDIR;
	return open_file(output);
}

static struct fgt_output *new_output(const char *flag)
{
	struct fgt_output *output = calloc(1, sizeof(*output));

	if (output) {
		output->fd = -1;
		output->flag = flag;
		output->fd_sink = (struct fgt_sink){ write_fd, output };
	}
	return output;
}

int fgt_output_open_for(const char *flag, const char *path, bool is_gzip,
			struct fgt_output **ret_output, struct fgt_why *why)
{
	FGT_AUTO(fgt_output_free) struct fgt_output *output = new_output(flag);
	int r = output ? open_any(output, path) : -ENOMEM;

	if (r < 0 && output)
		return explain(output, r, why);
	if (r == 0 && is_gzip)
		r = fgt_gzip_new(&output->fd_sink, &output->gzip);
	if (r < 0)
		return fgt_why_set(why, r, FGT_NO_MEMORY);
	*ret_output = FGT_TAKE(output);
	return 0;
}

int fgt_output_open(const char *path, bool is_gzip,
		    struct fgt_output **ret_output, struct fgt_why *why)
{
	return fgt_output_open_for("-o", path, is_gzip, ret_output, why);
}

static int check_directory(const char *directory, struct fgt_why *why)
{
	FGT_AUTO(fgt_output_free) struct fgt_output *output = new_output("-o");
	int r;

	if (!output)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	snprintf(output->path, sizeof(output->path), "%s", directory);
	snprintf(output->real_path, sizeof(output->real_path), "%s/",
		 directory[0] ? directory : ".");
	r = open_beside(output);
	return r < 0 ? explain(output, r, why) : 0;
}

int fgt_output_check(const char *path, const char *directory,
		     struct fgt_why *why)
{
	FGT_AUTO(fgt_output_free) struct fgt_output *output = NULL;
	struct stat status;

	if (!path)
		return check_directory(directory, why);
	if (strcmp(path, "-") == 0 ||
	    (stat(path, &status) == 0 && !S_ISREG(status.st_mode) &&
	     !S_ISDIR(status.st_mode)))
		return 0;
	return fgt_output_open(path, false, &output, why);
}

const struct fgt_sink *fgt_output_sink(struct fgt_output *output)
{
	return output->gzip ? fgt_gzip_sink(output->gzip) : &output->fd_sink;
}

/* Gives a file that has no name yet a temporary one. */
static int link_named(struct fgt_output *output)
{
	char source[64];

	snprintf(source, sizeof(source), "/proc/self/fd/%d", output->fd);
	return linkat(AT_FDCWD, source, AT_FDCWD, output->temp_path,
		      AT_SYMLINK_FOLLOW) < 0
		       ? -errno
		       : 0;
}

static int place(struct fgt_output *output)
{
	int r = 0;

	if (output->is_replaced && !output->temp_path[0])
		r = make_temporary(output, link_named);
	if (r < 0)
		return r;
	if (!output->is_borrowed) {
		/* Some file systems report lack of space only here. */
		if (close(FGT_TAKE_FD(output->fd)) < 0)
			return -errno;
	}
	if (output->is_replaced &&
	    rename(output->temp_path, output->real_path) < 0)
		return -errno;
	output->is_committed = true;
	return 0;
}

int fgt_output_commit(struct fgt_output *output, int encode_error,
		      uint64_t *ret_bytes, struct fgt_why *why)
{
	int r = encode_error;

	if (r == 0 && output->gzip)
		r = fgt_gzip_finish(output->gzip);
	if (r == 0)
		r = output->write_error = place(output);
	if (output->write_error < 0)
		return explain(output, output->write_error, why);
	if (r < 0)
		return r;
	*ret_bytes = output->bytes;
	return 0;
}

void fgt_output_free(struct fgt_output *output)
{
	if (!output)
		return;
	fgt_gzip_free(output->gzip);
	if (!output->is_borrowed)
		fgt_fd_close(output->fd);
	if (output->temp_path[0] && !output->is_committed)
		(void)unlink(output->temp_path);
	free(output);
}
