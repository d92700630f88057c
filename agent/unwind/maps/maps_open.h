/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a line of /proc/PID/maps to the very file behind the mapping, and no
 * other.
 */
#ifndef FGT_AGENT_UNWIND_MAPS_MAPS_OPEN_H
#define FGT_AGENT_UNWIND_MAPS_MAPS_OPEN_H

#include "agent/unwind/maps/image_file.h"

/* ---- One line (maps_text.c) --------------------------------------------- */

/* The name is what the target called its file: hostile. */
struct fgt_maps_line {
	uint64_t start, end, offset, dev, ino;
	bool is_readable, is_writable, is_executable;
	bool is_deleted; /* " (deleted)" was cut off path */
	bool is_path_cut;
	/* Unescaped (\012 is a newline); a longer name ends at "" and
	 * is_path_cut, since half a name would name another file. */
	char path[FGT_IMAGE_PATH_MAX];
};

/* line without its newline; need not be NUL-terminated. -EBADMSG.
 * MT-Safe | AS-Safe */
int fgt_maps_line_parse(const char *line, size_t len,
			struct fgt_maps_line *ret_line);

/* Is it a process context of OpenTelemetry, by its name? MT-Safe | AS-Safe */
bool fgt_maps_line_is_context(const struct fgt_maps_line *line);

/* ---- Its user (maps_user.c) ---------------------------------------------- */

/*
 * Whose files a process of a directory /proc/PID has mapped: its uid, or if it
 * has several, a number that stands for the real and the effective one and is
 * no uid. So a user with processes of several uids gets no other user's number.
 * UINT64_MAX: it cannot be read. MT-Safe | AS-Unsafe
 */
uint64_t fgt_maps_user(int proc_fd);
/* Is uid the user, or the real or effective one of such a number? MT-Safe */
bool fgt_maps_is_user(uint64_t user, uint64_t uid);

/* ---- Its file (maps_open.c) --------------------------------------------- */

#define FGT_MAPS_DEVICES  16u /* remembered during one reading */
#define FGT_MAPS_TYPE_MAX 16u

struct fgt_maps_device {
	uint64_t dev;
	bool answers; /* neither a user's process (FUSE) nor a server is behind */
	/* … as this machine's mounts have it. An overlay that only the target
	 * sees is not: its user may have mounted it above FUSE. */
	bool is_of_machine;
	char type[FGT_MAPS_TYPE_MAX]; /* of its file system */
};

/* The process that has the mappings: all borrowed. */
struct fgt_maps_owner {
	int32_t pid;
	uint32_t uid;
	int proc_fd; /* /proc/PID */
	uint64_t user; /* see fgt_image_key */
	unsigned int wait_ms; /* for servers of files; 0: as the sampler may */
	struct fgt_maps_device devices[FGT_MAPS_DEVICES];
	size_t device_count;
	char refused_type[FGT_MAPS_TYPE_MAX]; /* the last one; "": none */
	bool is_late; /* a file did not answer in time, and may later */
};

/*
 * What is known of a device, by the mounts of this process, of the first one
 * and of that one. The device is not touched. Valid until the next call.
 *
 * MT-Safe for one owner | AS-Unsafe
 */
const struct fgt_maps_device *fgt_maps_device_of(struct fgt_maps_owner *owner,
						 uint64_t dev);

/*
 * Opens the file of an executable mapping through the cache: the cached one,
 * map_files, /proc/PID/exe, or the path below its root. A file whose (dev, ino)
 * differ from those in maps is taken only if it came from map_files or its
 * first page and build id are what the target has in memory at base (the
 * address where file offset 0 is mapped, 0 if it is not). Run by root, files on
 * devices that may not answer are not touched (-EREMOTEIO). -ENOENT,
 * -EACCES, -ESTALE not that file, -ENOEXEC, -EINPROGRESS its server has not
 * answered, -ENOMEM; those of fgt_file_open(), after some of which
 * owner->is_late.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_maps_open(struct fgt_maps_owner *owner, struct fgt_image_cache *cache,
		  const struct fgt_maps_line *line, uint64_t base,
		  struct fgt_image_file **ret_file);

/* The vDSO, copied from the target's memory (at most 64 KiB). */
int fgt_maps_open_vdso(const struct fgt_maps_owner *owner,
		       struct fgt_image_cache *cache,
		       const struct fgt_maps_line *line,
		       struct fgt_image_file **ret_file);

#endif
