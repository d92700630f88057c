/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of an ELF file by address: symbol tables and PLT entries; or
 * its objects, which are data. Runs in the symbol helper; all counts come from
 * a hostile file.
 *
 * MT-Unsafe for one table | AS-Unsafe
 */
#ifndef FGT_AGENT_SYMBOLS_ELF_ELF_SYMBOLS_H
#define FGT_AGENT_SYMBOLS_ELF_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/owner.h"

struct Elf; /* libelf's */
struct fgt_elf_symbols;

/* The two sections of an ELF file that may hold symbols: all of them (often
 * stripped), and those that the dynamic linker needs. */
enum fgt_elf_table {
	FGT_ELF_SYMTAB,
	FGT_ELF_DYNSYM,
};

enum fgt_elf_kind {
	FGT_ELF_FUNCTIONS,
	FGT_ELF_OBJECTS,
};

/* NULL without memory. */
struct fgt_elf_symbols *fgt_elf_symbols_new(enum fgt_elf_kind kind);
void fgt_elf_symbols_free(struct fgt_elf_symbols *symbols);
FGT_DEFINE_AUTO(struct fgt_elf_symbols *, fgt_elf_symbols_free);

/*
 * Adds the symbols of a table; elf must stay open as long as symbols. The
 * bounds: 4 M symbols in all, a table and its names 256 MiB each. *ret_count:
 * how many were added; 0 if there is no such table. -EBADMSG, -EFBIG, -ENOMEM.
 */
int fgt_elf_symbols_add(struct fgt_elf_symbols *symbols, struct Elf *elf,
			enum fgt_elf_table table, size_t *ret_count);

/* Adds one function by hand (PLT entries); the name is copied. */
int fgt_elf_symbols_add_one(struct fgt_elf_symbols *symbols, uint64_t address,
			    uint64_t size, const char *name);

/*
 * Adds "name@plt" for each PLT entry of an x86-64 or AArch64 file whose slot
 * has a relocation; other files get none. symbols must be sorted, and sorted
 * again afterwards. -EBADMSG, -EFBIG, -ENOMEM.
 */
int fgt_elf_plt_add(struct fgt_elf_symbols *symbols, struct Elf *elf);

/* Sorts; call after additions, before look-ups and fgt_elf_plt_add(). */
void fgt_elf_symbols_sort(struct fgt_elf_symbols *symbols);

/*
 * The name of the function that covers address: sized before sizeless,
 * functions before untyped symbols, the innermost if they nest, exported
 * before local, the plainest of aliases ("read" before "__read"). NULL if
 * none does.
 */
const char *fgt_elf_symbols_find(const struct fgt_elf_symbols *symbols,
				 uint64_t address);

/* The object that covers address, and how far behind its beginning that is. */
const char *fgt_elf_symbols_find_object(const struct fgt_elf_symbols *symbols,
					uint64_t address, uint64_t *ret_offset);

/* Whether address is in memory of the file that holds no code. */
bool fgt_elf_is_data(struct Elf *elf, uint64_t address);

/* The memory that the table takes. */
uint64_t fgt_elf_symbols_count_bytes(const struct fgt_elf_symbols *symbols);

#endif
