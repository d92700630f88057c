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

#include "agent/capture/threads/procfs.h"
#include "agent/daemon/delivery/delivery_child.h"
#include "agent/daemon/loop/aside.h"
#include "ringbuf/base/heartbeat.h"
#include "ringbuf/base/owner.h"

/*
 * What the kernel knows: the file system of a root may be a process of a user
 * (FUSE), which need not answer, and refuses all but its device to other users.
 */
static int identify(const char *path, struct statx *ret_status)
{
	struct fgt_heartbeat *heartbeat = fgt_call_enter(FGT_STEP_PROCFS);
	struct statx status;
	int r = statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0,
		      &status) < 0
			? -errno
			: 0;

	fgt_call_leave(heartbeat, -1);
	if (r == 0)
		*ret_status = status;
	return r;
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
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = fgt_procfs_open(AT_FDCWD, path, flags);
	if (fd >= 0)
		*ret_fd = fd;
	return fd < 0 ? fd : 0;
}

struct places {
	int32_t pid;
	int net_fd, root_fd; /* -1: the agent's own */
	int result;
};

static int find_places(int32_t pid, int *net_fd, int *root_fd)
{
	int net = compare(pid, "ns/net"), mounts = compare(pid, "ns/mnt");
	int root = compare(pid, "root"), r = 0;

	if (net < 0 || mounts < 0 || root < 0)
		return net < 0 ? net : mounts < 0 ? mounts : root;
	if (net)
		r = open_place(pid, "ns/net", O_RDONLY, net_fd);
	fgt_call_keep(*net_fd);
	if (r == 0 && (mounts || root))
		r = open_place(pid, "root", O_PATH | O_DIRECTORY, root_fd);
	fgt_call_keep(-1);
	return r;
}

static void open_places(void *context)
{
	struct places *places = context;
	int net_fd = -1, root_fd = -1, r = fgt_procfs_begin(places->pid);

	if (r == 0)
		r = find_places(places->pid, &net_fd, &root_fd);
	places->result = r;
	places->net_fd = net_fd;
	places->root_fd = root_fd;
}

int fgt_delivery_places_open(int32_t pid, int pid_fd, uint32_t uid,
			     struct fgt_delivery_fds *fds, struct fgt_why *why)
{
	struct pollfd poll_fd = { .fd = pid_fd, .events = POLLIN };
	struct places places = { .pid = pid, .net_fd = -1, .root_fd = -1 };
	int r = fgt_aside_run(open_places, &places, uid);

	if (r == 0)
		r = places.result;
	fds->fd[FGT_DELIVERY_NET] = places.net_fd;
	fds->fd[FGT_DELIVERY_ROOT] = places.root_fd;
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
