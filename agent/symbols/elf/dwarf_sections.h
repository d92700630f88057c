/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings of DWARF entries, looked at before libdw does: it takes it for
 * granted that they end. Runs in the symbol helper; part of dwarf_names.
 *
 * MT-Unsafe for one table | AS-Unsafe
 */
#ifndef FGT_AGENT_SYMBOLS_ELF_DWARF_SECTIONS_H
#define FGT_AGENT_SYMBOLS_ELF_DWARF_SECTIONS_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>

#define FGT_DWARF_SECTIONS_MAX 32

/* Where strings lie in memory: a string in a section must end there too. */
struct fgt_dwarf_section {
	const unsigned char *start, *end;
};

/* Zero-initialise. */
struct fgt_dwarf_strings {
	struct fgt_dwarf_section sections[FGT_DWARF_SECTIONS_MAX];
	size_t count;
};

/*
 * Notes the sections of a file, after dwarf_begin_elf() has unpacked them.
 * False if a table of strings has no end: libdw must not see it then.
 */
bool fgt_dwarf_strings_add(struct fgt_dwarf_strings *strings, Elf *elf);

/* The string of an attribute, NULL if it is none or does not end. */
const char *fgt_dwarf_strings_get(const struct fgt_dwarf_strings *strings,
				  Dwarf_Attribute *attribute);

/* False if libdw would read a unit's directory past its end. */
bool fgt_dwarf_strings_may_read_lines(const struct fgt_dwarf_strings *strings,
				      Dwarf_Die *unit);

#endif
