/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a program's destinations are: 127.0.0.1 and a directory mean something
 * else to a program in other namespaces. Runs in the loop's thread and in
 * a job; must not take another process with the same pid for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/daemon/delivery/delivery_child.h"
#include "ringbuf/base/owner.h"

/*
 * What the kernel knows: the file system of a root may be a process of a user
 * (FUSE), which need not answer, and refuses all but its device to other users.
 */
static int identify(const char *path, struct statx *ret_status)
{
	return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0,
		     ret_status) < 0
		       ? -errno
		       : 0;
}

static bool is_same(const struct statx *a, const struct statx *b)
{
	return a->stx_dev_major == b->stx_dev_major &&
	       a->stx_dev_minor == b->stx_dev_minor && a->stx_ino == b->stx_ino;
}

/* 0: it is the agent's own, too; 1: it is not. */
static int compare(int32_t pid, const char *name)
{
	char path[48], own_path[48];
	struct statx status, own;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	snprintf(own_path, sizeof(own_path), "/proc/self/%s", name);
	r = identify(own_path, &own);
	if (r == 0)
		r = identify(path, &status);
	return r < 0 ? r : !is_same(&status, &own);
}

static int open_place(int32_t pid, const char *name, int flags, int *ret_fd)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	*ret_fd = open(path, flags | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static int open_places(int32_t pid, struct fgt_delivery_fds *fds)
{
	int net = compare(pid, "ns/net"), mounts = compare(pid, "ns/mnt");
	int root = compare(pid, "root"), r = 0;

	if (net < 0 || mounts < 0 || root < 0)
		return net < 0 ? net : mounts < 0 ? mounts : root;
	if (net)
		r = open_place(pid, "ns/net", O_RDONLY,
			       &fds->fd[FGT_DELIVERY_NET]);
	if (r == 0 && (mounts || root))
		r = open_place(pid, "root", O_PATH | O_DIRECTORY,
			       &fds->fd[FGT_DELIVERY_ROOT]);
	return r;
}

int fgt_delivery_places_open(int32_t pid, int pid_fd,
			     struct fgt_delivery_fds *fds, struct fgt_why *why)
{
	struct pollfd poll_fd = { .fd = pid_fd, .events = POLLIN };
	int r = open_places(pid, fds);

	if (r < 0 && geteuid() != 0 && (r == -EACCES || r == -EPERM))
		return 0;
	if (r == 0 && poll(&poll_fd, 1, 0) == 0)
		return 0;
	return fgt_why_set(why, r < 0 ? r : -ESRCH,
			   "cannot find out where pid %d delivers from: %s",
			   pid, strerror(r < 0 ? -r : ESRCH));
}

int fgt_delivery_places_copy(const struct fgt_delivery_fds *places,
			     struct fgt_delivery_fds *fds, struct fgt_why *why)
{
	for (int i = FGT_DELIVERY_NET; i <= FGT_DELIVERY_ROOT; i++) {
		fgt_fd_close(FGT_TAKE_FD(fds->fd[i]));
		if (places->fd[i] < 0)
			continue;
		fds->fd[i] = fcntl(places->fd[i], F_DUPFD_CLOEXEC, 3);
		if (fds->fd[i] < 0)
			return fgt_why_set(why, -errno,
					   "where the program delivers cannot "
					   "be kept: %s: raise ulimit -n",
					   strerror(errno));
	}
	return 0;
}

void fgt_delivery_fds_close(struct fgt_delivery_fds *fds)
{
	for (int i = 0; i < FGT_DELIVERY_FDS; i++)
		fgt_fd_close(FGT_TAKE_FD(fds->fd[i]));
}
