/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks sections of DWARF before libdw reads them: how much memory it would
 * take (it reads and unpacks every section at once), and whether strings end.
 * Runs in the symbol helper.
 */
#include "agent/symbols/elf/dwarf_sections.h"

#include <dwarf.h>
#include <errno.h>
#include <gelf.h>
#include <string.h>

#include "agent/symbols/elf/dwarf_names.h"

/* zlib and zstd do not shrink further than this. */
#define RATIO_MAX 1100

/* ---- Sizes -------------------------------------------------------------- */

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

/* ---- Strings ------------------------------------------------------------ */

static bool has_suffix(const char *name, const char *suffix)
{
	size_t len = strlen(name), suffix_len = strlen(suffix);

	return len >= suffix_len && !strcmp(name + len - suffix_len, suffix);
}

/* Looks at one section; false if it is a table of strings without an end. */
static bool add_section(struct fgt_dwarf_strings *strings, Elf_Scn *scn,
			const char *name)
{
	Elf_Data *data = elf_rawdata(scn, NULL);
	const unsigned char *start = data ? data->d_buf : NULL;

	if (!start || !data->d_size)
		return true;
	if (has_suffix(name, "debug_str") || has_suffix(name, "debug_line_str"))
		return !start[data->d_size - 1];
	if (!has_suffix(name, "debug_info") && !has_suffix(name, "debug_types"))
		return true;
	if (strings->count == FGT_DWARF_SECTIONS_MAX)
		return false;
	strings->sections[strings->count++] =
		(struct fgt_dwarf_section){ start, start + data->d_size };
	return true;
}

bool fgt_dwarf_strings_add(struct fgt_dwarf_strings *strings, Elf *elf)
{
	Elf_Scn *scn = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		return false;
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr header;
		const char *name;

		if (!gelf_getshdr(scn, &header) || header.sh_type == SHT_NOBITS)
			continue;
		name = elf_strptr(elf, names, header.sh_name);
		if (name && strstr(name, "debug_") &&
		    !add_section(strings, scn, name))
			return false;
	}
	return true;
}

const char *fgt_dwarf_strings_get(const struct fgt_dwarf_strings *strings,
				  Dwarf_Attribute *attribute)
{
	const unsigned char *text = attribute->valp;

	if (dwarf_whatform(attribute) != DW_FORM_string)
		return dwarf_formstring(attribute);
	for (size_t i = 0; i < strings->count; i++) {
		const struct fgt_dwarf_section *section = &strings->sections[i];

		if (text >= section->start && text < section->end)
			return memchr(text, '\0', (size_t)(section->end - text))
				       ? (const char *)text
				       : NULL;
	}
	return NULL;
}

bool fgt_dwarf_strings_may_read_lines(const struct fgt_dwarf_strings *strings,
				      Dwarf_Die *unit)
{
	Dwarf_Attribute attribute;

	return !dwarf_attr(unit, DW_AT_comp_dir, &attribute) ||
	       fgt_dwarf_strings_get(strings, &attribute);
}
