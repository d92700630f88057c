/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for separate debug files below the target's root and below "/".
 * Runs where slices are resolved. Takes a file only if its build id or its
 * checksum agrees: whoever could put a file there cannot choose our names.
 */
#include "agent/symbols/debug_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "agent/symbols/image_open.h"
#include "agent/unwind/rootfs.h"
#include "ringbuf/frame.h"
#include "ringbuf/owner.h"

#define CRC_FILE_MAX ((off_t)1 << 30)

/* What a candidate must match. */
struct wanted {
	const uint8_t *build_id;
	size_t build_id_len;
	uint32_t crc;
	bool is_by_crc;
};

static bool is_crc_equal(int fd, uint32_t crc)
{
	unsigned char chunk[16384];
	uLong seen = crc32(0, NULL, 0);
	struct stat status;
	off_t offset = 0;

	if (fstat(fd, &status) < 0 || status.st_size > CRC_FILE_MAX)
		return false;
	while (offset < status.st_size) {
		ssize_t got = pread(fd, chunk, sizeof(chunk), offset);

		if (got <= 0)
			return false;
		seen = crc32(seen, chunk, (uInt)got);
		offset += got;
	}
	return (uint32_t)seen == crc;
}

static bool is_wanted(int fd, const struct wanted *wanted)
{
	uint8_t build_id[FGT_BUILD_ID_MAX];
	size_t len = 0;

	if (wanted->build_id_len &&
	    fgt_image_read_build_id(fd, build_id, &len) == 0 && len)
		return len == wanted->build_id_len &&
		       !memcmp(build_id, wanted->build_id, len);
	return wanted->is_by_crc && is_crc_equal(fd, wanted->crc);
}

static int try_path(const struct fgt_debug_search *search, const char *path,
		    const struct wanted *wanted, int *ret_fd)
{
	int roots[2] = { search->root_fd, -1 };

	for (int i = 0; i < 2; i++) {
		FGT_AUTO(fgt_fd_close) int host_root = -1;
		FGT_AUTO(fgt_fd_close) int fd = -1;

		if (i == 1)
			roots[1] = host_root =
				open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (roots[i] < 0 || fgt_rootfs_open(roots[i], path, &fd) < 0)
			continue;
		if (is_wanted(fd, wanted)) {
			*ret_fd = FGT_TAKE_FD(fd);
			return 0;
		}
	}
	return -ENOENT;
}

static int try_build_id(const struct fgt_debug_search *search,
			const struct wanted *wanted, int *ret_fd)
{
	char hex[2 * FGT_BUILD_ID_MAX + 1], path[PATH_MAX];

	if (wanted->build_id_len < 2 || wanted->build_id_len > FGT_BUILD_ID_MAX)
		return -ENOENT;
	for (size_t i = 0; i < wanted->build_id_len; i++)
		snprintf(hex + 2 * i, 3, "%02x", wanted->build_id[i]);
	for (size_t i = 0; i < search->dir_count; i++) {
		snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s.debug",
			 search->dirs[i], hex, hex + 2);
		if (try_path(search, path, wanted, ret_fd) == 0)
			return 0;
	}
	return -ENOENT;
}

static int try_link(const struct fgt_debug_search *search,
		    const char *image_path, const char *link,
		    const struct wanted *wanted, int *ret_fd)
{
	const char *slash = strrchr(image_path, '/');
	int dir_len = slash ? (int)(slash - image_path) : 0;
	char path[PATH_MAX];

	/* A name, not a path: the ELF file is not ours. */
	if (!*link || strchr(link, '/') || !slash)
		return -ENOENT;
	snprintf(path, sizeof(path), "%.*s/%s", dir_len, image_path, link);
	if (strcmp(path, image_path) != 0 &&
	    try_path(search, path, wanted, ret_fd) == 0)
		return 0;
	snprintf(path, sizeof(path), "%.*s/.debug/%s", dir_len, image_path,
		 link);
	if (try_path(search, path, wanted, ret_fd) == 0)
		return 0;
	for (size_t i = 0; i < search->dir_count; i++) {
		snprintf(path, sizeof(path), "%s%.*s/%s", search->dirs[i],
			 dir_len, image_path, link);
		if (try_path(search, path, wanted, ret_fd) == 0)
			return 0;
	}
	return -ENOENT;
}

int fgt_debug_file_open(const struct fgt_debug_search *search,
			const char *image_path, const uint8_t *build_id,
			size_t build_id_len, const char *link, uint32_t crc,
			int *ret_fd)
{
	const struct wanted wanted = {
		.build_id = build_id,
		.build_id_len = build_id_len,
		.crc = crc,
		.is_by_crc = link != NULL,
	};

	if (try_build_id(search, &wanted, ret_fd) == 0)
		return 0;
	return link ? try_link(search, image_path, link, &wanted, ret_fd)
		    : -ENOENT;
}
