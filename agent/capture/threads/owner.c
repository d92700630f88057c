/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the owner of a process. Runs in the daemon's threads and, after an
 * exec, in the sampler's; must not mix two processes that have the same pid one
 * after the other.
 */
#include "agent/capture/threads/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/capture/threads/process.h"
#include "agent/capture/threads/procfs.h"
#include "ringbuf/base/heartbeat.h"

#define TEXT_MAX 8192 /* /proc/PID/status is about 1.5 KiB */

struct ids {
	uint32_t real, effective, saved;
};

bool fgt_owner_is_same(const struct fgt_owner *a, const struct fgt_owner *b)
{
	return a->is_plain && b->is_plain && a->uid == b->uid &&
	       a->gid == b->gid;
}

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

	/* Without memory its files are root's in any case. */
	if (!find_line(text, "VmSize:"))
		return -ENODATA;
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

int fgt_owner_read_at(int proc_fd, struct fgt_owner *ret_owner)
{
	char text[TEXT_MAX];
	struct stat status;
	int r;

	/* First: memory that it has afterwards it had here, too. */
	r = fgt_procfs_status(proc_fd, "status", &status);
	if (r == 0)
		r = fgt_procfs_read(proc_fd, "status", text, sizeof(text));
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	return parse_owner(text, &status, ret_owner);
}

static int read_same(int proc_fd, int32_t pid, uint64_t start_time,
		     struct fgt_owner *ret_owner)
{
	struct fgt_stat stat;
	int r = fgt_stat_read(proc_fd, "task/", pid, &stat);

	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	if (stat.start_time != start_time)
		return -ESRCH;
	return fgt_owner_read_at(proc_fd, ret_owner);
}

int fgt_owner_read(int32_t pid, uint64_t start_time,
		   struct fgt_owner *ret_owner)
{
	FGT_AUTO(fgt_fd_close) int directory_fd = -1;
	char path[32];
	int r;

	r = fgt_procfs_begin(pid);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/%d", pid);
	directory_fd = fgt_procfs_open(AT_FDCWD, path, O_PATH | O_DIRECTORY);
	if (directory_fd < 0)
		return directory_fd == -ENOENT ? -ESRCH : directory_fd;
	fgt_call_keep(directory_fd);
	r = read_same(directory_fd, pid, start_time, ret_owner);
	fgt_call_keep(-1);
	return r;
}
