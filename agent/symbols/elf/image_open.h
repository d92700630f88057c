/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the files that name the addresses of an image: the image itself, its
 * debug file, the debug file's common file. Runs in the daemon.
 */
#ifndef FGT_AGENT_SYMBOLS_ELF_IMAGE_OPEN_H
#define FGT_AGENT_SYMBOLS_ELF_IMAGE_OPEN_H

#include "agent/symbols/elf/debug_file.h"
#include "agent/unwind/elf/rootfs.h"

/* Descriptors of one image; -1 where there is none. */
struct fgt_image_files {
	int image_fd;
	int debug_fd;
	int alt_fd;
	uint32_t uid; /* of the target: see fgt_file_close_of() */
};
#define FGT_IMAGE_FILES_NONE ((struct fgt_image_files){ -1, -1, -1, 0 })

/* Where images and their debug files are looked for. */
struct fgt_image_places {
	/* See struct fgt_symbolizer_options; open_image may be NULL. */
	int (*open_image)(void *context, const struct fgt_ring_slice *slice,
			  const struct fgt_slice_image *image, int *ret_fd);
	void *context;
	bool is_image_checked;
	const char *const *debug_dirs; /* [debug_dir_count] */
	size_t debug_dir_count;
	/* See struct fgt_debug_places. */
	int (*checksum)(void *context, int fd, uint32_t *ret_crc);
	int (*ident)(void *context, int fd, struct fgt_elf_ident *ret_ident);
	void *file_context;
	int64_t *left_ms; /* see struct fgt_open_request */
};

void fgt_image_files_close(struct fgt_image_files *files);

static inline void fgt_image_files_close_auto(struct fgt_image_files *files)
{
	fgt_image_files_close(files);
}

/*
 * Opens the very file that was mapped: places->open_image, else by path below
 * the target's root (below "/" once it has ended). A file found by path is
 * taken only if its build id agrees, or device and inode where the image has no
 * build id. The vDSO is a copy of the one of this process if the build ids
 * agree. A file that does not answer in time: FGT_SYMBOL_NO_FILE.
 *
 * Returns FGT_SYMBOL_FOUND, or why it could not be opened.
 *
 * MT-Safe | AS-Unsafe
 */
enum fgt_symbol_reason fgt_image_files_open(
	const struct fgt_image_places *places,
	const struct fgt_ring_slice *slice, const struct fgt_slice_image *image,
	const struct fgt_target_root *root, struct fgt_image_files *ret_files);

/* The vDSO of this process as a memfd (caller closes). -ENOENT, errno. */
int fgt_vdso_open(int *ret_fd);

/* For options.open_image; context is a struct fgt_image_cache. MT-Safe */
int fgt_image_open_cached(void *context, const struct fgt_ring_slice *slice,
			  const struct fgt_slice_image *image, int *ret_fd);

#endif
