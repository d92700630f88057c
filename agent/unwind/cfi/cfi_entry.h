/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes single entries (CIE, FDE) of .eh_frame and .debug_frame.
 */
#ifndef FGT_AGENT_UNWIND_CFI_CFI_ENTRY_H
#define FGT_AGENT_UNWIND_CFI_CFI_ENTRY_H

#include "agent/unwind/cfi/cfi_table.h"
#include "agent/unwind/elf/lazy_bytes.h"

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

/* Decodes the FDE at offset and its CIE. -EBADMSG, -EIO, -ENOENT a CIE or the end.
 * MT-Safe | AS-Unsafe */
int fgt_cfi_rule_read(const struct fgt_cfi_section *section, uint64_t offset,
		      struct fgt_cfi_rule *ret_rule);

#endif
