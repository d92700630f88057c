/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names in one ELF file and its debug file: function, file, line, inlined
 * calls of an ELF address. One thread at a time per object.
 */
#ifndef FGT_AGENT_SYMBOLS_IMAGE_SYMBOLS_H
#define FGT_AGENT_SYMBOLS_IMAGE_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/symbols/debug_file.h"
#include "ringbuf/owner.h"

#define FGT_INLINE_DEPTH_MAX 32

struct fgt_image_symbols;

/* A name as the files have it: mangled, borrowed until the next find. */
struct fgt_found_symbol {
	const char *function; /* never NULL */
	const char *file; /* NULL if unknown */
	uint32_t line; /* 0 if unknown */
};

/*
 * Takes the descriptor of an ELF file (also on failure). path names it and
 * tells where to look for debug files. -EBADMSG if it is not ELF or makes no
 * sense, -EFBIG if its .gnu_debugdata would unpack to more than 256 MiB,
 * -ENOMEM.
 */
int fgt_image_symbols_open(int fd, const char *path,
			   const struct fgt_debug_search *search,
			   struct fgt_image_symbols **ret_symbols);
void fgt_image_symbols_close(struct fgt_image_symbols *symbols);
FGT_DEFINE_AUTO(struct fgt_image_symbols *, fgt_image_symbols_close);

/*
 * What covers an ELF virtual address: innermost inlined call first, the real
 * function last. Returns how many of found[FGT_INLINE_DEPTH_MAX], 0 if none.
 */
size_t fgt_image_symbols_find(struct fgt_image_symbols *symbols,
			      uint64_t address, struct fgt_found_symbol *found);

#endif
