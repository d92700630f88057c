/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the control socket. Runs in the daemon's main thread at start; must
 * not trust a pid or a socket that it finds: the lock decides (faults R5, R6).
 */
#include "agent/daemon/socket/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "agent/daemon/socket/control.h"
#include "agent/daemon/socket/daemon_lock.h"
#include "agent/daemon/socket/passed_fds.h"

#define BACKLOG 128

static int take_path(const char *path, struct fgt_listener *listener,
		     struct fgt_why *why)
{
	/* "agent.sock" lies in "." */
	int len = snprintf(listener->path, sizeof(listener->path), "%s%s",
			   strchr(path, '/') ? "" : "./", path);

	if (len >= (int)sizeof(listener->path))
		return fgt_why_set(why, -ENAMETOOLONG,
				   "socket path is longer than %zu bytes: "
				   "choose a shorter one: %s",
				   sizeof(listener->path) - 1, path);
	if (path[0] == 0 || path[strlen(path) - 1] == '/')
		return fgt_why_set(why, -EINVAL,
				   "socket path '%s' names no file: add a "
				   "file name",
				   path);
	return 0;
}

/* Before the lock, which would leave its file beside the path. */
static int check_file(const char *path, struct fgt_why *why)
{
	struct stat status;

	if (lstat(path, &status) < 0)
		return errno == ENOENT ? 0
				       : fgt_why_set(why, -errno, "%s: %s",
						     path, strerror(errno));
	if (!S_ISSOCK(status.st_mode))
		return fgt_why_set(
			why, -EEXIST,
			"%s exists and is not a socket" FGT_CHOOSE_ANOTHER,
			path);
	return 0;
}

static int check_directory(int directory_fd, const char *path,
			   struct fgt_why *why)
{
	struct stat status;

	if (fstat(directory_fd, &status) < 0)
		return fgt_why_set(why, -errno, "%s: %s", path,
				   strerror(errno));
	if (status.st_uid != geteuid() && status.st_uid != 0)
		return fgt_why_set(
			why, -EPERM,
			"directory %s belongs to user %u" FGT_CHOOSE_ANOTHER,
			path, status.st_uid);
	if (status.st_mode & (S_IWGRP | S_IWOTH))
		return fgt_why_set(
			why, -EPERM,
			"other users may write to directory %s: chmod "
			"go-w it, or choose another socket path",
			path);
	return 0;
}

static int open_directory(const char *socket_path, bool is_default, int *ret_fd,
			  struct fgt_why *why)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	char path[sizeof(((struct fgt_listener *)0)->path)];
	char *slash;
	int r;

	memcpy(path, socket_path, strlen(socket_path) + 1);
	slash = strrchr(path, '/');
	slash[slash == path] = 0; /* "/agent.sock" lies in "/" */
	if (is_default && mkdir(path, 0750) < 0 && errno != EEXIST)
		return fgt_why_set(
			why, -errno,
			"cannot make directory %s: %s" FGT_CHOOSE_ANOTHER, path,
			strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return fgt_why_set(why, -ENOENT,
				   "the socket's directory %s does not exist: "
				   "make it (mode 0750) or choose another "
				   "socket",
				   path);
	if (fd < 0)
		return fgt_why_set(
			why, -errno,
			"cannot open directory %s: %s" FGT_CHOOSE_ANOTHER, path,
			strerror(errno));
	r = check_directory(fd, path, why);
	if (r < 0)
		return r;
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}

static bool is_answered(const struct sockaddr_un *address)
{
	FGT_AUTO(fgt_fd_close)
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd >= 0 && (connect(fd, (const struct sockaddr *)address,
				   sizeof(*address)) == 0 ||
			   errno == EAGAIN);
}

/* Under the lock: an old socket was left behind, unless a program answers. The
 * kernel does so for a daemon that is ending. */
static int remove_stale(const struct sockaddr_un *address, bool is_ending,
			struct fgt_why *why)
{
	const char *path = address->sun_path;
	struct stat status;

	if (lstat(path, &status) < 0 || !S_ISSOCK(status.st_mode))
		return 0;
	if (!is_ending && is_answered(address))
		return fgt_why_set(why, -EADDRINUSE,
				   "another program listens on %s: stop it "
				   "or choose another socket path",
				   path);
	if (unlink(path) < 0)
		return fgt_why_set(
			why, -errno,
			"cannot remove the stale socket %s: %s" FGT_CHOOSE_ANOTHER,
			path, strerror(errno));
	return 0;
}

static int listen_on(const struct sockaddr_un *address, int *ret_fd)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	const int on = 1;

	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* Connections inherit it: each message has its sender's pid. */
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		return -errno;
	/* Born with its mode, so that the umask can only take away; then the
	 * mode is what was promised. */
	if (fchmod(fd, 0660) < 0 ||
	    bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ||
	    chmod(address->sun_path, 0660) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}

static int open_all(struct fgt_listener *listener, bool is_default,
		    struct fgt_why *why)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	FGT_AUTO(fgt_fd_close) int directory_fd = -1;
	bool is_taken_over = false;
	int r = open_directory(listener->path, is_default, &directory_fd, why);

	if (r < 0)
		return r;
	memcpy(address.sun_path, listener->path, strlen(listener->path));
	r = check_file(listener->path, why);
	if (r < 0)
		return r;
	r = fgt_daemon_lock_take(directory_fd, listener->path,
				 &listener->lock_fd, &is_taken_over, why);
	if (r < 0)
		return r;
	r = remove_stale(&address, is_taken_over, why);
	if (r < 0)
		return r;
	r = listen_on(&address, &listener->fd);
	if (r < 0)
		return fgt_why_set(why, r,
				   "cannot listen on %s: %s" FGT_CHOOSE_ANOTHER,
				   listener->path, strerror(-r));
	listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return 0;
}

int fgt_listener_open(const char *path, bool is_default,
		      struct fgt_listener *ret_listener, struct fgt_why *why)
{
	struct fgt_listener listener = { .fd = -1,
					 .lock_fd = -1,
					 .spare_fd = -1 };
	int r = take_path(path, &listener, why);

	if (r == 0)
		r = open_all(&listener, is_default, why);
	if (r < 0) {
		fgt_fd_close(listener.lock_fd);
		return r;
	}
	*ret_listener = listener;
	return 0;
}

static int accept_one(const struct fgt_listener *listener)
{
	return accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

int fgt_listener_accept(struct fgt_listener *listener, int *ret_fd)
{
	FGT_AUTO(fgt_fd_close) int fd = accept_one(listener);

	if (fd >= 0) {
		*ret_fd = FGT_TAKE_FD(fd);
		return 0;
	}
	if (errno != EMFILE && errno != ENFILE && errno != ENOMEM &&
	    errno != ENOBUFS)
		return -EAGAIN; /* also a client that has gone again */
	fgt_fd_close(FGT_TAKE_FD(listener->spare_fd));
	fd = accept_one(listener);
	if (fd >= 0) {
		fgt_control_turn_away(fd, -EBUSY,
				      "the agent has no descriptor left: raise "
				      "its RLIMIT_NOFILE");
		fgt_connection_close(FGT_TAKE_FD(fd));
	}
	listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return -EMFILE;
}

void fgt_listener_close(struct fgt_listener *listener)
{
	if (listener->fd >= 0) {
		(void)unlink(listener->path);
		(void)!ftruncate(listener->lock_fd, 0);
	}
	fgt_fd_close(FGT_TAKE_FD(listener->fd));
	fgt_fd_close(FGT_TAKE_FD(listener->lock_fd));
	fgt_fd_close(FGT_TAKE_FD(listener->spare_fd));
}
