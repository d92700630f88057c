/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes to a temporary name, then renames: a reader of *.envelope never finds
 * a partial file. Runs in any thread, with the rights of the directory's user;
 * must not let a name lead out of the directory.
 */
#include "upload/deliver/directory/envelope_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/base/sink.h"

#define SAME_NAME_MAX 100 /* of one millisecond */
#define ENDING_MAX    24
#define BLOCK_BYTES   4096
#define FILE_NAME_MAX (FGT_ENVELOPE_NAME_MAX + 64)

struct envelope_file {
	int directory_fd;
	int fd;
	struct fgt_envelope_written written;
	char temporary[FILE_NAME_MAX];
};

static int write_file(void *context, const void *bytes, size_t len)
{
	struct envelope_file *file = context;

	file->written.bytes += len;
	return fgt_fd_write(file->fd, bytes, len);
}

/* Keeps the characters that a file name may have; returns the length. */
static size_t clean_name(const char *name, char stem[FILE_NAME_MAX])
{
	size_t len = 0;

	for (; *name && len < FGT_ENVELOPE_NAME_MAX; name++) {
		unsigned char c = (unsigned char)*name;
		bool is_allowed = (c < 128 && isalnum(c)) || c == '-' ||
				  c == '_' || (c == '.' && len > 0);

		if (is_allowed || len == 0 || stem[len - 1] != '_')
			stem[len++] = is_allowed ? (char)c : '_';
	}
	if (len == 0)
		stem[len++] = '_';
	return len;
}

static void make_stem(const char *name, uint64_t wall_ns,
		      char stem[FILE_NAME_MAX])
{
	const time_t seconds = (time_t)(wall_ns / 1000000000u);
	size_t len = clean_name(name, stem);
	struct tm utc;

	gmtime_r(&seconds, &utc);
	len += strftime(stem + len, FILE_NAME_MAX - len, "-%Y%m%dT%H%M%S",
			&utc);
	snprintf(stem + len, FILE_NAME_MAX - len, ".%03uZ",
		 (unsigned int)(wall_ns / 1000000 % 1000));
}

/* A process that was killed between the rename and the removal from the spool
 * has left the same file: it is not written a second time. */
static bool is_written_already(const struct envelope_file *file,
			       const char *final)
{
	const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	FGT_AUTO(fgt_fd_close)
	int written = openat(file->directory_fd, file->temporary, flags);
	FGT_AUTO(fgt_fd_close)
	int existing = openat(file->directory_fd, final, flags);
	char a[BLOCK_BYTES], b[BLOCK_BYTES];
	struct stat status;
	ssize_t len;

	if (written < 0 || existing < 0 || fstat(existing, &status) < 0 ||
	    !S_ISREG(status.st_mode) ||
	    (uint64_t)status.st_size != file->written.bytes)
		return false;
	do {
		len = fgt_fd_read(written, a, sizeof(a));
		if (len < 0 || fgt_fd_read(existing, b, sizeof(b)) != len ||
		    memcmp(a, b, (size_t)len) != 0)
			return false;
	} while (len == BLOCK_BYTES);
	return true;
}

/* Replaces nothing: neither a file of the same millisecond nor a link. */
static int rename_new(const struct envelope_file *file, const char *final)
{
	if (renameat2(file->directory_fd, file->temporary, file->directory_fd,
		      final, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* The file system cannot do that: check first. */
	if (faccessat(file->directory_fd, final, F_OK, AT_SYMLINK_NOFOLLOW) ==
	    0)
		return -EEXIST;
	return renameat(file->directory_fd, file->temporary, file->directory_fd,
			final) < 0
		       ? -errno
		       : 0;
}

static int publish(struct envelope_file *file, const char *stem,
		   const char *ending)
{
	char *final = file->written.name;
	size_t size = sizeof(file->written.name);
	int r = -EEXIST;

	for (int i = 1; i <= SAME_NAME_MAX && r == -EEXIST; i++) {
		if (i == 1)
			snprintf(final, size, "%s%.*s", stem, ENDING_MAX,
				 ending);
		else
			snprintf(final, size, "%s-%d%.*s", stem, i, ENDING_MAX,
				 ending);
		r = rename_new(file, final);
		if (r == -EEXIST && is_written_already(file, final)) {
			(void)unlinkat(file->directory_fd, file->temporary, 0);
			return 0;
		}
	}
	return r;
}

static int open_temporary(struct envelope_file *file, const char *stem)
{
	snprintf(file->temporary, sizeof(file->temporary), ".%.110s.%d.tmp",
		 stem, (int)getpid());
	/* Left by an earlier process with this pid. */
	(void)unlinkat(file->directory_fd, file->temporary, 0);
	file->fd = openat(file->directory_fd, file->temporary,
			  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			  0600);
	return file->fd < 0 ? -errno : 0;
}

/* The file is there; whether its name outlives a loss of power is up to the
 * disk. */
static void sync_directory(int directory_fd)
{
	FGT_AUTO(fgt_fd_close)
	int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		(void)fsync(fd);
}

static int fill(struct envelope_file *file, const char *stem,
		const char *ending, const struct fgt_envelope *envelope)
{
	const struct fgt_sink sink = { write_file, file };
	int r = open_temporary(file, stem);

	if (r < 0)
		return r;
	r = envelope->write(envelope->context, &sink);
	/* A name that outlives a loss of power has its bytes. */
	if (r == 0 && fsync(file->fd) < 0 && errno != EINVAL)
		r = -errno;
	/* Some file systems report only here that the disk is full. */
	if (close(FGT_TAKE_FD(file->fd)) < 0 && r == 0)
		r = -errno;
	if (r == 0)
		r = publish(file, stem, ending);
	if (r < 0)
		(void)unlinkat(file->directory_fd, file->temporary, 0);
	return r;
}

static const char *remedy_of(int error)
{
	switch (error) {
	case -ENOTDIR:
		return "name a directory";
	case -ENOENT:
		return "make the directory";
	case -ENOSPC:
	case -EDQUOT:
		return "make room";
	case -EMFILE:
	case -ENFILE:
		return "raise the limit (ulimit -n, LimitNOFILE=)";
	case -EROFS:
		return "if the program is a service, add it to the "
		       "program's ReadWritePaths=";
	default:
		return "make it writable for the program's user";
	}
}

static int explain(int error, const char *directory, struct fgt_why *why)
{
	return fgt_why_set(why, error, "cannot write into %.200s: %s; %s",
			   directory, strerror(-error), remedy_of(error));
}

/* -1 and errno. */
static int open_directory(int root_fd, const char *directory)
{
	const struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};

	if (root_fd < 0)
		return open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return (int)syscall(SYS_openat2, root_fd, directory, &how, sizeof(how));
}

int fgt_envelope_file_write(const struct fgt_envelope_place *place,
			    const struct fgt_envelope *envelope,
			    struct fgt_envelope_written *ret_written,
			    struct fgt_why *why)
{
	FGT_AUTO(fgt_fd_close)
	int directory_fd = open_directory(place->root_fd, place->directory);
	struct envelope_file file = { .directory_fd = directory_fd, .fd = -1 };
	char stem[FILE_NAME_MAX];
	int r;

	if (directory_fd < 0)
		return explain(-errno, place->directory, why);
	make_stem(place->name, place->wall_ns, stem);
	r = fill(&file, stem, place->ending, envelope);
	if (r == -ENODATA)
		return fgt_why_set(why, r,
				   "no thread has two samples in it; choose "
				   "a longer time");
	if (r < 0)
		return explain(r, place->directory, why);
	sync_directory(directory_fd);
	if (place->max_files || place->max_bytes)
		fgt_envelope_file_prune(directory_fd, place);
	*ret_written = file.written;
	return 0;
}
