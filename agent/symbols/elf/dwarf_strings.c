/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for the end of strings that are written out in DWARF entries. Runs in
 * the symbol helper.
 */
#include "agent/symbols/elf/dwarf_strings.h"

#include <dwarf.h>
#include <gelf.h>
#include <string.h>

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
