/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the owner of a process. Runs in the daemon's loop; must not mix two
 * processes that have the same pid one after the other.
 */
#include "agent/daemon/socket/permission.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/capture/threads/process.h"
#include "agent/capture/threads/procfs.h"
#include "ringbuf/base/owner.h"

#define TEXT_MAX 8192 /* /proc/PID/status is about 1.5 KiB */

struct ids {
	uint32_t real, effective, saved;
};

/* The line "Name:\t…" of /proc/PID/status; thread names cannot forge one:
 * the kernel escapes their newlines. */
static const char *find_line(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, len) == 0)
			return line + len;
	}
	return NULL;
}

static bool parse_ids(const char *text, const char *name, struct ids *ret_ids)
{
	const char *line = find_line(text, name);

	return line && sscanf(line, "%u %u %u", &ret_ids->real,
			      &ret_ids->effective, &ret_ids->saved) == 3;
}

static bool has_capability(const char *text)
{
	const char *line = find_line(text, "CapPrm:");
	unsigned long long permitted;

	/* Not known counts as yes. */
	return !line || sscanf(line, "%llx", &permitted) != 1 || permitted != 0;
}

static bool is_all(const struct ids *ids)
{
	return ids->real == ids->effective && ids->real == ids->saved;
}

static int parse_owner(const char *text, const struct stat *status,
		       struct fgt_owner *ret_owner)
{
	struct ids uids, gids;

	if (!parse_ids(text, "Uid:", &uids) || !parse_ids(text, "Gid:", &gids))
		return -ESRCH;
	ret_owner->uid = uids.real;
	ret_owner->gid = gids.real;
	/* Files of a process that is not dumpable belong to root. */
	ret_owner->is_plain = is_all(&uids) && is_all(&gids) &&
			      !has_capability(text) &&
			      status->st_uid == uids.effective;
	return 0;
}

int fgt_owner_read(int32_t pid, uint64_t start_time,
		   struct fgt_owner *ret_owner)
{
	FGT_AUTO(fgt_fd_close) int directory_fd = -1;
	char path[32], text[TEXT_MAX];
	struct fgt_stat stat;
	struct stat status;
	int r;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	directory_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (directory_fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	r = fgt_stat_read(directory_fd, "task/", pid, &stat);
	if (r == 0 && stat.start_time != start_time)
		return -ESRCH;
	if (r == 0)
		r = fgt_procfs_read(directory_fd, "status", text, sizeof(text));
	if (r >= 0 && fstatat(directory_fd, "status", &status, 0) < 0)
		r = -errno;
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	return parse_owner(text, &status, ret_owner);
}

bool fgt_owner_is_visible_to(const struct fgt_owner *owner, uint32_t uid,
			     uint32_t gid)
{
	return uid == 0 ||
	       (owner->is_plain && owner->uid == uid && owner->gid == gid);
}

bool fgt_pid_means_the_same_to(int32_t peer_pid, uint32_t peer_uid)
{
	char path[40];
	struct stat daemons, peers;

	if (peer_pid == 0)
		return false; /* it has no pid here */
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", peer_pid);
	if (stat(path, &peers) < 0 || stat("/proc/self/ns/pid", &daemons) < 0)
		return peer_uid == 0;
	return daemons.st_ino == peers.st_ino && daemons.st_dev == peers.st_dev;
}
