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
	fgt_file_close_of(files->image_fd, files->uid);
	fgt_file_close_of(files->debug_fd, files->uid);
	fgt_file_close_of(files->alt_fd, files->uid);
	*files = FGT_IMAGE_FILES_NONE;
}

/* True if the file behind fd is the one that the image was mapped from. */
static bool is_same_file(const struct fgt_debug_places *places, int fd,
			 const struct fgt_slice_image *image)
{
	struct fgt_elf_ident ident;
	struct stat status;

	if (image->build_id_len)
		return !fgt_debug_file_identify(places, fd, &ident) &&
		       ident.build_id_len == image->build_id_len &&
		       !memcmp(ident.build_id, image->build_id,
			       ident.build_id_len);
	/* Numbers of devices mean nothing on another machine. */
	return places->root->is_this_host && image->ino &&
	       !fgt_file_status(fd, &status) && status.st_dev == image->dev &&
	       status.st_ino == image->ino;
}

static enum fgt_symbol_reason open_below(const struct fgt_debug_places *places,
					 const char *path,
					 const struct fgt_slice_image *image,
					 int *ret_fd)
{
	const struct fgt_target_root *root = places->root;
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
	if (!is_same_file(places, file.fd, image)) {
		fgt_file_close_of(file.fd, root->uid);
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
	/* This process's own: nothing is asked for. */
	static const struct fgt_target_root none = { .target_fd = -1,
						     .host_fd = -1 };
	const struct fgt_debug_places places = { .root = &none };
	FGT_AUTO(fgt_fd_close) int fd = -1;

	if (fgt_vdso_open(&fd))
		return FGT_SYMBOL_NO_FILE;
	if (!image->build_id_len || !is_same_file(&places, fd, image))
		return FGT_SYMBOL_OTHER_FILE;
	*ret_fd = FGT_TAKE_FD(fd);
	return FGT_SYMBOL_FOUND;
}

static enum fgt_symbol_reason open_image(const struct fgt_image_places *places,
					 const struct fgt_debug_places *search,
					 const struct fgt_ring_slice *slice,
					 const struct fgt_slice_image *image,
					 const char *path, int *ret_fd)
{
	if (!strcmp(path, "[vdso]"))
		return open_vdso(image, ret_fd);
	if (!places->open_image ||
	    places->open_image(places->context, slice, image, ret_fd))
		return open_below(search, path, image, ret_fd);
	if (!places->is_image_checked || is_same_file(search, *ret_fd, image))
		return FGT_SYMBOL_FOUND;
	fgt_file_close_of(FGT_TAKE_FD(*ret_fd), search->root->uid);
	return FGT_SYMBOL_OTHER_FILE;
}

/* -ETIME: the image itself does not come. */
static int open_debug_files(const struct fgt_debug_places *search,
			    const char *path, struct fgt_image_files *files)
{
	int root_fd = fgt_debug_root_fd(search->root), r;
	struct fgt_debug_found found;
	struct fgt_elf_ident ident;

	r = fgt_debug_file_identify(search, files->image_fd, &ident);
	if (r)
		return r == -ETIME ? r : 0;
	if (!ident.has_debug_info &&
	    !fgt_debug_file_open(search, path, &ident, &found)) {
		files->debug_fd = found.fd;
		root_fd = found.root_fd;
		path = found.path;
		if (fgt_debug_file_identify(search, files->debug_fd, &ident))
			return 0;
	}
	fgt_debug_file_open_alt(search, root_fd, path, &ident, &files->alt_fd);
	return 0;
}

enum fgt_symbol_reason fgt_image_files_open(
	const struct fgt_image_places *places,
	const struct fgt_ring_slice *slice, const struct fgt_slice_image *image,
	const struct fgt_target_root *root, struct fgt_image_files *ret_files)
{
	FGT_AUTO(fgt_image_files_close)
	struct fgt_image_files files = FGT_IMAGE_FILES_NONE;
	const char *path = fgt_slice_string(slice, image->path);
	const struct fgt_debug_places search = {
		.root = root,
		.dirs = places->debug_dirs,
		.dir_count = places->debug_dir_count,
		.checksum = places->checksum,
		.ident = places->ident,
		.file_context = places->file_context,
		.left_ms = places->left_ms,
	};
	enum fgt_symbol_reason reason;

	files.uid = root->uid;
	reason = open_image(places, &search, slice, image, path,
			    &files.image_fd);
	if (reason != FGT_SYMBOL_FOUND)
		return reason;
	if (open_debug_files(&search, path, &files))
		return FGT_SYMBOL_NO_FILE;
	*ret_files = files;
	files = FGT_IMAGE_FILES_NONE;
	return FGT_SYMBOL_FOUND;
}

int fgt_image_open_cached(void *context, const struct fgt_ring_slice *slice,
			  const struct fgt_slice_image *image, int *ret_fd)
{
	const struct fgt_image_key key = {
		.dev = image->dev,
		.ino = image->ino,
		.user = (uint32_t)slice->process.uid,
	};

	return fgt_image_cache_open_fd(context, image->build_id,
				       image->build_id_len, &key, ret_fd);
}
