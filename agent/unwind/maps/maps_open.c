/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens mapped files. Runs in any thread; must never return a file that is not
 * the mapped one: an upgrade puts another file at the same path.
 */
#include "agent/unwind/maps/maps_open.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/files/open_file.h"
#include "agent/unwind/arch/memory.h"

#define VDSO_BYTES_MAX (64u * 1024)

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
	uint8_t in_file[FGT_IMAGE_PAGE_BYTES], in_memory[FGT_IMAGE_PAGE_BYTES];
	uint64_t bias;
	int r;

	if (!base)
		return -ESTALE;
	r = fgt_image_file_read_head(file, owner->wait_ms, in_file);
	if (r == -EAGAIN)
		return -EINPROGRESS;
	if (r < 0 ||
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

static bool is_same_file(const struct fgt_opened_file *file,
			 const struct fgt_maps_line *line)
{
	return file->status.st_dev == line->dev &&
	       file->status.st_ino == line->ino;
}

/* Adds a candidate; one that is not exactly the inode must prove itself. */
static int take_candidate(const struct fgt_maps_owner *owner,
			  struct fgt_image_cache *cache,
			  const struct fgt_opened_file *opened,
			  const struct fgt_maps_line *line, uint64_t base,
			  struct fgt_image_file **ret_file)
{
	const struct fgt_image_key mapped = { line->dev, line->ino,
					      owner->user };
	bool is_exact = is_same_file(opened, line);
	struct fgt_image_file *file;
	int r;

	r = fgt_image_cache_add(cache, opened->fd, &mapped, owner->wait_ms,
				&file);
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

/* What the files of this mapping have in common. */
static struct fgt_open_request request_of(const struct fgt_maps_owner *owner,
					  bool is_trusted)
{
	return (struct fgt_open_request){
		.dir_fd = owner->proc_fd,
		.uid = owner->uid,
		.is_trusted = is_trusted,
		.is_urgent = true,
	};
}

/*
 * map_files names the mapping, not a path. The mapping may have been replaced
 * since maps was read, so the inode must agree; where a layered file system
 * shows another device, the memory must.
 */
static int open_by_map_files(const struct fgt_maps_owner *owner,
			     struct fgt_image_cache *cache,
			     const struct fgt_maps_line *line, uint64_t base,
			     bool is_trusted, struct fgt_image_file **ret_file)
{
	struct fgt_open_request request = request_of(owner, is_trusted);
	struct fgt_opened_file opened;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "map_files/%" PRIx64 "-%" PRIx64,
		 line->start, line->end);
	request.place = FGT_OPEN_LINK;
	request.path = path;
	if (is_trusted) { /* known without asking a file system */
		request.dev = line->dev;
		request.ino = line->ino;
	}
	r = fgt_file_open(&request, &opened);
	if (r == -ESTALE) {
		request.is_trusted = false;
		request.ino = 0;
		r = fgt_file_open(&request, &opened);
	}
	if (r < 0)
		return r;
	return take_candidate(owner, cache, &opened, line, base, ret_file);
}

/* The main program can be opened by exe even if it was deleted. */
static int open_by_name(const struct fgt_maps_owner *owner,
			const struct fgt_maps_line *line, bool is_trusted,
			struct fgt_opened_file *ret_opened)
{
	struct fgt_open_request request = request_of(owner, is_trusted);
	int r;

	request.place = FGT_OPEN_LINK;
	request.path = "exe";
	request.dev = line->dev;
	request.ino = line->ino;
	r = fgt_file_open(&request, ret_opened);
	if (r == 0 || fgt_file_may_come(r) || line->path[0] != '/')
		return r;
	request.place = FGT_OPEN_BELOW_PROCESS;
	request.path = line->path;
	request.ino = 0;
	/* Its name may lead anywhere by now. */
	request.is_trusted = false;
	return fgt_file_open(&request, ret_opened);
}

/*
 * Where the sampler reads code itself and is root's, stacks of all users wait
 * for it: only where the file system answers at once. An ordinary user's agent
 * waits for that user's files only.
 */
static bool may_read(const struct fgt_image_cache *cache,
		     struct fgt_maps_owner *owner,
		     const struct fgt_maps_device *device)
{
	if (device->answers || fgt_image_cache_is_served(cache) ||
	    geteuid() != 0)
		return true;
	memcpy(owner->refused_type, device->type, sizeof(owner->refused_type));
	return false;
}

static int note_late(struct fgt_maps_owner *owner,
		     const struct fgt_maps_device *device, int error)
{
	if (fgt_file_may_come(error)) {
		owner->is_late = true;
		memcpy(owner->refused_type, device->type,
		       sizeof(owner->refused_type));
	}
	return error;
}

int fgt_maps_open(struct fgt_maps_owner *owner, struct fgt_image_cache *cache,
		  const struct fgt_maps_line *line, uint64_t base,
		  struct fgt_image_file **ret_file)
{
	const struct fgt_image_key key = { line->dev, line->ino, owner->user };
	const struct fgt_maps_device *device;
	struct fgt_opened_file opened;
	int r;

	if (fgt_image_cache_find(cache, &key, ret_file) == 0)
		return 0;
	device = fgt_maps_device_of(owner, line->dev);
	if (!may_read(cache, owner, device))
		return -EREMOTEIO;
	r = open_by_map_files(owner, cache, line, base, device->is_of_machine,
			      ret_file);
	if (r == 0 || r == -ENOMEM || r == -ENOEXEC || r == -EBADMSG ||
	    r == -EINPROGRESS || fgt_file_may_come(r))
		return note_late(owner, device, r);
	r = open_by_name(owner, line, device->is_of_machine, &opened);
	if (r < 0)
		return note_late(owner, device, r);
	return take_candidate(owner, cache, &opened, line, base, ret_file);
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
	return fgt_image_cache_add_bytes(cache, bytes, len, owner->user,
					 owner->wait_ms, ret_file);
}
