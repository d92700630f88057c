/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows: what a step from one address to the caller needs, packed; and those
 * that were read once.
 *
 * Rows are found and put in the sampler's thread. MT-Unsafe for one cache
 */
#ifndef FGT_AGENT_UNWIND_CFI_CFI_ROWS_H
#define FGT_AGENT_UNWIND_CFI_CFI_ROWS_H

#include "agent/unwind/cfi/cfi_table.h"
#include "ringbuf/base/owner.h"

/* ---- One row (cfi_row.c) ------------------------------------------------ */

enum fgt_cfi_row_flags {
	FGT_CFI_ROW_FP_BASED = 1, /* the CFA counts from FP, else from SP */
	FGT_CFI_ROW_FP_SAVED = 2, /* at CFA + fp_offset, else unchanged */
	FGT_CFI_ROW_OTHERS_SAVED = 4, /* registers that rows do not follow */
	/* From here on there is no step to make. */
	FGT_CFI_ROW_ROOT =
		8, /* no return address: this function has no caller */
	FGT_CFI_ROW_COMPLEX = 16, /* no row can hold it: use libunwind */
	FGT_CFI_ROW_NONE = 32, /* no rules for this address */
	FGT_CFI_ROW_SIGNAL = 64, /* complex: a signal trampoline's */
};

struct fgt_cfi_row {
	int32_t cfa_offset; /* CFA: the caller's SP = base + this */
	int16_t fp_offset; /* from the CFA */
	int8_t pc_words; /* the return address is at CFA + 8 * this */
	uint8_t flags;
};

/*
 * Interprets a rule's instructions up to an address of the function. Registers
 * other than PC, SP and FP are not followed. "Frame pointer undefined" counts
 * as unchanged, as everywhere here. -ENOTSUP what a row cannot hold
 * (expressions except those of a PLT, a CFA by another register, signal frames
 * …), -EBADMSG broken.
 *
 * MT-Safe | AS-Safe
 */
int fgt_cfi_row_read(const struct fgt_cfi_rule *rule, uint64_t address,
		     struct fgt_cfi_row *ret_row);

/* ---- Rows that were read once (cfi_rows.c) ------------------------------ */

/*
 * Rows by file and ELF address: shared by all targets that map the file,
 * wherever they map it. Room for 65,536 rows in 1 MiB, of which only what is
 * used becomes resident; a row that another one replaced is read again.
 */
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
	/* The number of sets in use - 1: few while there are few rows, so that
	 * they share pages. */
	uint32_t set_mask;
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
