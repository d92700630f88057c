/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for debug files in the places that gdb and elfutils look in. Runs in
 * the daemon; must not accept a file that only has the right name.
 */
#include "agent/symbols/elf/debug_file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/files/open_file.h"
#include "agent/symbols/elf/checksum.h"
#include "ringbuf/base/why.h"

/* What the file must be, of this build id or (crc_matters) of this CRC, and
 * where the result goes (its path: of the last file that was tried). */
struct debug_search {
	const struct fgt_debug_places *places;
	const uint8_t *build_id;
	uint32_t build_id_len;
	bool crc_matters;
	uint32_t crc;
	struct fgt_debug_found *found;
};

/*
 * The whole file must be read for it, so that is not done here. A larger file
 * than the helper reads is not sent to it.
 */
static bool has_crc(int fd, const struct debug_search *search)
{
	const struct fgt_debug_places *places = search->places;
	struct stat status;
	uint32_t crc;

	return places->checksum && fgt_file_status(fd, &status) == 0 &&
	       status.st_size <= FGT_CHECKSUM_MAX_BYTES &&
	       places->checksum(places->file_context, fd, &crc) == 0 &&
	       crc == search->crc;
}

int fgt_debug_file_identify(const struct fgt_debug_places *places, int fd,
			    struct fgt_elf_ident *ret_ident)
{
	return places->ident
		       ? places->ident(places->file_context, fd, ret_ident)
		       : fgt_elf_ident_read(fd, ret_ident);
}

static bool is_wanted(int fd, const struct debug_search *search)
{
	struct fgt_elf_ident ident;

	if (fgt_debug_file_identify(search->places, fd, &ident))
		return false;
	if (!ident.has_debug_info && !ident.has_symtab)
		return false;
	if (search->build_id_len && ident.build_id_len)
		return ident.build_id_len == search->build_id_len &&
		       !memcmp(ident.build_id, search->build_id,
			       ident.build_id_len);
	return search->crc_matters && has_crc(fd, search);
}

/* A path in search->found.path; on success also the root it was found in. */
static bool try_below(int root_fd, bool is_trusted,
		      const struct debug_search *search)
{
	const struct fgt_debug_places *places = search->places;
	const struct fgt_open_request request = {
		.place = FGT_OPEN_BELOW,
		.dir_fd = root_fd,
		.path = search->found->path,
		.uid = places->root->uid,
		.is_by_user = !is_trusted,
		.is_trusted = is_trusted,
		.left_ms = places->left_ms,
	};
	struct fgt_opened_file file;

	if (root_fd < 0 || fgt_file_open(&request, &file) < 0)
		return false;
	if (!is_wanted(file.fd, search)) {
		fgt_file_close_of(file.fd, request.uid);
		return false;
	}
	search->found->root_fd = root_fd;
	search->found->fd = file.fd;
	return true;
}

FGT_PRINTF(2, 0)
static bool set_path(const struct debug_search *search, const char *format,
		     va_list arguments)
{
	struct fgt_debug_found *found = search->found;
	int len =
		vsnprintf(found->path, sizeof(found->path), format, arguments);

	return len >= 0 && (size_t)len < sizeof(found->path);
}

/*
 * A path in one of the folders that the administrator named. This machine
 * first: its files were not put there by the target. is_trusted: and the path
 * has nothing that the target named, which may lead out of the folder.
 */
FGT_PRINTF(3, 4)
static bool try_folder(const struct debug_search *search, bool is_trusted,
		       const char *format, ...)
{
	const struct fgt_target_root *root = search->places->root;
	va_list arguments;
	bool fits;

	va_start(arguments, format);
	fits = set_path(search, format, arguments);
	va_end(arguments);
	return fits && (try_below(root->host_fd, is_trusted, search) ||
			try_below(root->target_fd, false, search));
}

/* A path that a file named: it means that file's root, and no other. */
FGT_PRINTF(3, 4)
static bool try_named(const struct debug_search *search, int root_fd,
		      const char *format, ...)
{
	va_list arguments;
	bool fits;

	va_start(arguments, format);
	fits = set_path(search, format, arguments);
	va_end(arguments);
	return fits && try_below(root_fd, false, search);
}

static bool try_build_id(const struct debug_search *search)
{
	char hex[2 * FGT_BUILD_ID_MAX + 1];

	if (search->build_id_len < 2)
		return false;
	for (uint32_t i = 0; i < search->build_id_len; i++)
		snprintf(hex + 2 * i, 3, "%02x", search->build_id[i]);
	for (size_t i = 0; i < search->places->dir_count; i++)
		if (try_folder(search, true, "%s/.build-id/%.2s/%s.debug",
			       search->places->dirs[i], hex, hex + 2))
			return true;
	return false;
}

/* Length of the directory of a path, with its last slash. */
static int dir_len_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (int)(slash + 1 - path) : 0;
}

static bool try_debuglink(const struct debug_search *search,
			  const char *image_path, const char *name)
{
	int root_fd = fgt_debug_root_fd(search->places->root);
	int len = dir_len_of(image_path);

	if (!name[0] || !len)
		return false;
	if (try_named(search, root_fd, "%.*s%s", len, image_path, name) ||
	    try_named(search, root_fd, "%.*s.debug/%s", len, image_path, name))
		return true;
	for (size_t i = 0; i < search->places->dir_count; i++)
		if (try_folder(search, false, "%s%.*s%s",
			       search->places->dirs[i], len, image_path, name))
			return true;
	return false;
}

int fgt_debug_file_open(const struct fgt_debug_places *places,
			const char *image_path,
			const struct fgt_elf_ident *image_ident,
			struct fgt_debug_found *ret_found)
{
	const struct debug_search search = {
		.places = places,
		.build_id = image_ident->build_id,
		.build_id_len = image_ident->build_id_len,
		.crc_matters = image_ident->debuglink[0],
		.crc = image_ident->debuglink_crc,
		.found = ret_found,
	};

	return try_build_id(&search) || try_debuglink(&search, image_path,
						      image_ident->debuglink)
		       ? 0
		       : -ENOENT;
}

int fgt_debug_file_open_alt(const struct fgt_debug_places *places, int root_fd,
			    const char *path, const struct fgt_elf_ident *ident,
			    int *ret_fd)
{
	struct fgt_debug_found found;
	const struct debug_search search = {
		.places = places,
		.build_id = ident->altlink_build_id,
		.build_id_len = ident->altlink_build_id_len,
		.found = &found,
	};
	int len = ident->altlink[0] == '/' ? 0 : dir_len_of(path);

	if (!ident->altlink[0])
		return -ENOENT;
	if (!try_build_id(&search) &&
	    !try_named(&search, root_fd, "%.*s%s", len, path, ident->altlink))
		return -ENOENT;
	*ret_fd = found.fd;
	return 0;
}
