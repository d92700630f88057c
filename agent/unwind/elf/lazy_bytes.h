/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a file in memory. Pages are read, and take memory, when they are
 * needed.
 */
#ifndef FGT_AGENT_UNWIND_ELF_LAZY_BYTES_H
#define FGT_AGENT_UNWIND_ELF_LAZY_BYTES_H

#include "agent/unwind/elf/elf_file.h"
#include "ringbuf/base/owner.h"

struct fgt_lazy_bytes;

/*
 * [offset, offset + len) of a file, len > 0. source is copied; what it reads
 * from (fd, bytes) must outlive this. -ENOMEM.
 */
int fgt_lazy_bytes_new(const struct fgt_elf_source *source, uint64_t offset,
		       size_t len, struct fgt_lazy_bytes **ret_lazy);
void fgt_lazy_bytes_free(struct fgt_lazy_bytes *lazy);
FGT_DEFINE_AUTO(struct fgt_lazy_bytes *, fgt_lazy_bytes_free);

/* Where the bytes are, once they are needed: [len]. */
uint8_t *fgt_lazy_bytes_get(struct fgt_lazy_bytes *lazy);

/*
 * Reads [at, at + len), or as much of it as lies within, if it is not there
 * yet. False: the file cannot be read there, or has changed.
 *
 * MT-Safe | AS-Unsafe
 */
bool fgt_lazy_bytes_need(struct fgt_lazy_bytes *lazy, uint64_t at,
			 uint64_t len);

#endif
