/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which mappings are memory: reading them never waits for a file system, which
 * may be a process of a hostile user (FUSE) or a server that has gone (NFS).
 * Runs in any thread.
 */
#include "agent/unwind/maps/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "ringbuf/base/fd.h"
#include "ringbuf/base/heartbeat.h"

/* Linux 6.11, struct procmap_query of linux/fs.h. */
struct query {
	uint64_t size, flags, address;
	uint64_t start, end, vma_flags, page_size, offset, inode;
	uint32_t dev_major, dev_minor, name_size, build_id_size;
	uint64_t name, build_id;
};
#define QUERY _IOWR('f', 17, struct query)

#define DEVICES 4u

static pthread_once_t devices_once = PTHREAD_ONCE_INIT;
static dev_t devices[DEVICES]; /* 0: none; constant once they are found */

/*
 * The mounts inside the kernel that memory shared by processes comes from
 * (memfd, shmget, MAP_SHARED | MAP_ANONYMOUS), and huge pages, by their size.
 * Nothing is allocated.
 */
static void find_devices(void)
{
	static const unsigned int flags[DEVICES] = { 0, MFD_HUGETLB,
						     MFD_HUGETLB | MFD_HUGE_2MB,
						     MFD_HUGETLB |
							     MFD_HUGE_1GB };
	struct stat status;

	for (size_t i = 0; i < DEVICES; i++) {
		FGT_AUTO(fgt_fd_close)
		int fd = memfd_create("fgt-device", MFD_CLOEXEC | flags[i]);

		if (fd >= 0 && fstat(fd, &status) == 0)
			devices[i] = status.st_dev;
	}
}

bool fgt_maps_is_memory(uint64_t dev, uint64_t ino)
{
	/* A file system of a user may call its files 0, but not its device. */
	if (!dev)
		return !ino;
	pthread_once(&devices_once, find_devices);
	for (size_t i = 0; i < DEVICES; i++)
		if (devices[i] == dev)
			return true;
	return false;
}

int fgt_maps_query(int proc_fd, uint64_t address, struct fgt_mapping *ret_found)
{
	struct query query = { .size = sizeof(query), .address = address };
	struct fgt_heartbeat *heartbeat = fgt_call_enter(FGT_STEP_PROCFS);
	FGT_AUTO(fgt_fd_close)
	int fd = openat(proc_fd, "maps", O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -1 : ioctl(fd, QUERY, &query);

	fgt_call_leave(heartbeat, fd);
	if (r < 0)
		return -errno;
	*ret_found = (struct fgt_mapping){
		.start = query.start,
		.end = query.end,
		.offset = query.offset,
		.is_memory = fgt_maps_is_memory(
			makedev(query.dev_major, query.dev_minor), query.inode),
		.image = FGT_MAPS_NO_IMAGE,
	};
	return 0;
}
