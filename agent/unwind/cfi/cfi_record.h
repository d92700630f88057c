/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a rule down as a clean pair of .eh_frame records, so that no
 * interpreter of CFI ever sees the bytes of a target's file unchecked.
 */
#ifndef FGT_AGENT_UNWIND_CFI_CFI_RECORD_H
#define FGT_AGENT_UNWIND_CFI_CFI_RECORD_H

#include "agent/unwind/cfi/cfi_table.h"

struct fgt_cfi_record {
	size_t len; /* bytes written */
	size_t fde_at; /* where in them the FDE starts */
	bool has_expressions; /* interpreters keep pointers to these */
};

/*
 * CIE and FDE with absolute addresses (rule's start and end). Checked:
 * instructions, register numbers, expressions (no jumps, no division).
 * Changed: registers that the processor's table does not know are left out,
 * "frame pointer undefined" becomes "unchanged" (libunwind would take it for
 * the end of the stack).
 * -EBADMSG an instruction that is not allowed, -ENOSPC.
 *
 * MT-Safe | AS-Safe
 */
int fgt_cfi_record_write(const struct fgt_cfi_rule *rule, uint8_t *buffer,
			 size_t size, struct fgt_cfi_record *ret_record);

/* How many registers besides return address and frame pointer the function
 * saves on the stack, by its rules. MT-Safe | AS-Safe */
unsigned int fgt_cfi_rule_count_saved(const struct fgt_cfi_rule *rule);

#endif
