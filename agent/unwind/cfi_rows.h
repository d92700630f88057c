/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that were read once, by file and ELF address: shared by all targets
 * that map the file, wherever they map it. Room for 65,536 rows in 1 MiB, of
 * which only what is used becomes resident; a row that is needed again after
 * another took its place is read again.
 */
#ifndef FGT_AGENT_UNWIND_CFI_ROWS_H
#define FGT_AGENT_UNWIND_CFI_ROWS_H

#include "agent/unwind/cfi_row.h"
#include "ringbuf/owner.h"

/* MT-Unsafe: the sampler's thread alone finds and puts rows. */
struct fgt_cfi_rows;

int fgt_cfi_rows_new(struct fgt_cfi_rows **ret_rows);
void fgt_cfi_rows_free(struct fgt_cfi_rows *rows);
FGT_DEFINE_AUTO(struct fgt_cfi_rows *, fgt_cfi_rows_free);

/* serial names the file (fgt_image_file_serial). False: not there. */
bool fgt_cfi_rows_find(const struct fgt_cfi_rows *rows, uint64_t serial,
		       uint64_t address, struct fgt_cfi_row *ret_row);
void fgt_cfi_rows_put(struct fgt_cfi_rows *rows, uint64_t serial,
		      uint64_t address, const struct fgt_cfi_row *row);

/* Bytes of the rows that are kept now. */
size_t fgt_cfi_rows_size(const struct fgt_cfi_rows *rows);

#endif
