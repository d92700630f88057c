/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All names of one image: symbol tables, DWARF and demangling together.
 * Runs in the symbol helper; holds libelf's and libdw's state.
 */
#ifndef FGT_AGENT_SYMBOLS_ELF_SYMBOL_IMAGE_H
#define FGT_AGENT_SYMBOLS_ELF_SYMBOL_IMAGE_H

#include "agent/symbols/elf/image_open.h"
#include "agent/symbols/names/demangle.h"
#include "agent/symbols/names/names.h"

struct fgt_symbol_image;

/*
 * Opens the ELF files and reads the symbol tables: .symtab of the image, else
 * of the debug file, else .gnu_debugdata (at most 64 MiB) and .dynsym. Takes
 * the descriptors over, also on error. want_dwarf: lines and inlined calls
 * too. -ENOEXEC not an ELF file, -EBADMSG, -ENOMEM.
 */
int fgt_symbol_image_open(struct fgt_image_files *files, bool want_dwarf,
			  struct fgt_symbol_image **ret_image);
void fgt_symbol_image_close(struct fgt_symbol_image *image);
FGT_DEFINE_AUTO(struct fgt_symbol_image *, fgt_symbol_image_close);

/* A low estimate of the memory behind an image. */
uint64_t fgt_symbol_image_count_bytes(const struct fgt_symbol_image *image);

/*
 * Appends for each address a length (4 bytes) and its packed names (names.h);
 * of data: the object and the offset in it, "g_lock+0x8", if it covers it; of
 * a function without a name its start, by the image's unwind rules.
 * DWARF is left out once deadline_ns (CLOCK_MONOTONIC) is over. -ENOMEM,
 * -EFBIG.
 *
 * MT-Unsafe | AS-Unsafe
 */
int fgt_symbol_image_find(struct fgt_symbol_image *image,
			  const uint64_t *addresses, size_t count,
			  enum fgt_demangle mode, uint64_t deadline_ns,
			  struct fgt_memory_sink *bytes);

#endif
