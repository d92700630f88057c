/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds the reader of rows with bytes as .eh_frame or .debug_frame: every
 * entry that looks like a function's is read, at addresses all over it. A row
 * must be one that a step can use, and the same again, kept or not.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/unwind/cfi/cfi_entry.h"
#include "agent/unwind/cfi/cfi_rows.h"

#define ADDRESS	    0x401000u
#define ENTRIES_MAX 64
#define PLACES	    16u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* One table for all inputs: each input is another file. */
static struct fgt_cfi_rows *rows;
static uint64_t serial;

static void check(bool is_good)
{
	if (!is_good)
		abort();
}

static void check_row(const struct fgt_cfi_rule *rule, uint64_t address)
{
	struct fgt_cfi_row row, again;
	const struct fgt_cfi_row *kept;

	memset(&row, 0, sizeof(row));
	if (fgt_cfi_row_read(rule, address, &row) < 0)
		return;
	/* Either a root or a step. */
	check(row.flags == FGT_CFI_ROW_ROOT || row.flags < FGT_CFI_ROW_ROOT);
	check(row.flags & FGT_CFI_ROW_FP_SAVED || !row.fp_offset);
	memset(&again, 0xff, sizeof(again));
	check(fgt_cfi_row_read(rule, address, &again) == 0);
	check(!memcmp(&row, &again, sizeof(row)));
	fgt_cfi_rows_put(rows, serial, address, &row);
	kept = fgt_cfi_rows_find(rows, serial, address);
	check(kept ? !memcmp(kept, &row, sizeof(row)) : address > UINT32_MAX);
}

static void check_rule(const struct fgt_cfi_rule *rule)
{
	uint64_t len = rule->end - rule->start;

	for (unsigned int i = 0; i < PLACES; i++) {
		check_row(rule, rule->start + len / PLACES * i);
		check_row(rule, rule->start + i % len);
	}
	check_row(rule, rule->end - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct fgt_cfi_section section = { .address = ADDRESS };
	struct fgt_cfi_entry entry;
	struct fgt_cfi_rule rule;
	uint64_t offset = 0;

	if (len < 2 || (!rows && fgt_cfi_rows_new(&rows) < 0))
		return 0;
	serial++;
	section.is_debug_frame = bytes[0] & 1;
	section.len = len - 1;
	section.bytes = malloc(section.len);
	if (section.bytes) {
		memcpy(section.bytes, bytes + 1, section.len);
		for (int i = 0; i < ENTRIES_MAX; i++) {
			if (fgt_cfi_rule_read(&section, offset, &rule) == 0)
				check_rule(&rule);
			if (fgt_cfi_entry_read(&section, offset, &entry) < 0)
				break;
			offset = entry.next;
		}
	}
	free(section.bytes);
	return 0;
}
