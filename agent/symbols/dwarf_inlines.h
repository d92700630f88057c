/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inlined calls and lines of an address, from DWARF. One thread at a time
 * per index; must not walk without a bound, the file may be hostile.
 */
#ifndef FGT_AGENT_SYMBOLS_DWARF_INLINES_H
#define FGT_AGENT_SYMBOLS_DWARF_INLINES_H

#include <elfutils/libdw.h>

#include "agent/symbols/image_symbols.h"

struct fgt_cu_index;

/*
 * Lists which compilation unit covers which addresses. -ENOMEM; a file with
 * broken units gives an index of those before.
 */
int fgt_cu_index_new(Dwarf *dwarf, struct fgt_cu_index **ret_index);
void fgt_cu_index_free(struct fgt_cu_index *index);
FGT_DEFINE_AUTO(struct fgt_cu_index *, fgt_cu_index_free);

/* As fgt_image_symbols_find(), address in DWARF's terms. Names are DWARF's,
 * linkage names where there are any. */
size_t fgt_cu_index_find(const struct fgt_cu_index *index, Dwarf_Addr address,
			 struct fgt_found_symbol *found);

#endif
