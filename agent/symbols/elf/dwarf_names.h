/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source lines and inlined calls from DWARF. Runs in the symbol helper.
 */
#ifndef FGT_AGENT_SYMBOLS_ELF_DWARF_NAMES_H
#define FGT_AGENT_SYMBOLS_ELF_DWARF_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/owner.h"

struct Elf; /* libelf's */
struct fgt_dwarf_names;

/* All DWARF sections of a file together, unpacked; larger: symbols only. */
#define FGT_DWARF_MAX_BYTES (512ull << 20)

/* One level of inlining; the texts are valid until the next call. */
struct fgt_dwarf_call {
	const char *name; /* the linker's if it has one, else with scopes;
			   * NULL if unknown */
	const char *file; /* NULL if unknown */
	uint32_t line;
};

/*
 * Opens the DWARF of elf; alt_elf is its .gnu_debugaltlink file or NULL. Both
 * must outlive the result. -ENOENT without DWARF, -EFBIG, -EBADMSG, -ENOMEM.
 */
int fgt_dwarf_names_new(struct Elf *elf, struct Elf *alt_elf,
			struct fgt_dwarf_names **ret_names);
void fgt_dwarf_names_free(struct fgt_dwarf_names *names);
FGT_DEFINE_AUTO(struct fgt_dwarf_names *, fgt_dwarf_names_free);

/*
 * The calls at an address, innermost inlined one first, the real function
 * last; of more than capacity calls the outermost inlined ones are left out.
 * Returns their number, 0 if nothing is known. After deadline_ns
 * (CLOCK_MONOTONIC) it gives up, and so do all later calls with these names.
 *
 * MT-Unsafe | AS-Unsafe
 */
size_t fgt_dwarf_names_find(struct fgt_dwarf_names *names, uint64_t address,
			    uint64_t deadline_ns, struct fgt_dwarf_call *calls,
			    size_t capacity);

/* How many bytes of DWARF a file has; UINT64_MAX if that is not to be known. */
uint64_t fgt_dwarf_count_bytes(struct Elf *elf);

#endif
