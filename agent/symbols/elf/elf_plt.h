/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names the entries of the procedure linkage table after what they jump to.
 * Runs in the symbol helper.
 */
#ifndef FGT_AGENT_SYMBOLS_ELF_ELF_PLT_H
#define FGT_AGENT_SYMBOLS_ELF_ELF_PLT_H

#include "agent/symbols/elf/elf_symbols.h"

/*
 * Adds "name@plt" for each PLT entry of an x86-64 or AArch64 file whose slot
 * has a relocation; other files get none. symbols must be sorted, and sorted
 * again afterwards. -EBADMSG, -EFBIG, -ENOMEM.
 */
int fgt_elf_plt_add(struct fgt_elf_symbols *symbols, struct Elf *elf);

#endif
