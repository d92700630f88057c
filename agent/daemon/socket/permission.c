/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the user of a client may see. Runs in the daemon's loop, the first
 * function in jobs and threads, too.
 */
#include "agent/daemon/socket/permission.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/capture/threads/procfs.h"
#include "agent/daemon/loop/aside.h"

#define OVERFLOW_FILE "/proc/sys/kernel/overflowuid"
#define OVERFLOW_UID  65534

bool fgt_owner_is_visible_to(const struct fgt_owner *owner,
			     const struct fgt_peer *peer)
{
	return peer->is_root ||
	       (owner->is_plain && !peer->is_stranger &&
		owner->uid == peer->uid && owner->gid == peer->gid);
}

struct looking {
	int32_t pid;
	const char *kind;
	bool is_found, is_same;
};

static void look_at_namespace(void *context)
{
	struct looking *looking = context;
	char path[40], own[40];
	struct stat daemons, peers;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", looking->pid,
		 looking->kind);
	snprintf(own, sizeof(own), "/proc/self/ns/%s", looking->kind);
	if (fgt_procfs_begin(looking->pid) < 0 ||
	    fgt_procfs_status(AT_FDCWD, path, &peers) < 0 ||
	    stat(own, &daemons) < 0)
		return;
	looking->is_same = daemons.st_ino == peers.st_ino &&
			   daemons.st_dev == peers.st_dev;
	looking->is_found = true;
}

/* Has it the daemon's namespace of that kind? False if it cannot be read. */
static bool has_namespace(int32_t pid, uint32_t uid, const char *kind,
			  bool *ret_is_same)
{
	struct looking looking = { .pid = pid, .kind = kind };

	if (fgt_aside_run(look_at_namespace, &looking, uid) < 0 ||
	    !looking.is_found)
		return false;
	*ret_is_same = looking.is_same;
	return true;
}

bool fgt_peer_is_root(int32_t pid, uint32_t uid, int peer_fd)
{
	struct pollfd end = { .fd = peer_fd, .events = POLLIN };
	bool has_pids = false, has_users = false;

	if (uid != 0)
		return false;
	/* An agent that is not root may not look at a process of root. */
	if (!has_namespace(pid, uid, "pid", &has_pids) ||
	    !has_namespace(pid, uid, "user", &has_users))
		return geteuid() != 0;
	/* Its number is not another's by now. */
	return has_pids && has_users && peer_fd >= 0 && poll(&end, 1, 0) == 0;
}

bool fgt_agent_has_rights(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct data[2] = { { 0, 0, 0 } };

	return geteuid() == 0 || syscall(SYS_capget, &head, data) < 0 ||
	       data[0].permitted || data[1].permitted;
}

bool fgt_uid_is_of_strangers(uint32_t uid)
{
	unsigned long long first, count;
	char line[80];
	bool is_mapped = false;
	FILE *map;

	if (uid != (uint32_t)fgt_procfs_read_number(AT_FDCWD, OVERFLOW_FILE,
						    OVERFLOW_UID))
		return false;
	map = fopen("/proc/self/uid_map", "re");
	while (map && fgets(line, sizeof(line), map))
		if (sscanf(line, "%llu %*u %llu", &first, &count) == 2)
			is_mapped |= uid >= first && uid - first < count;
	if (map)
		fclose(map);
	return map && !is_mapped;
}

bool fgt_pid_means_the_same_to(const struct fgt_peer *peer)
{
	bool is_same;

	if (peer->pid == 0)
		return false; /* it has no pid here */
	return has_namespace(peer->pid, peer->uid, "pid", &is_same)
		       ? is_same
		       : peer->is_root;
}
