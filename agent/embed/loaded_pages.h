/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives back the pages that only loading this library and what it needs has
 * touched: relocations and constructors bring in half a megabyte of files that
 * a recorder without slices never looks at. Of glibc's loader.
 */
#ifndef FGT_AGENT_EMBED_LOADED_PAGES_H
#define FGT_AGENT_EMBED_LOADED_PAGES_H

#include <stdint.h>

/*
 * Of the libraries that came with this one; not of those that the program had
 * before. Once: later calls do nothing.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_loaded_pages_give_back(void);

/*
 * Of one library that cannot go meanwhile; base: where its ELF header lies. Its
 * read-only parts are mapped again when they are used; one that somebody has
 * written to (a debugger's breakpoints), or of which that cannot be known,
 * stays as it is.
 *
 * MT-Safe | AS-Unsafe
 */
void fgt_loaded_pages_drop(uintptr_t base);

#endif
