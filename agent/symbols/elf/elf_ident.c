/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads identity and links from the headers of an ELF file. Runs in the helper,
 * and in programs that name themselves; must not map the file (it may shrink)
 * nor believe a number in it.
 */
#include "agent/symbols/elf/elf_ident.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/unwind/elf/elf_file.h"

#define LINK_MAX_BYTES (FGT_IMAGE_PATH_MAX + 64)

static void take_debuglink(const char *data, size_t len,
			   struct fgt_elf_ident *ident)
{
	size_t name_len = strnlen(data, len);
	size_t crc_at = (name_len + 4) & ~(size_t)3;

	if (!name_len || name_len >= sizeof(ident->debuglink) ||
	    memchr(data, '/', name_len) || crc_at + 4 > len)
		return;
	memcpy(ident->debuglink, data, name_len + 1);
	memcpy(&ident->debuglink_crc, data + crc_at, 4);
}

static void take_altlink(const char *data, size_t len,
			 struct fgt_elf_ident *ident)
{
	size_t name_len = strnlen(data, len);
	size_t id_len;

	if (!name_len || name_len >= len || name_len >= sizeof(ident->altlink))
		return;
	id_len = len - name_len - 1;
	if (!id_len || id_len > FGT_BUILD_ID_MAX)
		return;
	memcpy(ident->altlink, data, name_len + 1);
	memcpy(ident->altlink_build_id, data + name_len + 1, id_len);
	ident->altlink_build_id_len = (uint32_t)id_len;
}

/* Returns the length of the section that was read; 0: there is none. */
static size_t read_link(const struct fgt_elf_source *source,
			const struct fgt_elf_range *range,
			char data[LINK_MAX_BYTES])
{
	if (range->size > LINK_MAX_BYTES ||
	    fgt_elf_source_read(source, range->offset, data, range->size))
		return 0;
	return range->size;
}

int fgt_elf_ident_read(int fd, struct fgt_elf_ident *ret_ident)
{
	struct fgt_elf_source source = { .fd = fd };
	struct fgt_elf_ident ident = { 0 };
	char data[LINK_MAX_BYTES];
	struct fgt_elf elf;
	struct stat status;
	int error;

	if (fstat(fd, &status) < 0)
		return -EIO;
	source.len = status.st_size > 0 ? (uint64_t)status.st_size : 0;
	error = fgt_elf_parse(&source, &elf);
	if (error)
		return error;
	memcpy(ident.build_id, elf.build_id, sizeof(ident.build_id));
	ident.build_id_len = elf.build_id_len;
	ident.has_symtab = elf.has_symtab;
	ident.has_debug_info = elf.has_debug_info;
	take_debuglink(data, read_link(&source, &elf.debuglink, data), &ident);
	take_altlink(data, read_link(&source, &elf.altlink, data), &ident);
	*ret_ident = ident;
	return 0;
}
