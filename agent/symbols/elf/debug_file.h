/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the separate debug file of an image and the file that dwz moved
 * common DWARF into. Runs in the daemon; opens nothing but regular files.
 */
#ifndef FGT_AGENT_SYMBOLS_ELF_DEBUG_FILE_H
#define FGT_AGENT_SYMBOLS_ELF_DEBUG_FILE_H

#include <stddef.h>

#include "agent/symbols/elf/elf_ident.h"
#include "agent/unwind/elf/rootfs.h"

struct fgt_debug_places {
	const struct fgt_target_root *root;
	const char *const *dirs;
	size_t dir_count;
	/*
	 * The checksum of a file of at most FGT_CHECKSUM_MAX_BYTES. A negative
	 * errno: the file is not taken. NULL: none is taken by its checksum.
	 */
	int (*checksum)(void *context, int fd, uint32_t *ret_crc);
	/* The identity of a file; NULL: read in this process. */
	int (*ident)(void *context, int fd, struct fgt_elf_ident *ret_ident);
	void *file_context; /* of both */
	int64_t *left_ms; /* see struct fgt_open_request */
};

/* Errors of fgt_elf_ident_read(), or of places->ident. */
int fgt_debug_file_identify(const struct fgt_debug_places *places, int fd,
			    struct fgt_elf_ident *ret_ident);

/* A debug file, and where it was found. */
struct fgt_debug_found {
	int fd;
	int root_fd; /* not a copy: valid as long as the places are */
	char path[2 * FGT_IMAGE_PATH_MAX]; /* below root_fd */
};

/* The root that the target's paths mean: its own while it lives. */
static inline int fgt_debug_root_fd(const struct fgt_target_root *root)
{
	return root->target_fd >= 0 ? root->target_fd : root->host_fd;
}

/*
 * Tries DIR/.build-id/xx/yyy.debug, then the name in .gnu_debuglink beside
 * the image, in .debug/ there, and in DIR + the image's directory. DIR is
 * looked for on this machine and below the target's root; all else is named by
 * the target, and looked for below its root only (on this machine once the
 * target has ended). Taken only if the build ids agree, or the CRC where one
 * has none. -ENOENT.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_debug_file_open(const struct fgt_debug_places *places,
			const char *image_path,
			const struct fgt_elf_ident *image_ident,
			struct fgt_debug_found *ret_found);

/*
 * The file that .gnu_debugaltlink of a file at path below root_fd names, by
 * build id. A relative name starts at the directory of path. -ENOENT.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_debug_file_open_alt(const struct fgt_debug_places *places, int root_fd,
			    const char *path, const struct fgt_elf_ident *ident,
			    int *ret_fd);

#endif
