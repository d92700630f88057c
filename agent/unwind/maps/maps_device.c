/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which file systems may be opened. Runs in any thread; must not ask the file
 * system itself, which may be a process of a hostile user (FUSE) or a server
 * that has gone: even fstatfs() waits for these.
 */
#include "agent/unwind/maps/maps_open.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "agent/unwind/maps/maps.h"
#include "ringbuf/base/heartbeat.h"

/* The kernel answers for them, from a disk or from memory; virtiofs: the host
 * of this virtual machine. */
static const char *const local_types[] = {
	"ext2",	    "ext3",	"ext4",	    "xfs",	 "btrfs",    "f2fs",
	"zfs",	    "bcachefs", "jfs",	    "nilfs2",	 "reiserfs", "tmpfs",
	"ramfs",    "rootfs",	"devtmpfs", "hugetlbfs", "overlay",  "aufs",
	"squashfs", "erofs",	"cramfs",   "romfs",	 "iso9660",  "udf",
	"vfat",	    "exfat",	"msdos",    "ntfs3",	 "ubifs",    "jffs2",
	"hfs",	    "hfsplus",	"minix",    "virtiofs",
};

static bool is_local(const char *type)
{
	for (size_t i = 0; i < sizeof(local_types) / sizeof(*local_types); i++)
		if (!strcmp(type, local_types[i]))
			return true;
	return false;
}

/* One line of mountinfo, see proc_pid_mountinfo(5): "ID PARENT MAJOR:MINOR …
 * - TYPE …". */
static bool parse_mount(const char *line, uint64_t dev, char *type)
{
	const char *at = strstr(line, " - ");
	unsigned int major_number, minor_number;

	return at &&
	       sscanf(line, "%*d %*d %u:%u", &major_number, &minor_number) ==
		       2 &&
	       makedev(major_number, minor_number) == dev &&
	       sscanf(at, " - %15s", type) == 1;
}

/* The kernel bounds the mounts (fs.mount-max) and their lines. */
static bool find_type(int dir_fd, const char *path, uint64_t dev, char *type)
{
	struct fgt_heartbeat *heartbeat = fgt_call_enter(FGT_STEP_PROCFS);
	FGT_AUTO(fgt_file_close) FILE *mounts = NULL;
	FGT_AUTO(fgt_fd_close)
	int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	bool is_found = false;
	char *line = NULL;
	size_t size = 0;

	fgt_call_leave(heartbeat, fd);
	if (fd < 0)
		return false;
	mounts = fdopen(fd, "r");
	if (!mounts)
		return false;
	(void)FGT_TAKE_FD(fd);
	while (!is_found && getline(&line, &size, mounts) >= 0)
		is_found = parse_mount(line, dev, type);
	free(line);
	return is_found;
}

/*
 * Where this process and the first one see it: a layer below a container's file
 * system is not among the mounts of that container. What only the target sees,
 * its user may have mounted.
 */
static void find_out(const struct fgt_maps_owner *owner,
		     struct fgt_maps_device *device)
{
	char *type = device->type;
	uint64_t dev = device->dev;

	if (find_type(AT_FDCWD, "/proc/thread-self/mountinfo", dev, type) ||
	    find_type(AT_FDCWD, "/proc/1/mountinfo", dev, type)) {
		device->answers = device->is_of_machine = is_local(type);
	} else if (find_type(owner->proc_fd, "mountinfo", dev, type)) {
		device->answers = is_local(type);
		device->is_of_machine = device->answers &&
					strcmp(type, "overlay") != 0;
	} else {
		snprintf(type, FGT_MAPS_TYPE_MAX, "unknown");
		/* Mounted nowhere by now: a disk, or memory. */
		device->answers = device->is_of_machine =
			major(dev) != 0 || fgt_maps_is_memory(dev, 1);
	}
}

const struct fgt_maps_device *fgt_maps_device_of(struct fgt_maps_owner *owner,
						 uint64_t dev)
{
	struct fgt_maps_device *device;
	size_t i;

	for (i = 0; i < owner->device_count; i++)
		if (owner->devices[i].dev == dev)
			return &owner->devices[i];
	if (owner->device_count == FGT_MAPS_DEVICES)
		owner->device_count = 0;
	device = &owner->devices[owner->device_count++];
	device->dev = dev;
	find_out(owner, device);
	return device;
}
