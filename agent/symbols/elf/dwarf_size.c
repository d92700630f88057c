/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory libdw would take for a file: it reads and unpacks every
 * DWARF section at once. Runs in the symbol helper, before libdw.
 */
#include <errno.h>
#include <gelf.h>
#include <stdbool.h>
#include <string.h>

#include "agent/symbols/elf/dwarf_names.h"

/* zlib and zstd do not shrink further than this. */
#define RATIO_MAX 1100

/* The size that "ZLIB" + 8 bytes, big endian, claim (.zdebug_*). */
static uint64_t size_of_zdebug(Elf_Scn *section)
{
	Elf_Data *data = elf_rawdata(section, NULL);
	const unsigned char *bytes = data ? data->d_buf : NULL;
	uint64_t size = 0;

	if (!bytes || data->d_size < 12 || memcmp(bytes, "ZLIB", 4))
		return 0;
	for (int i = 4; i < 12; i++)
		size = size << 8 | bytes[i];
	return size;
}

static uint64_t size_of_section(Elf_Scn *section, const GElf_Shdr *header,
				const char *name)
{
	uint64_t size = header->sh_size;
	GElf_Chdr compressed;

	if (header->sh_flags & SHF_COMPRESSED) {
		if (!gelf_getchdr(section, &compressed))
			return UINT64_MAX;
		size = compressed.ch_size;
	} else if (!strncmp(name, ".zdebug_", 8)) {
		if (size > FGT_DWARF_MAX_BYTES)
			return UINT64_MAX;
		size = size_of_zdebug(section);
	}
	if (size / RATIO_MAX > header->sh_size)
		return UINT64_MAX;
	return size;
}

uint64_t fgt_dwarf_count_bytes(struct Elf *elf)
{
	Elf_Scn *section = NULL;
	uint64_t total = 0;
	bool has_info = false;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		return 0;
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		uint64_t size;
		const char *name;

		if (!gelf_getshdr(section, &header))
			return UINT64_MAX;
		name = elf_strptr(elf, names, header.sh_name);
		if (!name || header.sh_type == SHT_NOBITS ||
		    (strncmp(name, ".debug_", 7) &&
		     strncmp(name, ".zdebug_", 8)))
			continue;
		size = size_of_section(section, &header, name);
		if (size > FGT_DWARF_MAX_BYTES)
			return UINT64_MAX;
		total += size;
		if (!strcmp(strchr(name, '_'), "_info"))
			has_info = true;
	}
	return has_info ? total : 0;
}
