/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CIE and FDE decoding (LSB "Exception Frames", DWARF 5 section 6.4). Runs in
 * any thread; must not read past a section's bytes, whatever lengths they hold.
 */
#include "agent/unwind/cfi/cfi_entry.h"

#include <errno.h>
#include <string.h>

/* Pointer encodings: LSB Core, "DWARF Exception Header Encoding". */
enum {
	PE_ABSPTR = 0x00,
	PE_ULEB128 = 0x01,
	PE_UDATA2 = 0x02,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_SLEB128 = 0x09,
	PE_SDATA2 = 0x0a,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_PCREL = 0x10,
	PE_DATAREL = 0x30,
	PE_INDIRECT = 0x80,
	PE_OMIT = 0xff,
};

#define HEAD_BYTES 12u /* an entry's length takes no more */

/* What a CIE defines for its FDEs. */
struct common {
	struct fgt_cfi_rule rule; /* without the function */
	uint8_t pointer_encoding;
	bool has_augmentation_data;
};

static bool take(struct fgt_cfi_cursor *cursor, void *buffer, size_t len)
{
	if (cursor->is_bad || (size_t)(cursor->end - cursor->at) < len) {
		cursor->is_bad = true;
		memset(buffer, 0, len);
		return false;
	}
	memcpy(buffer, cursor->at, len);
	cursor->at += len;
	return true;
}

void fgt_cfi_skip(struct fgt_cfi_cursor *cursor, uint64_t len)
{
	if (cursor->is_bad || (uint64_t)(cursor->end - cursor->at) < len) {
		cursor->is_bad = true;
		return;
	}
	cursor->at += len;
}

uint8_t fgt_cfi_read_u8(struct fgt_cfi_cursor *cursor)
{
	uint8_t value;

	take(cursor, &value, sizeof(value));
	return value;
}

uint16_t fgt_cfi_read_u16(struct fgt_cfi_cursor *cursor)
{
	uint16_t value;

	take(cursor, &value, sizeof(value));
	return value;
}

uint32_t fgt_cfi_read_u32(struct fgt_cfi_cursor *cursor)
{
	uint32_t value;

	take(cursor, &value, sizeof(value));
	return value;
}

static uint64_t read_u64(struct fgt_cfi_cursor *cursor)
{
	uint64_t value;

	take(cursor, &value, sizeof(value));
	return value;
}

/* Bits beyond 64 are dropped; the number of bytes is bounded by the end. */
static uint64_t read_leb(struct fgt_cfi_cursor *cursor, unsigned int *ret_bits,
			 uint8_t *ret_last)
{
	unsigned int bits = 0;
	uint64_t value = 0;
	uint8_t byte;

	do {
		byte = fgt_cfi_read_u8(cursor);
		if (bits < 64)
			value |= (uint64_t)(byte & 0x7f) << bits;
		bits += 7;
	} while (byte & 0x80);
	*ret_bits = bits;
	*ret_last = byte;
	return value;
}

uint64_t fgt_cfi_read_uleb(struct fgt_cfi_cursor *cursor)
{
	unsigned int bits;
	uint8_t last;

	return read_leb(cursor, &bits, &last);
}

int64_t fgt_cfi_read_sleb(struct fgt_cfi_cursor *cursor)
{
	unsigned int bits;
	uint64_t value;
	uint8_t last;

	value = read_leb(cursor, &bits, &last);
	if (bits < 64 && (last & 0x40))
		value |= ~0ull << bits;
	return (int64_t)value;
}

/* The number itself, before its base is added. */
static uint64_t read_format(struct fgt_cfi_cursor *cursor, uint8_t encoding)
{
	switch (encoding & 0x0f) {
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		return read_u64(cursor);
	case PE_UDATA2:
		return fgt_cfi_read_u16(cursor);
	case PE_UDATA4:
		return fgt_cfi_read_u32(cursor);
	case PE_SDATA2:
		return (uint64_t)(int64_t)(int16_t)fgt_cfi_read_u16(cursor);
	case PE_SDATA4:
		return (uint64_t)(int64_t)(int32_t)fgt_cfi_read_u32(cursor);
	case PE_ULEB128:
		return fgt_cfi_read_uleb(cursor);
	case PE_SLEB128:
		return (uint64_t)fgt_cfi_read_sleb(cursor);
	default:
		cursor->is_bad = true;
		return 0;
	}
}

static uint64_t read_pointer(const struct fgt_cfi_section *section,
			     struct fgt_cfi_cursor *cursor, uint8_t encoding)
{
	uint64_t at =
		section->address + (uint64_t)(cursor->at - section->bytes);
	uint64_t value = read_format(cursor, encoding);

	switch (encoding & 0xf0) {
	case PE_ABSPTR:
		return value;
	case PE_PCREL:
		return value + at;
	case PE_DATAREL:
		return value + section->data_base;
	default: /* text or function relative, aligned, indirect: not here */
		cursor->is_bad = true;
		return 0;
	}
}

int fgt_cfi_entry_read(const struct fgt_cfi_section *section, uint64_t offset,
		       struct fgt_cfi_entry *ret_entry)
{
	struct fgt_cfi_entry entry = { 0 };
	struct fgt_cfi_cursor cursor;
	uint64_t len, id, id_at, no_cie = 0;
	bool is_wide;

	if (offset >= section->len)
		return -EBADMSG;
	if (!fgt_cfi_section_need(section, offset, HEAD_BYTES))
		return -EIO;
	cursor.at = section->bytes + offset;
	cursor.end = section->bytes + section->len;
	cursor.is_bad = false;
	len = fgt_cfi_read_u32(&cursor);
	is_wide = len == UINT32_MAX;
	if (is_wide)
		len = read_u64(&cursor);
	if (cursor.is_bad || len > (uint64_t)(cursor.end - cursor.at))
		return -EBADMSG;
	if (!fgt_cfi_section_need(section, offset, HEAD_BYTES + len))
		return -EIO;
	cursor.end = cursor.at + len;
	entry.next = (uint64_t)(cursor.end - section->bytes);
	entry.is_end = !len;
	id_at = (uint64_t)(cursor.at - section->bytes);
	/* .eh_frame has 4 bytes of CIE pointer with either form of length. */
	is_wide = is_wide && section->is_debug_frame;
	if (len)
		id = is_wide ? read_u64(&cursor) : fgt_cfi_read_u32(&cursor);
	else
		id = 0;
	if (cursor.is_bad)
		return -EBADMSG;
	if (section->is_debug_frame)
		no_cie = is_wide ? UINT64_MAX : UINT32_MAX;
	entry.is_cie = !entry.is_end && id == no_cie;
	entry.cie_offset = section->is_debug_frame ? id : id_at - id;
	entry.body = cursor;
	*ret_entry = entry;
	return 0;
}

/* One letter after 'z', with its data. False: unknown, stop here. */
static bool read_letter(const struct fgt_cfi_section *section,
			struct fgt_cfi_cursor *cursor, char letter,
			struct common *common)
{
	uint8_t encoding;

	switch (letter) {
	case 'R':
		common->pointer_encoding = fgt_cfi_read_u8(cursor);
		return true;
	case 'L':
		fgt_cfi_read_u8(cursor);
		return true;
	case 'P': /* personality: only stepped over */
		encoding = fgt_cfi_read_u8(cursor);
		if (encoding != PE_OMIT)
			read_pointer(section, cursor,
				     encoding & (uint8_t)~PE_INDIRECT);
		return true;
	case 'S':
		common->rule.is_signal_frame = true;
		return true;
	case 'B': /* aarch64: signed with the B key */
	case 'G': /* aarch64: memory tagging */
		return true;
	default:
		return false;
	}
}

/* All letters; 'z' gives the end, so that unknown ones do no harm. */
static void read_augmentation(const struct fgt_cfi_section *section,
			      struct fgt_cfi_cursor *cursor,
			      const char *letters, struct common *common)
{
	uint64_t len = fgt_cfi_read_uleb(cursor);
	const uint8_t *end;

	if (cursor->is_bad || len > (uint64_t)(cursor->end - cursor->at)) {
		cursor->is_bad = true;
		return;
	}
	end = cursor->at + len;
	common->has_augmentation_data = true;
	while (*letters && read_letter(section, cursor, *letters, common))
		letters++;
	if (cursor->at > end)
		cursor->is_bad = true;
	else
		cursor->at = end;
}

static int read_common(const struct fgt_cfi_section *section, uint64_t offset,
		       struct common *ret_common)
{
	struct common common = { 0 };
	struct fgt_cfi_cursor cursor;
	struct fgt_cfi_entry entry;
	const char *letters;
	uint8_t version;
	int r;

	r = fgt_cfi_entry_read(section, offset, &entry);
	if (r < 0)
		return r;
	if (!entry.is_cie)
		return -EBADMSG;
	cursor = entry.body;
	version = fgt_cfi_read_u8(&cursor);
	letters = (const char *)cursor.at;
	if (cursor.is_bad || (version != 1 && version != 3 && version != 4) ||
	    !memchr(letters, 0, (size_t)(cursor.end - cursor.at)))
		return -EBADMSG;
	fgt_cfi_skip(&cursor, strlen(letters) + 1);
	if (version == 4 && (fgt_cfi_read_u8(&cursor) != sizeof(uint64_t) ||
			     fgt_cfi_read_u8(&cursor) != 0))
		return -EBADMSG; /* address size, segment selector size */
	common.rule.code_align = fgt_cfi_read_uleb(&cursor);
	common.rule.data_align = fgt_cfi_read_sleb(&cursor);
	common.rule.return_column = version == 1 ? fgt_cfi_read_u8(&cursor)
						 : fgt_cfi_read_uleb(&cursor);
	if (letters[0] == 'z')
		read_augmentation(section, &cursor, letters + 1, &common);
	else if (letters[0])
		return -EBADMSG;
	if (cursor.is_bad)
		return -EBADMSG;
	common.rule.common = cursor.at;
	common.rule.common_len = (size_t)(cursor.end - cursor.at);
	*ret_common = common;
	return 0;
}

int fgt_cfi_rule_read(const struct fgt_cfi_section *section, uint64_t offset,
		      struct fgt_cfi_rule *ret_rule)
{
	struct fgt_cfi_cursor cursor;
	struct fgt_cfi_entry entry;
	struct common common;
	uint64_t start, len;
	int r;

	r = fgt_cfi_entry_read(section, offset, &entry);
	if (r < 0)
		return r;
	if (entry.is_end || entry.is_cie)
		return -ENOENT;
	r = read_common(section, entry.cie_offset, &common);
	if (r < 0)
		return r;
	cursor = entry.body;
	start = read_pointer(section, &cursor, common.pointer_encoding);
	len = read_format(&cursor, common.pointer_encoding);
	if (common.has_augmentation_data)
		fgt_cfi_skip(&cursor, fgt_cfi_read_uleb(&cursor));
	if (cursor.is_bad || !len || start + len < start)
		return -EBADMSG;
	*ret_rule = common.rule;
	ret_rule->start = start;
	ret_rule->end = start + len;
	ret_rule->instructions = cursor.at;
	ret_rule->instructions_len = (size_t)(cursor.end - cursor.at);
	return 0;
}
