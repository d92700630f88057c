/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens mapped files. Runs in any thread; must never return a file that is not
 * the mapped one: an upgrade puts another file at the same path.
 */
#include "agent/unwind/maps/maps_open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/unwind/arch/memory.h"
#include "agent/unwind/elf/rootfs.h"

#define VDSO_BYTES_MAX (64u * 1024)
#define HEAD_BYTES     4096u

static int read_memory(int32_t pid, uint64_t address, void *buffer, size_t len)
{
	int64_t got = fgt_memory_read(pid, address, buffer, len);

	if (got < 0)
		return (int)got;
	return (size_t)got == len ? 0 : -EFAULT;
}

/* Is the mapped memory at base a copy of this file's first page? */
static int verify_memory(const struct fgt_maps_owner *owner,
			 struct fgt_image_file *file, uint64_t base)
{
	const struct fgt_elf *elf = fgt_image_file_elf(file);
	uint8_t in_file[HEAD_BYTES], in_memory[HEAD_BYTES];
	uint64_t bias;

	if (!base)
		return -ESTALE;
	if (fgt_image_file_read_head(file, in_file, sizeof(in_file)) < 0 ||
	    read_memory(owner->pid, base, in_memory, sizeof(in_memory)) < 0 ||
	    memcmp(in_file, in_memory, sizeof(in_file)))
		return -ESTALE;
	/* Without a build id the first page does not prove enough. */
	if (!elf->build_id_len || !elf->build_id_address ||
	    fgt_elf_find_bias(elf, base, 0, false, &bias) < 0 ||
	    read_memory(owner->pid, bias + elf->build_id_address, in_memory,
			elf->build_id_len) < 0 ||
	    memcmp(in_memory, elf->build_id, elf->build_id_len))
		return -ESTALE;
	return 0;
}

/* Opens a regular file; -EINVAL if it is none (a device is not opened). */
static int open_regular(const struct fgt_maps_owner *owner, const char *path,
			int *ret_fd)
{
	FGT_AUTO(fgt_fd_close)
	int path_fd = openat(owner->proc_fd, path, O_PATH | O_CLOEXEC);
	struct stat status;

	if (path_fd < 0 || fstat(path_fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	return fgt_rootfs_reopen(path_fd, ret_fd);
}

static bool is_same_file(int fd, const struct fgt_maps_line *line)
{
	struct stat status;

	return fstat(fd, &status) == 0 && status.st_dev == line->dev &&
	       status.st_ino == line->ino;
}

/*
 * Run by root, stacks of all users wait for the sampler: it opens only what
 * answers at once. An ordinary user's agent waits for that user's files only.
 */
static bool may_never_answer(struct fgt_maps_owner *owner, uint64_t dev)
{
	return geteuid() == 0 && !fgt_maps_device_answers(owner, dev);
}

/*
 * The main program can be opened so even if it was deleted. It may be another
 * file than the mapped one, on a file system that does not answer: what is
 * known of it without asking that must agree first.
 */
static int open_exe(const struct fgt_maps_owner *owner,
		    const struct fgt_maps_line *line, int *ret_fd)
{
	FGT_AUTO(fgt_fd_close)
	int fd = openat(owner->proc_fd, "exe", O_PATH | O_CLOEXEC);
	struct statx status;

	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
			    STATX_INO, &status) < 0)
		return -errno;
	if (makedev(status.stx_dev_major, status.stx_dev_minor) != line->dev ||
	    status.stx_ino != line->ino)
		return -ESTALE;
	return fgt_rootfs_reopen(fd, ret_fd);
}

/* Adds a candidate; one that is not exactly the inode must prove itself. */
static int take_candidate(const struct fgt_maps_owner *owner,
			  struct fgt_image_cache *cache, int fd,
			  const struct fgt_maps_line *line, uint64_t base,
			  struct fgt_image_file **ret_file)
{
	const struct fgt_image_key mapped = { line->dev, line->ino };
	bool is_exact = is_same_file(fd, line);
	struct fgt_image_file *file;
	int r;

	r = fgt_image_cache_add(cache, fd, &mapped, &file);
	if (r < 0)
		return r;
	if (!is_exact)
		r = verify_memory(owner, file, base);
	if (r < 0) {
		fgt_image_file_put(file);
		return r;
	}
	*ret_file = file;
	return 0;
}

/*
 * map_files names the mapping, not a path. The mapping may have been replaced
 * since maps was read, so the inode must agree; where a layered file system
 * shows another device, the memory must.
 */
static int open_by_map_files(const struct fgt_maps_owner *owner,
			     struct fgt_image_cache *cache,
			     const struct fgt_maps_line *line, uint64_t base,
			     struct fgt_image_file **ret_file)
{
	char path[64];
	int fd, r;

	snprintf(path, sizeof(path), "map_files/%" PRIx64 "-%" PRIx64,
		 line->start, line->end);
	r = open_regular(owner, path, &fd);
	if (r < 0)
		return r;
	return take_candidate(owner, cache, fd, line, base, ret_file);
}

int fgt_maps_open(struct fgt_maps_owner *owner, struct fgt_image_cache *cache,
		  const struct fgt_maps_line *line, uint64_t base,
		  struct fgt_image_file **ret_file)
{
	const struct fgt_image_key key = { line->dev, line->ino };
	int fd, r;

	if (fgt_image_cache_find(cache, &key, ret_file) == 0)
		return 0;
	if (may_never_answer(owner, line->dev))
		return -EREMOTEIO;
	r = open_by_map_files(owner, cache, line, base, ret_file);
	if (r == 0 || r == -ENOMEM || r == -ENOEXEC || r == -EBADMSG)
		return r;
	r = open_exe(owner, line, &fd);
	if (r < 0 && owner->root_fd >= 0 && line->path[0] == '/')
		r = fgt_rootfs_open(owner->root_fd, line->path, &fd);
	if (r < 0)
		return r;
	return take_candidate(owner, cache, fd, line, base, ret_file);
}

int fgt_maps_open_vdso(const struct fgt_maps_owner *owner,
		       struct fgt_image_cache *cache,
		       const struct fgt_maps_line *line,
		       struct fgt_image_file **ret_file)
{
	FGT_AUTO(free) void *bytes = NULL;
	size_t len = line->end - line->start;
	int r;

	if (len > VDSO_BYTES_MAX)
		return -EFBIG;
	bytes = malloc(len);
	if (!bytes)
		return -ENOMEM;
	r = read_memory(owner->pid, line->start, bytes, len);
	if (r < 0)
		return r;
	return fgt_image_cache_add_bytes(cache, bytes, len, ret_file);
}
