/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a file, checked first. Runs in a reader, and in programs that have
 * none; must not be led out of a root, nor open what is no regular file.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/files/reader.h"
#include "ringbuf/base/owner.h"

#define PIECE_BYTES (256u << 10)
#define NO_GROUP    65534u
/* Of a process whose first thread has ended, /proc/self has none. */
#define OWN_FD "/proc/thread-self/fd/%d"

/* O_PATH: to open a FIFO or a device is to touch it. A writer that waits for a
 * reader of a FIFO goes on, a tape rewinds. */
static int find_below(int root_fd, const struct fgt_open_request *request)
{
	const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC |
			 (request->is_link_refused ? O_NOFOLLOW : 0),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};

	return (int)syscall(SYS_openat2, root_fd, request->path, &how,
			    sizeof(how));
}

static int find_root(int proc_fd)
{
	return openat(proc_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int find(const struct fgt_open_request *request)
{
	FGT_AUTO(fgt_fd_close) int root_fd = -1;

	switch (request->place) {
	case FGT_OPEN_LINK:
		return openat(request->dir_fd, request->path,
			      O_PATH | O_CLOEXEC);
	case FGT_OPEN_ROOT:
		return find_root(request->dir_fd);
	case FGT_OPEN_BELOW_PROCESS:
		root_fd = find_root(request->dir_fd);
		return root_fd < 0 ? -1 : find_below(root_fd, request);
	case FGT_OPEN_BELOW:
	case FGT_OPEN_NAMED:
	default:
		return find_below(request->dir_fd, request);
	}
}

/*
 * /proc/PID/exe may lead to another file than the mapped one, on a file system
 * that does not answer: what is known of it without asking that must agree.
 */
static int check_identity(int path_fd, const struct fgt_open_request *request)
{
	struct statx status;

	if (!request->ino)
		return 0;
	if (statx(path_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO,
		  &status) < 0)
		return -errno;
	return makedev(status.stx_dev_major, status.stx_dev_minor) ==
				       request->dev &&
			       status.stx_ino == request->ino
		       ? 0
		       : -ESTALE;
}

void fgt_file_version_of(const struct stat *status,
			 struct fgt_file_version *ret_version)
{
	*ret_version = (struct fgt_file_version){
		.dev = status->st_dev,
		.ino = status->st_ino,
		.size = (uint64_t)status->st_size,
		.modified_s = status->st_mtim.tv_sec,
		.modified_ns = status->st_mtim.tv_nsec,
	};
}

static int check_status(const struct stat *status,
			const struct fgt_open_request *request)
{
	struct fgt_file_version version;

	if (S_ISLNK(status->st_mode))
		return -ELOOP;
	if (!S_ISREG(status->st_mode))
		return -EINVAL;
	if (request->is_of_user && status->st_uid &&
	    status->st_uid != request->uid)
		return -EPERM;
	if (request->size_max && (uint64_t)status->st_size > request->size_max)
		return -EFBIG;
	fgt_file_version_of(status, &version);
	return request->known && !memcmp(&version, request->known,
					 sizeof(version))
		       ? -EALREADY
		       : 0;
}

/* The same file, also if its name leads to another one by now. */
static int reopen(int path_fd, int *ret_fd)
{
	char path[sizeof(OWN_FD) + 3 * sizeof(int)];
	int fd;

	snprintf(path, sizeof(path), OWN_FD, path_fd);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/* As many bytes as it had at fstat(); it may shrink during the copy. */
static int copy_bytes(int from_fd, int to_fd, uint64_t len)
{
	FGT_AUTO(free) void *piece = malloc(PIECE_BYTES);
	uint64_t done = 0;

	if (!piece)
		return -ENOMEM;
	while (done < len) {
		size_t step = len - done < PIECE_BYTES ? (size_t)(len - done)
						       : PIECE_BYTES;
		ssize_t got = pread(from_fd, piece, step, (off_t)done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -EIO;
		if (!got)
			return 0;
		if (pwrite(to_fd, piece, (size_t)got, (off_t)done) != got)
			return -ENOSPC;
		done += (uint64_t)got;
	}
	return 0;
}

/* Replaces the file by memory with its bytes. */
static int copy(int *fd, uint64_t len)
{
	FGT_AUTO(fgt_fd_close)
	int memory_fd = memfd_create("fgt-copy", MFD_CLOEXEC);
	int r = memory_fd < 0 ? -errno : copy_bytes(*fd, memory_fd, len);

	if (r < 0)
		return r;
	fgt_fd_close(*fd);
	*fd = FGT_TAKE_FD(memory_fd);
	return 0;
}

bool fgt_open_is_path(const struct fgt_open_request *request)
{
	return request->place == FGT_OPEN_ROOT ||
	       request->place == FGT_OPEN_NAMED;
}

static int open_checked(const struct fgt_open_request *request,
			struct fgt_opened_file *ret_file)
{
	FGT_AUTO(fgt_fd_close) int path_fd = find(request);
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct stat status;
	int r;

	if (path_fd < 0)
		return -errno;
	if (fgt_open_is_path(request)) {
		memset(&ret_file->status, 0, sizeof(ret_file->status));
		ret_file->fd = FGT_TAKE_FD(path_fd);
		return 0;
	}
	r = check_identity(path_fd, request);
	if (r == 0)
		r = fstat(path_fd, &status) < 0
			    ? -errno
			    : check_status(&status, request);
	if (r == 0)
		r = reopen(path_fd, &fd);
	if (r == 0 && request->is_copied)
		r = copy(&fd, (uint64_t)status.st_size);
	if (r < 0)
		return r;
	ret_file->status = status;
	ret_file->fd = FGT_TAKE_FD(fd);
	return 0;
}

/* Opens files with the rights of that user from now on. The kernel takes those
 * to read all files away, and gives them back to root. */
static bool become(uint32_t uid, uint32_t gid)
{
	setfsgid(gid);
	setfsuid(uid);
	return (uint32_t)setfsuid((uid_t)-1) == uid &&
	       (uint32_t)setfsgid((gid_t)-1) == gid;
}

int fgt_open_here(const struct fgt_open_request *request,
		  struct fgt_opened_file *ret_file)
{
	uint32_t own_uid = geteuid(), own_gid = getegid();
	int r = -EPERM;
	bool is_other;

	if (!request->is_by_user || request->uid == own_uid)
		return open_checked(request, ret_file);
	is_other = become(request->uid, NO_GROUP);
	if (is_other)
		r = open_checked(request, ret_file);
	if (!become(own_uid, own_gid) && is_other && own_uid == 0)
		abort(); /* all else would be opened as that user */
	return r;
}
