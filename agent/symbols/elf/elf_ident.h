/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of an ELF file and the names of its debug files: build id,
 * .gnu_debuglink, .gnu_debugaltlink. For the daemon the helper reads them (see
 * fgt_helper_ident()).
 */
#ifndef FGT_AGENT_SYMBOLS_ELF_ELF_IDENT_H
#define FGT_AGENT_SYMBOLS_ELF_ELF_IDENT_H

#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/slice/frame.h"

struct fgt_elf_ident {
	uint8_t build_id[FGT_BUILD_ID_MAX];
	uint32_t build_id_len; /* 0 if there is none (or too long) */
	bool has_symtab; /* a .symtab with contents */
	bool has_debug_info; /* DWARF with contents */
	char debuglink[256]; /* a file name without '/', "" if none */
	uint32_t debuglink_crc;
	char altlink[FGT_IMAGE_PATH_MAX]; /* dwz's common file, "" if none */
	uint8_t altlink_build_id[FGT_BUILD_ID_MAX];
	uint32_t altlink_build_id_len;
};

/*
 * Reads the headers of an ELF file. Links that are broken are "". Errors of
 * fgt_elf_parse(); -EIO.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_elf_ident_read(int fd, struct fgt_elf_ident *ret_ident);

#endif
