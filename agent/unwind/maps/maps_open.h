/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the very file behind a mapping of another process, and nothing else.
 */
#ifndef FGT_AGENT_UNWIND_MAPS_MAPS_OPEN_H
#define FGT_AGENT_UNWIND_MAPS_MAPS_OPEN_H

#include "agent/unwind/maps/image_file.h"
#include "agent/unwind/maps/maps_text.h"

/* The process that has the mappings: all borrowed. root_fd may be -1. */
struct fgt_maps_owner {
	int32_t pid;
	int proc_fd; /* /proc/PID */
	int root_fd; /* /proc/PID/root */
};

/*
 * Opens the file of an executable mapping through the cache: the cached one,
 * map_files, /proc/PID/exe, or the path below its root. A file whose (dev, ino)
 * differ from those in maps is taken only if it came from map_files or its
 * first page and build id are what the target has in memory at base (the
 * address where file offset 0 is mapped, 0 if it is not). Run by root, files of
 * other users' processes that lie on FUSE are not touched (-EACCES). -ENOENT,
 * -EACCES, -ESTALE not that file, -ENOEXEC, -ENOMEM …
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_maps_open(const struct fgt_maps_owner *owner,
		  struct fgt_image_cache *cache,
		  const struct fgt_maps_line *line, uint64_t base,
		  struct fgt_image_file **ret_file);

/* The vDSO, copied from the target's memory (at most 64 KiB). */
int fgt_maps_open_vdso(const struct fgt_maps_owner *owner,
		       struct fgt_image_cache *cache,
		       const struct fgt_maps_line *line,
		       struct fgt_image_file **ret_file);

#endif
