/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes single entries (CIE, FDE) of .eh_frame and .debug_frame.
 *
 * MT-Unsafe for one cursor | AS-Unsafe
 */
#ifndef FGT_AGENT_UNWIND_CFI_CFI_ENTRY_H
#define FGT_AGENT_UNWIND_CFI_CFI_ENTRY_H

#include "agent/unwind/cfi/cfi_table.h"
#include "agent/unwind/elf/elf_file.h"

/* A section in memory. */
struct fgt_cfi_section {
	uint8_t *bytes;
	size_t len;
	struct fgt_lazy_bytes *lazy; /* NULL: all bytes are there */
	uint64_t address; /* ELF address of bytes[0] */
	uint64_t data_base; /* for DW_EH_PE_datarel */
	bool is_debug_frame;
};

/* Are [offset, offset + len) of it there, as far as it reaches? False: its file
 * cannot be read there. */
static inline bool fgt_cfi_section_need(const struct fgt_cfi_section *section,
					uint64_t offset, uint64_t len)
{
	return !section->lazy ||
	       fgt_lazy_bytes_need(section->lazy, offset, len);
}

/* Reads forward; is_bad stays set after the first read past the end. */
struct fgt_cfi_cursor {
	const uint8_t *at, *end;
	bool is_bad;
};
uint8_t fgt_cfi_read_u8(struct fgt_cfi_cursor *cursor);
uint16_t fgt_cfi_read_u16(struct fgt_cfi_cursor *cursor);
uint32_t fgt_cfi_read_u32(struct fgt_cfi_cursor *cursor);
uint64_t fgt_cfi_read_uleb(struct fgt_cfi_cursor *cursor);
int64_t fgt_cfi_read_sleb(struct fgt_cfi_cursor *cursor);
void fgt_cfi_skip(struct fgt_cfi_cursor *cursor, uint64_t len);

/* The entry at an offset: its kind and where the next one starts. */
struct fgt_cfi_entry {
	struct fgt_cfi_cursor body; /* after the CIE pointer */
	uint64_t cie_offset; /* of an FDE's CIE */
	uint64_t next; /* offset of the next entry */
	bool is_cie, is_end;
};
/* -EBADMSG, -EIO */
int fgt_cfi_entry_read(const struct fgt_cfi_section *section, uint64_t offset,
		       struct fgt_cfi_entry *ret_entry);

/* Decodes the FDE at offset and its CIE. -EBADMSG, -EIO, -ENOENT a CIE or the
 * end. MT-Safe | AS-Unsafe */
int fgt_cfi_rule_read(const struct fgt_cfi_section *section, uint64_t offset,
		      struct fgt_cfi_rule *ret_rule);

/* Call frame instructions by number (DWARF 5 section 7.24; LSB for GNU's). */
enum fgt_cfa_opcode {
	FGT_CFA_NOP = 0x00,
	FGT_CFA_ADVANCE_LOC1 = 0x02,
	FGT_CFA_ADVANCE_LOC2 = 0x03,
	FGT_CFA_ADVANCE_LOC4 = 0x04,
	FGT_CFA_OFFSET_EXTENDED = 0x05,
	FGT_CFA_RESTORE_EXTENDED = 0x06,
	FGT_CFA_UNDEFINED = 0x07,
	FGT_CFA_SAME_VALUE = 0x08,
	FGT_CFA_REGISTER = 0x09,
	FGT_CFA_REMEMBER_STATE = 0x0a,
	FGT_CFA_RESTORE_STATE = 0x0b,
	FGT_CFA_DEF_CFA = 0x0c,
	FGT_CFA_DEF_CFA_REGISTER = 0x0d,
	FGT_CFA_DEF_CFA_OFFSET = 0x0e,
	FGT_CFA_DEF_CFA_EXPRESSION = 0x0f,
	FGT_CFA_EXPRESSION = 0x10,
	FGT_CFA_OFFSET_EXTENDED_SF = 0x11,
	FGT_CFA_DEF_CFA_SF = 0x12,
	FGT_CFA_DEF_CFA_OFFSET_SF = 0x13,
	FGT_CFA_VAL_OFFSET = 0x14,
	FGT_CFA_VAL_OFFSET_SF = 0x15,
	FGT_CFA_VAL_EXPRESSION = 0x16,
	FGT_CFA_AARCH64_NEGATE_RA_STATE = 0x2d,
	FGT_CFA_GNU_ARGS_SIZE = 0x2e,
	FGT_CFA_ADVANCE_LOC = 0x40, /* low 6 bits: delta */
	FGT_CFA_OFFSET = 0x80, /* low 6 bits: register */
	FGT_CFA_RESTORE = 0xc0, /* low 6 bits: register */
};

#endif
