/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that were read once, by file and ELF address: shared by all targets that
 * map the file, wherever they map it. Room for 65,536 rows in 1 MiB, of which
 * only what is used becomes resident; a row that another one replaced is read
 * again.
 */
#ifndef FGT_AGENT_UNWIND_CFI_CFI_ROWS_H
#define FGT_AGENT_UNWIND_CFI_CFI_ROWS_H

#include "agent/unwind/cfi/cfi_row.h"
#include "ringbuf/base/owner.h"

#define FGT_CFI_ROWS_BYTES_MAX ((size_t)1 << 20)

#define FGT_CFI_ROWS_SLOTS    4u
#define FGT_CFI_ROWS_SET_BITS 14u

struct fgt_cfi_slot {
	uint32_t serial, address; /* serial 0: empty */
	struct fgt_cfi_row row;
};

/* A row lies in one of the slots of its set, which is a cache line. MT-Unsafe:
 * only the sampler thread finds and puts rows. */
struct fgt_cfi_rows {
	struct fgt_cfi_set {
		struct fgt_cfi_slot slots[FGT_CFI_ROWS_SLOTS];
	} sets[1u << FGT_CFI_ROWS_SET_BITS];
	uint32_t
		set_mask; /* of the sets in use: few while there are few rows, so that they share pages */
	uint32_t used; /* slots */
	unsigned int turn; /* the slot that is reused in a full set */
};

int fgt_cfi_rows_new(struct fgt_cfi_rows **ret_rows);
void fgt_cfi_rows_free(struct fgt_cfi_rows *rows);
FGT_DEFINE_AUTO(struct fgt_cfi_rows *, fgt_cfi_rows_free);

static inline size_t fgt_cfi_rows_set(const struct fgt_cfi_rows *rows,
				      uint64_t serial, uint64_t address)
{
	uint64_t hash = (serial << 32 ^ address) * 0x9e3779b97f4a7c15ull;

	return hash >> (64 - FGT_CFI_ROWS_SET_BITS) & rows->set_mask;
}

/* serial names the file (fgt_image_file_serial). NULL: not there. Inline:
 * once a frame. */
static inline const struct fgt_cfi_row *
fgt_cfi_rows_find(const struct fgt_cfi_rows *rows, uint64_t serial,
		  uint64_t address)
{
	const struct fgt_cfi_slot *slots =
		rows->sets[fgt_cfi_rows_set(rows, serial, address)].slots;

	for (unsigned int i = 0; i < FGT_CFI_ROWS_SLOTS; i++)
		if (slots[i].address == address && slots[i].serial == serial)
			return &slots[i].row;
	return NULL;
}

/* Takes the place of the same one, an empty one, or another of its set. */
void fgt_cfi_rows_put(struct fgt_cfi_rows *rows, uint64_t serial,
		      uint64_t address, const struct fgt_cfi_row *row);

#endif
