/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row of one address: what a step to the caller needs, packed.
 */
#ifndef FGT_AGENT_UNWIND_CFI_CFI_ROW_H
#define FGT_AGENT_UNWIND_CFI_CFI_ROW_H

#include "agent/unwind/cfi/cfi_table.h"

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

#endif
