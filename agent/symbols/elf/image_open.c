/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens an image and its debug files. Runs in the daemon; must never take a
 * file for the one that was mapped only because of its path: upgrades replace
 * libraries under running programs.
 */
#include "agent/symbols/elf/image_open.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/open_file.h"
#include "agent/unwind/maps/image_file.h"
#include "ringbuf/base/sink.h"

void fgt_image_files_close(struct fgt_image_files *files)
{
	fgt_fd_close(files->image_fd);
	fgt_fd_close(files->debug_fd);
	fgt_fd_close(files->alt_fd);
	*files = FGT_IMAGE_FILES_NONE;
}

/* True if the file behind fd is the one that the image was mapped from. */
static bool is_same_file(int fd, const struct fgt_slice_image *image,
			 bool is_this_host)
{
	struct fgt_elf_ident ident;
	struct stat status;

	if (image->build_id_len)
		return !fgt_elf_ident_read(fd, &ident) &&
		       ident.build_id_len == image->build_id_len &&
		       !memcmp(ident.build_id, image->build_id,
			       ident.build_id_len);
	/* Numbers of devices mean nothing on another machine. */
	return is_this_host && image->ino && !fstat(fd, &status) &&
	       status.st_dev == image->dev && status.st_ino == image->ino;
}

static enum fgt_symbol_reason open_below(const struct fgt_image_places *places,
					 const struct fgt_target_root *root,
					 const char *path,
					 const struct fgt_slice_image *image,
					 int *ret_fd)
{
	const struct fgt_open_request request = {
		.place = FGT_OPEN_BELOW,
		.dir_fd = fgt_debug_root_fd(root),
		.path = path,
		.uid = root->uid,
		.left_ms = places->left_ms,
	};
	struct fgt_opened_file file;

	if (request.dir_fd < 0 || path[0] != '/' ||
	    fgt_file_open(&request, &file) < 0)
		return FGT_SYMBOL_NO_FILE;
	if (!is_same_file(file.fd, image, root->is_this_host)) {
		fgt_fd_close(file.fd);
		return FGT_SYMBOL_OTHER_FILE;
	}
	*ret_fd = file.fd;
	return FGT_SYMBOL_FOUND;
}

/* The kernel maps it whole, section headers included. */
int fgt_vdso_open(int *ret_fd)
{
	const ElfW(Ehdr) *header = (void *)getauxval(AT_SYSINFO_EHDR);
	FGT_AUTO(fgt_fd_close) int fd = -1;
	size_t len;
	int r;

	if (!header)
		return -ENOENT;
	len = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	fd = memfd_create("fgt-vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = fgt_fd_write(fd, header, len);
	if (r < 0)
		return r;
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}

static enum fgt_symbol_reason open_vdso(const struct fgt_slice_image *image,
					int *ret_fd)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;

	if (fgt_vdso_open(&fd))
		return FGT_SYMBOL_NO_FILE;
	if (!image->build_id_len || !is_same_file(fd, image, false))
		return FGT_SYMBOL_OTHER_FILE;
	*ret_fd = FGT_TAKE_FD(fd);
	return FGT_SYMBOL_FOUND;
}

static enum fgt_symbol_reason open_image(const struct fgt_image_places *places,
					 const struct fgt_ring_slice *slice,
					 const struct fgt_slice_image *image,
					 const struct fgt_target_root *root,
					 const char *path, int *ret_fd)
{
	if (!strcmp(path, "[vdso]"))
		return open_vdso(image, ret_fd);
	if (places->open_image &&
	    !places->open_image(places->context, slice, image, ret_fd))
		return FGT_SYMBOL_FOUND;
	return open_below(places, root, path, image, ret_fd);
}

static void open_debug_files(const struct fgt_image_places *places,
			     const struct fgt_target_root *root,
			     const char *path, struct fgt_image_files *files)
{
	const struct fgt_debug_places search = {
		.root = root,
		.dirs = places->debug_dirs,
		.dir_count = places->debug_dir_count,
		.checksum = places->checksum,
		.checksum_context = places->checksum_context,
		.left_ms = places->left_ms,
	};
	int root_fd = fgt_debug_root_fd(root);
	struct fgt_debug_found found;
	struct fgt_elf_ident ident;

	if (fgt_elf_ident_read(files->image_fd, &ident))
		return;
	if (!ident.has_debug_info &&
	    !fgt_debug_file_open(&search, path, &ident, &found)) {
		files->debug_fd = found.fd;
		root_fd = found.root_fd;
		path = found.path;
		if (fgt_elf_ident_read(files->debug_fd, &ident))
			return;
	}
	fgt_debug_file_open_alt(&search, root_fd, path, &ident, &files->alt_fd);
}

enum fgt_symbol_reason fgt_image_files_open(
	const struct fgt_image_places *places,
	const struct fgt_ring_slice *slice, const struct fgt_slice_image *image,
	const struct fgt_target_root *root, struct fgt_image_files *ret_files)
{
	FGT_AUTO(fgt_image_files_close)
	struct fgt_image_files files = FGT_IMAGE_FILES_NONE;
	const char *path = fgt_slice_string(slice, image->path);
	enum fgt_symbol_reason reason;

	reason = open_image(places, slice, image, root, path, &files.image_fd);
	if (reason != FGT_SYMBOL_FOUND)
		return reason;
	open_debug_files(places, root, path, &files);
	*ret_files = files;
	files = FGT_IMAGE_FILES_NONE;
	return FGT_SYMBOL_FOUND;
}

int fgt_image_open_cached(void *context, const struct fgt_ring_slice *slice,
			  const struct fgt_slice_image *image, int *ret_fd)
{
	(void)slice;
	return fgt_image_cache_open_fd(context, image->build_id,
				       image->build_id_len, image->dev,
				       image->ino, ret_fd);
}
