/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for debug files in the places that gdb and elfutils look in. Runs in
 * the daemon; must not accept a file that only has the right name.
 */
#include "agent/symbols/elf/debug_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/unwind/elf/rootfs.h"

/* A CRC reads the whole file: not for more than this. */
#define CRC_MAX_BYTES (1ll << 30)

/* What the file must be: of this build id, or (crc_matters) of this CRC. */
struct wanted {
	const uint8_t *build_id;
	uint32_t build_id_len;
	bool crc_matters;
	uint32_t crc;
};

static uint32_t crc32_add(uint32_t crc, const uint8_t *data, size_t len)
{
	static const uint32_t nibbles[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
		0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
		0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
		0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};

	crc = ~crc;
	for (size_t i = 0; i < len; i++) {
		crc ^= data[i];
		crc = (crc >> 4) ^ nibbles[crc & 15];
		crc = (crc >> 4) ^ nibbles[crc & 15];
	}
	return ~crc;
}

static bool has_crc(int fd, uint32_t wanted)
{
	uint8_t chunk[16384];
	struct stat status;
	uint32_t crc = 0;
	off_t at = 0;

	if (fstat(fd, &status) < 0 || status.st_size > CRC_MAX_BYTES)
		return false;
	while (at < status.st_size) {
		ssize_t got = pread(fd, chunk, sizeof(chunk), at);

		if (got <= 0)
			return false;
		crc = crc32_add(crc, chunk, (size_t)got);
		at += got;
	}
	return crc == wanted;
}

static bool is_wanted(int fd, const struct wanted *wanted)
{
	struct fgt_elf_ident ident;

	if (fgt_elf_ident_read(fd, &ident))
		return false;
	if (!ident.has_debug_info && !ident.has_symtab)
		return false;
	if (wanted->build_id_len && ident.build_id_len)
		return ident.build_id_len == wanted->build_id_len &&
		       !memcmp(ident.build_id, wanted->build_id,
			       ident.build_id_len);
	return wanted->crc_matters && has_crc(fd, wanted->crc);
}

static int try_below(int root_fd, const char *path, const struct wanted *wanted,
		     int *ret_fd)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	int error;

	if (root_fd < 0)
		return -ENOENT;
	error = fgt_rootfs_open(root_fd, path, &fd);
	if (error)
		return error;
	if (!is_wanted(fd, wanted))
		return -ENOENT;
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}

/* This machine first: its files were not put there by the target. */
static int try_path(const struct fgt_debug_search *search, const char *path,
		    const struct wanted *wanted, int *ret_fd)
{
	if (!try_below(search->root->host_fd, path, wanted, ret_fd))
		return 0;
	if (!try_below(search->root->target_fd, path, wanted, ret_fd))
		return 0;
	return -ENOENT;
}

static int try_build_id(const struct fgt_debug_search *search, const char *dir,
			const struct wanted *wanted, char *path, size_t size,
			int *ret_fd)
{
	int len;

	if (wanted->build_id_len < 2)
		return -ENOENT;
	len = snprintf(path, size, "%s/.build-id/%02x/", dir,
		       wanted->build_id[0]);
	for (uint32_t i = 1;
	     i < wanted->build_id_len && len > 0 && (size_t)len < size; i++)
		len += snprintf(path + len, size - (size_t)len, "%02x",
				wanted->build_id[i]);
	if (len < 0 || (size_t)len + sizeof(".debug") > size)
		return -ENOENT;
	strcpy(path + len, ".debug");
	return try_path(search, path, wanted, ret_fd);
}

/* Formats dir + middle + name into path and tries it. */
static int try_link(const struct fgt_debug_search *search, const char *dir,
		    int image_dir_len, const char *image_path,
		    const char *middle, const char *name,
		    const struct wanted *wanted, char *path, size_t size,
		    int *ret_fd)
{
	int len = snprintf(path, size, "%s%.*s%s%s", dir, image_dir_len,
			   image_path, middle, name);

	if (len < 0 || (size_t)len >= size)
		return -ENOENT;
	return try_path(search, path, wanted, ret_fd);
}

static int try_debuglink(const struct fgt_debug_search *search,
			 const char *image_path, const char *name,
			 const struct wanted *wanted, char *path, size_t size,
			 int *ret_fd)
{
	const char *slash = strrchr(image_path, '/');
	int dir_len = slash ? (int)(slash + 1 - image_path) : 0;

	if (!name[0] || !dir_len)
		return -ENOENT;
	if (!try_link(search, "", dir_len, image_path, "", name, wanted, path,
		      size, ret_fd) ||
	    !try_link(search, "", dir_len, image_path, ".debug/", name, wanted,
		      path, size, ret_fd))
		return 0;
	for (size_t i = 0; i < search->dir_count; i++)
		if (!try_link(search, search->dirs[i], dir_len, image_path, "",
			      name, wanted, path, size, ret_fd))
			return 0;
	return -ENOENT;
}

int fgt_debug_file_open(const struct fgt_debug_search *search,
			const char *image_path,
			const struct fgt_elf_ident *image_ident, int *ret_fd,
			char ret_path[FGT_IMAGE_PATH_MAX])
{
	const struct wanted wanted = {
		.build_id = image_ident->build_id,
		.build_id_len = image_ident->build_id_len,
		.crc_matters = image_ident->debuglink[0],
		.crc = image_ident->debuglink_crc,
	};

	for (size_t i = 0; i < search->dir_count; i++)
		if (!try_build_id(search, search->dirs[i], &wanted, ret_path,
				  FGT_IMAGE_PATH_MAX, ret_fd))
			return 0;
	return try_debuglink(search, image_path, image_ident->debuglink,
			     &wanted, ret_path, FGT_IMAGE_PATH_MAX, ret_fd);
}

int fgt_debug_file_open_alt(const struct fgt_debug_search *search,
			    const char *path, const struct fgt_elf_ident *ident,
			    int *ret_fd)
{
	const struct wanted wanted = {
		.build_id = ident->altlink_build_id,
		.build_id_len = ident->altlink_build_id_len,
	};
	const char *slash = strrchr(path, '/');
	int dir_len = slash ? (int)(slash + 1 - path) : 0;
	char text[2 * FGT_IMAGE_PATH_MAX];

	if (!ident->altlink[0])
		return -ENOENT;
	for (size_t i = 0; i < search->dir_count; i++)
		if (!try_build_id(search, search->dirs[i], &wanted, text,
				  sizeof(text), ret_fd))
			return 0;
	return try_link(search, "", ident->altlink[0] == '/' ? 0 : dir_len,
			path, "", ident->altlink, &wanted, text, sizeof(text),
			ret_fd);
}
