/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the unwind rules (CIE and FDE) of an address in .eh_frame, by the table
 * of .eh_frame_hdr or an index made here, else in .debug_frame. All numbers are
 * ELF addresses; all bytes are hostile until checked.
 *
 * MT-Safe for tables that have been loaded | AS-Unsafe unless a function has
 * another note
 */
#ifndef FGT_AGENT_UNWIND_CFI_CFI_TABLE_H
#define FGT_AGENT_UNWIND_CFI_CFI_TABLE_H

#include "agent/unwind/elf/elf_file.h"
#include "ringbuf/base/owner.h"

struct fgt_cfi_table; /* gives the same answer for an address each time */

/* The rules of one function, decoded but not interpreted. */
struct fgt_cfi_rule {
	uint64_t start, end; /* the function: [start, end) */
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_column; /* DWARF number */
	bool is_signal_frame; /* 'S' */
	const uint8_t *common; /* CIE's instructions */
	size_t common_len; /* bytes */
	const uint8_t *instructions; /* the function's own */
	size_t instructions_len; /* bytes */
};

/* Large sections are read as they are needed: what source reads from (fd,
 * bytes) must outlive the table.
 * whole_max: bytes of a section that has no search table, and so is read whole.
 * -ENOENT no rules in this file, -EFBIG sections beyond reason, -ENOBUFS one
 * beyond whole_max, -EIO, -ENOMEM.
 */
int fgt_cfi_table_load(const struct fgt_elf *elf,
		       const struct fgt_elf_source *source, size_t whole_max,
		       struct fgt_cfi_table **ret_table);
void fgt_cfi_table_free(struct fgt_cfi_table *table);
FGT_DEFINE_AUTO(struct fgt_cfi_table *, fgt_cfi_table_free);

/* Bytes of memory that it holds by now. */
size_t fgt_cfi_table_size(const struct fgt_cfi_table *table);
/* Bytes of addresses that it has, also for what is not read yet. */
size_t fgt_cfi_table_room(const struct fgt_cfi_table *table);

/*
 * -ENOENT no rule covers the address, -EBADMSG the one that should is broken,
 * -EIO the file cannot be read, or is another by now.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_cfi_table_find(const struct fgt_cfi_table *table, uint64_t address,
		       struct fgt_cfi_rule *ret_rule);

/*
 * ---- A rule as records (cfi_record.c) -------------------------------------
 *
 * A clean pair of .eh_frame records, so that no interpreter of CFI ever sees
 * the bytes of a target's file unchecked.
 */

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
