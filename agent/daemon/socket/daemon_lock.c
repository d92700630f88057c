/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the lock of a control socket. Runs in the daemon's main thread at
 * start; must not trust a pid that it finds in the file.
 */
#include "agent/daemon/socket/daemon_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/capture/threads/process.h"
#include "ringbuf/base/owner.h"

/* Each time another daemon was faster. */
#define ATTEMPTS       8
#define CHILD_ATTEMPTS 10 /* of 100 ms */

/* Bytes of the file that have a separate record lock. */
enum record {
	RECORD_HOLDER, /* as long as the daemon has the file's lock */
	RECORD_TAKE_OVER, /* while another one removes the file */
};

static struct flock record_of(enum record record)
{
	return (struct flock){ .l_type = F_WRLCK,
			       .l_whence = SEEK_SET,
			       .l_start = record,
			       .l_len = 1 };
}

/*
 * The pid inside the file may be that of a holder long dead. The holder also
 * has a record lock, for which the kernel knows the pid; it takes that right
 * after the other: wait a little. 0: not found out.
 */
static pid_t read_holder(int lock_fd)
{
	for (int attempt = 0; attempt < 20; attempt++) {
		struct flock record = record_of(RECORD_HOLDER);

		if (fcntl(lock_fd, F_GETLK, &record) == 0 &&
		    record.l_type != F_UNLCK && record.l_pid > 0)
			return record.l_pid;
		usleep(5000);
	}
	return 0;
}

static int refuse_second(int lock_fd, const char *socket_path,
			 struct fgt_why *why)
{
	pid_t pid = read_holder(lock_fd);

	if (pid > 0)
		return fgt_why_set(why, -EADDRINUSE,
				   "a daemon runs on %s already: stop pid "
				   "%ld or choose another socket path",
				   socket_path, (long)pid);
	return fgt_why_set(why, -EADDRINUSE,
			   "a daemon runs on %s already: stop it or choose "
			   "another socket path",
			   socket_path);
}

static int write_pid(int lock_fd)
{
	struct flock record = record_of(RECORD_HOLDER);
	char text[24];
	int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());

	if (fcntl(lock_fd, F_SETLK, &record) < 0 || ftruncate(lock_fd, 0) < 0)
		return -errno;
	return pwrite(lock_fd, text, (size_t)len, 0) == len ? 0 : -EIO;
}

static void lock_name(const char *socket_path, char *name, size_t size)
{
	const char *base = strrchr(socket_path, '/') + 1;
	size_t len = strlen(base);

	if (len > 5 && strcmp(base + len - 5, ".sock") == 0)
		len -= 5;
	snprintf(name, size, "%.*s.lock", (int)len, base);
}

static int open_lock(int directory_fd, const char *name,
		     const char *socket_path, int *ret_fd, struct fgt_why *why)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct stat status;

	fd = openat(directory_fd, name,
		    O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return fgt_why_set(why, -errno,
				   "cannot open lock file %s beside %s: "
				   "%s" FGT_CHOOSE_ANOTHER,
				   name, socket_path, strerror(errno));
	if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
		return fgt_why_set(why, -EEXIST,
				   "lock file %s beside %s is not a file: "
				   "remove it",
				   name, socket_path);
	/* Who may read it may lock it: not the users of the socket. */
	if (status.st_uid == geteuid())
		(void)fchmod(fd, 0600);
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}

/* A daemon that took over has given the name to a new file. */
static bool has_name(int directory_fd, const char *name, int fd)
{
	struct stat named, opened;

	return fstatat(directory_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(fd, &opened) == 0 && named.st_ino == opened.st_ino &&
	       named.st_dev == opened.st_dev;
}

/*
 * A daemon that was killed while one of its threads waits in the kernel, for a
 * file system that does not answer. Its first thread is a zombie; its
 * descriptors, and the lock, it keeps until that thread ends.
 */
static bool is_ending(pid_t pid)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct fgt_stat stat;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%ld", (long)pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 &&
	       fgt_stat_read(fd, "task/", (int32_t)pid, &stat) == 0 &&
	       stat.state == 'Z';
}

/*
 * Removes the lock file of such a daemon; true if its name is free, or another
 * file's. Under a lock that only those may have who may write the file: of two
 * that take over, the second must not remove the first one's file. (A lock of
 * the directory could be held by any user who may read that.)
 */
static bool drop_lock_of_ending(int directory_fd, const char *name, int fd)
{
	struct flock record = record_of(RECORD_TAKE_OVER);
	pid_t pid = read_holder(fd);

	/* It ends with the descriptor. */
	if (pid <= 0 || !is_ending(pid) || fcntl(fd, F_SETLK, &record) < 0)
		return false;
	return !has_name(directory_fd, name, fd) ||
	       unlinkat(directory_fd, name, 0) == 0;
}

/* A child of a daemon that was killed has the lock, too, until it executes. */
static int take(int fd)
{
	for (int attempt = 0; attempt < CHILD_ATTEMPTS; attempt++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK)
			return -errno;
		if (read_holder(fd) > 0)
			break;
	}
	return -EWOULDBLOCK;
}

/* -EAGAIN: the name is another file's by now. */
static int lock(int directory_fd, const char *name, const char *socket_path,
		int fd, bool *is_taken_over, struct fgt_why *why)
{
	int r = take(fd);

	if (r < 0) {
		if (r != -EWOULDBLOCK)
			return fgt_why_set(why, r,
					   "cannot lock %s: "
					   "%s" FGT_CHOOSE_ANOTHER,
					   name, strerror(-r));
		if (!drop_lock_of_ending(directory_fd, name, fd))
			return refuse_second(fd, socket_path, why);
		*is_taken_over = true;
		return -EAGAIN;
	}
	if (!has_name(directory_fd, name, fd))
		return -EAGAIN;
	r = write_pid(fd);
	return r < 0 ? fgt_why_set(why, r,
				   "cannot write lock file %s: "
				   "%s" FGT_CHOOSE_ANOTHER,
				   name, strerror(-r))
		     : 0;
}

int fgt_daemon_lock_take(int directory_fd, const char *socket_path, int *ret_fd,
			 bool *ret_is_taken_over, struct fgt_why *why)
{
	char name[128];
	int r = -EAGAIN;

	lock_name(socket_path, name, sizeof(name));
	*ret_is_taken_over = false;
	for (int attempt = 0; attempt < ATTEMPTS && r == -EAGAIN; attempt++) {
		FGT_AUTO(fgt_fd_close) int fd = -1;

		r = open_lock(directory_fd, name, socket_path, &fd, why);
		if (r == 0)
			r = lock(directory_fd, name, socket_path, fd,
				 ret_is_taken_over, why);
		if (r == 0)
			*ret_fd = FGT_TAKE_FD(fd);
	}
	if (r == -EAGAIN)
		return fgt_why_set(why, -EADDRINUSE,
				   "other daemons start on %s at the same "
				   "time" FGT_CHOOSE_ANOTHER,
				   socket_path);
	return r;
}
