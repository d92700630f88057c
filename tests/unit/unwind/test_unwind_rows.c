/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows: what each call frame instruction makes of them, which are refused,
 * and how they are kept. Addresses are of a function [0x1000, 0x2000).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/unwind/arch/arch.h"
#include "agent/unwind/cfi/cfi_rows.h"

#define START	   0x1000u
#define END	   0x2000u
#define SERIAL	   7u
#define ROWS_MAX   65536u
#define ROWS_FEW   120u /* that fit into a page of sets */
#define PC_COLUMN  16
#define SAVED_FP   0x86 /* DW_CFA_offset: rbp */
#define SAVED_PC   0x90 /* DW_CFA_offset: return address */
#define ADVANCE(n) (0x40 | (n))

#define BYTES(...) ((const uint8_t[]){ __VA_ARGS__ })

/* def_cfa rsp 8; offset pc 1: as in every CIE of x86-64. */
static const uint8_t common[] = { 0x0c, 7, 8, SAVED_PC, 1 };

static struct fgt_cfi_rule rule_of(const uint8_t *instructions, size_t len)
{
	return (struct fgt_cfi_rule){
		.start = START,
		.end = END,
		.code_align = 1,
		.data_align = -8,
		.return_column = PC_COLUMN,
		.common = common,
		.common_len = sizeof(common),
		.instructions = instructions,
		.instructions_len = len,
	};
}

/* Reads a copy at the end of a block, so that a sanitizer sees reads past
 * it. */
static int read_row(struct fgt_cfi_rule rule, uint64_t address,
		    struct fgt_cfi_row *ret_row)
{
	uint8_t *copy = malloc(rule.instructions_len + 1);
	int r;

	assert_non_null(copy);
	if (rule.instructions_len)
		memcpy(copy + 1, rule.instructions, rule.instructions_len);
	rule.instructions = copy + 1;
	r = fgt_cfi_row_read(&rule, address, ret_row);
	free(copy);
	return r;
}

static void check_row(const struct fgt_cfi_row *row, uint8_t flags,
		      int32_t cfa_offset, int16_t fp_offset)
{
	assert_int_equal(row->flags, flags);
	assert_int_equal(row->cfa_offset, cfa_offset);
	assert_int_equal(row->fp_offset, fp_offset);
	assert_int_equal(row->pc_words, -1);
}

#define ROW_AT(address, ret_row, ...)                                          \
	read_row(rule_of(BYTES(__VA_ARGS__), sizeof(BYTES(__VA_ARGS__))),      \
		 address, ret_row)

static void a_prologue_has_a_row_per_push(void **state)
{
	static const uint8_t code[] = {
		ADVANCE(1), 0x0e, 16,	SAVED_FP, 2, /* push %rbp */
		ADVANCE(3), 0x0d, 6, /* mov %rsp, %rbp */
		ADVANCE(9), 0x83, 3, /* push %rbx */
		ADVANCE(5), 0xc6, 0x0c, 7,	  8, /* leave */
	};
	const struct fgt_cfi_rule rule = rule_of(code, sizeof(code));
	struct fgt_cfi_row row;

	(void)state;
	assert_int_equal(read_row(rule, START, &row), 0);
	check_row(&row, 0, 8, 0);
	assert_int_equal(read_row(rule, START + 1, &row), 0);
	check_row(&row, FGT_CFI_ROW_FP_SAVED, 16, -16);
	assert_int_equal(read_row(rule, START + 3, &row), 0);
	check_row(&row, FGT_CFI_ROW_FP_SAVED, 16, -16);
	for (uint64_t address = START + 4; address < START + 13; address++) {
		assert_int_equal(read_row(rule, address, &row), 0);
		check_row(&row, FGT_CFI_ROW_FP_BASED | FGT_CFI_ROW_FP_SAVED, 16,
			  -16);
	}
	assert_int_equal(read_row(rule, START + 13, &row), 0);
	check_row(&row,
		  FGT_CFI_ROW_FP_BASED | FGT_CFI_ROW_FP_SAVED |
			  FGT_CFI_ROW_OTHERS_SAVED,
		  16, -16);
	assert_int_equal(read_row(rule, START + 18, &row), 0);
	check_row(&row, FGT_CFI_ROW_OTHERS_SAVED, 8, 0);
	assert_int_equal(read_row(rule, END - 1, &row), 0);
	check_row(&row, FGT_CFI_ROW_OTHERS_SAVED, 8, 0);
}

static void locations_advance_in_all_sizes(void **state)
{
	static const uint8_t code[] = {
		0x02, 0x80, 0x0e, 16, /* 0x80: one byte */
		0x03, 0x00, 0x01, 0x0e, 24, /* 0x100: two */
		0x04, 0x00, 0x02, 0x00, 0x00, 0x0e, 32, /* 0x200: four */
	};
	struct fgt_cfi_rule rule = rule_of(code, sizeof(code));
	struct fgt_cfi_row row;

	(void)state;
	assert_int_equal(read_row(rule, START + 0x7f, &row), 0);
	assert_int_equal(row.cfa_offset, 8);
	assert_int_equal(read_row(rule, START + 0x80, &row), 0);
	assert_int_equal(row.cfa_offset, 16);
	assert_int_equal(read_row(rule, START + 0x17f, &row), 0);
	assert_int_equal(row.cfa_offset, 16);
	assert_int_equal(read_row(rule, START + 0x180, &row), 0);
	assert_int_equal(row.cfa_offset, 24);
	assert_int_equal(read_row(rule, START + 0x380, &row), 0);
	assert_int_equal(row.cfa_offset, 32);
	/* In units of the code alignment. */
	rule.code_align = 4;
	assert_int_equal(read_row(rule, START + 0x1ff, &row), 0);
	assert_int_equal(row.cfa_offset, 8);
	assert_int_equal(read_row(rule, START + 0x200, &row), 0);
	assert_int_equal(row.cfa_offset, 16);
}

static void states_are_remembered_with_their_cfa(void **state)
{
	static const uint8_t code[] = {
		0x0e,	    16,		SAVED_FP,
		2,	    ADVANCE(4), 0x0a, /* remember */
		0xc6,	    0x0e,	8, /* restore rbp: ret follows */
		ADVANCE(4), 0x0b, /* restore the state */
		0x0a,	    ADVANCE(4), 0x0d,
		6,	    ADVANCE(4), 0x0b,
	};
	const struct fgt_cfi_rule rule = rule_of(code, sizeof(code));
	struct fgt_cfi_row row;

	(void)state;
	assert_int_equal(read_row(rule, START + 4, &row), 0);
	check_row(&row, 0, 8, 0);
	assert_int_equal(read_row(rule, START + 8, &row), 0);
	check_row(&row, FGT_CFI_ROW_FP_SAVED, 16, -16);
	assert_int_equal(read_row(rule, START + 12, &row), 0);
	check_row(&row, FGT_CFI_ROW_FP_SAVED | FGT_CFI_ROW_FP_BASED, 16, -16);
	assert_int_equal(read_row(rule, START + 16, &row), 0);
	check_row(&row, FGT_CFI_ROW_FP_SAVED, 16, -16);
}

static void every_way_to_write_an_offset_is_read(void **state)
{
	struct fgt_cfi_row row;

	(void)state;
	/* offset_extended, offset_extended_sf, of rbp */
	assert_int_equal(ROW_AT(START, &row, 0x05, 6, 3), 0);
	check_row(&row, FGT_CFI_ROW_FP_SAVED, 8, -24);
	assert_int_equal(ROW_AT(START, &row, 0x11, 6, 0x7e), 0);
	check_row(&row, FGT_CFI_ROW_FP_SAVED, 8, 16);
	/* restore_extended, same_value; undefined counts as unchanged */
	assert_int_equal(ROW_AT(START, &row, SAVED_FP, 2, 0x06, 6), 0);
	check_row(&row, 0, 8, 0);
	assert_int_equal(ROW_AT(START, &row, SAVED_FP, 2, 0x08, 6), 0);
	check_row(&row, 0, 8, 0);
	assert_int_equal(ROW_AT(START, &row, SAVED_FP, 2, 0x07, 6), 0);
	check_row(&row, 0, 8, 0);
	/* def_cfa, def_cfa_sf, def_cfa_register, def_cfa_offset(_sf) */
	assert_int_equal(ROW_AT(START, &row, 0x0c, 6, 0x90, 0x01), 0);
	check_row(&row, FGT_CFI_ROW_FP_BASED, 144, 0);
	assert_int_equal(ROW_AT(START, &row, 0x12, 6, 0x7e), 0);
	check_row(&row, FGT_CFI_ROW_FP_BASED, 16, 0);
	assert_int_equal(ROW_AT(START, &row, 0x0d, 6, 0x0e, 32), 0);
	check_row(&row, FGT_CFI_ROW_FP_BASED, 32, 0);
	assert_int_equal(ROW_AT(START, &row, 0x13, 0x7d), 0);
	check_row(&row, 0, 24, 0);
	/* GNU_args_size and nop change nothing */
	assert_int_equal(ROW_AT(START, &row, 0x2e, 0x90, 0x01, 0x00), 0);
	check_row(&row, 0, 8, 0);
}

static void other_registers_are_only_noticed(void **state)
{
	struct fgt_cfi_row row;

	(void)state;
	/* offset, register, val_offset, undefined, expressions: of rbx */
	assert_int_equal(ROW_AT(START, &row, 0x83, 3), 0);
	check_row(&row, FGT_CFI_ROW_OTHERS_SAVED, 8, 0);
	assert_int_equal(ROW_AT(START, &row, 0x09, 3, 12), 0);
	check_row(&row, FGT_CFI_ROW_OTHERS_SAVED, 8, 0);
	assert_int_equal(ROW_AT(START, &row, 0x14, 3, 2), 0);
	check_row(&row, FGT_CFI_ROW_OTHERS_SAVED, 8, 0);
	assert_int_equal(ROW_AT(START, &row, 0x15, 3, 0x7e), 0);
	check_row(&row, FGT_CFI_ROW_OTHERS_SAVED, 8, 0);
	assert_int_equal(ROW_AT(START, &row, 0x07, 3), 0);
	check_row(&row, FGT_CFI_ROW_OTHERS_SAVED, 8, 0);
	assert_int_equal(ROW_AT(START, &row, 0x10, 3, 2, 0x77, 0x08), 0);
	check_row(&row, FGT_CFI_ROW_OTHERS_SAVED, 8, 0);
	assert_int_equal(ROW_AT(START, &row, 0x16, 3, 2, 0x77, 0x08), 0);
	check_row(&row, FGT_CFI_ROW_OTHERS_SAVED, 8, 0);
	/* and forgotten where they are restored */
	assert_int_equal(ROW_AT(START, &row, 0x83, 3, 0xc3), 0);
	check_row(&row, 0, 8, 0);
	/* no register at all */
	assert_int_equal(ROW_AT(START, &row, 0x05, 0xff, 0x7f, 3), 0);
	check_row(&row, 0, 8, 0);
}

static void a_root_has_no_return_address(void **state)
{
	struct fgt_cfi_row row;

	(void)state;
	assert_int_equal(ROW_AT(START, &row, 0x07, PC_COLUMN), 0);
	assert_int_equal(row.flags, FGT_CFI_ROW_ROOT);
}

/* What linkers write for .plt, from the second entry on. */
static void the_expression_of_a_plt_is_known(void **state)
{
	static const uint8_t code[] = {
		0x0e, 16,   ADVANCE(6), 0x0e, 24,   ADVANCE(10), /* PLT0 */
		0x0f, 11,   0x77,	8,    0x80, 0,		 0x3f,
		0x1a, 0x3b, 0x2a,	0x33, 0x24, 0x22,
	};
	struct fgt_cfi_rule rule = rule_of(code, sizeof(code));
	uint8_t other[sizeof(code)];
	struct fgt_cfi_row row;

	(void)state;
	assert_int_equal(read_row(rule, START, &row), 0);
	check_row(&row, 0, 16, 0);
	assert_int_equal(read_row(rule, START + 6, &row), 0);
	check_row(&row, 0, 24, 0);
	for (uint64_t at = 16; at < 64; at++) {
		assert_int_equal(read_row(rule, START + at, &row), 0);
		check_row(&row, 0, at % 16 >= 11 ? 16 : 8, 0);
	}
	/* Any other byte, and it is another expression. */
	for (size_t i = 8; i < sizeof(code); i++) {
		memcpy(other, code, sizeof(code));
		other[i] ^= 0x40;
		rule = rule_of(other, sizeof(other));
		assert_int_equal(read_row(rule, START + 16, &row), -ENOTSUP);
	}
}

static void rule_that_no_row_can_hold_is_refused(void **state)
{
	struct fgt_cfi_rule rule;
	struct fgt_cfi_row row = { .flags = 0xee };

	(void)state;
	/* def_cfa_expression, also where a later row would do */
	assert_int_equal(ROW_AT(START, &row, 0x0f, 2, 0x77, 8), -ENOTSUP);
	assert_int_equal(
		ROW_AT(START, &row, 0x0f, 2, 0x77, 8, ADVANCE(4), 0x0c, 7, 8),
		-ENOTSUP);
	assert_int_equal(ROW_AT(START + 4, &row, 0x0f, 2, 0x77, 8, ADVANCE(4),
				0x0c, 7, 8),
			 0);
	/* CFA by rbx; frame pointer or return address by expression, register,
	 * value; SP that is not the CFA */
	assert_int_equal(ROW_AT(START, &row, 0x0d, 3), -ENOTSUP);
	assert_int_equal(ROW_AT(START, &row, 0x10, 6, 2, 0x76, 0), -ENOTSUP);
	assert_int_equal(ROW_AT(START, &row, 0x09, 6, 3), -ENOTSUP);
	assert_int_equal(ROW_AT(START, &row, 0x14, 6, 2), -ENOTSUP);
	assert_int_equal(ROW_AT(START, &row, 0x16, 16, 2, 0x76, 0), -ENOTSUP);
	assert_int_equal(ROW_AT(START, &row, 0x09, 16, 3), -ENOTSUP);
	assert_int_equal(ROW_AT(START, &row, 0x08, 16), -ENOTSUP);
	assert_int_equal(ROW_AT(START, &row, 0x87, 2), -ENOTSUP);
	/* set_loc, pointer authentication, what does not exist */
	assert_int_equal(ROW_AT(START, &row, 0x01, 0), -ENOTSUP);
	assert_int_equal(ROW_AT(START, &row, 0x2d), -ENOTSUP);
	assert_int_equal(ROW_AT(START, &row, 0x3f), -ENOTSUP);
	/* offsets that do not fit */
	assert_int_equal(ROW_AT(START, &row, SAVED_FP, 0x81, 0x20), -ENOTSUP);
	assert_int_equal(ROW_AT(START, &row, 0x0e, 0x80, 0x80, 0x80, 0x80, 8),
			 -ENOTSUP);
	assert_int_equal(ROW_AT(START, &row, SAVED_PC, 0x81, 0x01), -ENOTSUP);
	rule = rule_of(NULL, 0);
	rule.is_signal_frame = true;
	assert_int_equal(read_row(rule, START, &row), -ENOTSUP);
	rule.is_signal_frame = false;
	rule.return_column = fgt_arch_host.fp;
	assert_int_equal(read_row(rule, START, &row), -ENOTSUP);
	rule.return_column = 1000;
	assert_int_equal(read_row(rule, START, &row), -ENOTSUP);
}

static void broken_instructions_are_refused(void **state)
{
	uint8_t remember[64];
	struct fgt_cfi_row row = { .flags = 0xee };
	struct fgt_cfi_rule rule;
	uint8_t *nops;

	(void)state;
	assert_int_equal(ROW_AT(START, &row, 0x0e), -EBADMSG);
	assert_int_equal(ROW_AT(START, &row, 0x0e, 0x80), -EBADMSG);
	assert_int_equal(ROW_AT(START, &row, 0x04, 1, 2), -EBADMSG);
	assert_int_equal(ROW_AT(START, &row, 0x0b), -EBADMSG);
	assert_int_equal(ROW_AT(START, &row, 0x10, 3, 200, 1), -EBADMSG);
	/* half of a CFA that is an expression */
	assert_int_equal(ROW_AT(START, &row, 0x0f, 2, 0x77, 8, 0x0e, 8),
			 -EBADMSG);
	memset(remember, 0x0a, sizeof(remember));
	assert_int_equal(
		read_row(rule_of(remember, sizeof(remember)), START, &row),
		-EBADMSG);
	/* a location that wraps, a function in a CIE, endless nops */
	rule = rule_of(BYTES(0x04, 0xff, 0xff, 0xff, 0xff), 5);
	rule.code_align = UINT64_MAX;
	assert_int_equal(read_row(rule, START, &row), -EBADMSG);
	rule = rule_of(NULL, 0);
	rule.common = BYTES(ADVANCE(1));
	rule.common_len = 1;
	assert_int_equal(read_row(rule, START, &row), -ENOTSUP);
	nops = calloc(1, 1u << 20);
	assert_non_null(nops);
	assert_int_equal(read_row(rule_of(nops, 1u << 20), START, &row),
			 -ENOTSUP);
	free(nops);
	/* nothing was written */
	assert_int_equal(row.flags, 0xee);
}

static void rows_are_kept_by_file_and_address(void **state)
{
	struct fgt_cfi_row row = { .cfa_offset = 24 };
	const struct fgt_cfi_row *found;
	struct fgt_cfi_rows *rows;

	(void)state;
	assert_int_equal(fgt_cfi_rows_new(&rows), 0);
	assert_null(fgt_cfi_rows_find(rows, SERIAL, START));
	fgt_cfi_rows_put(rows, SERIAL, START, &row);
	found = fgt_cfi_rows_find(rows, SERIAL, START);
	assert_non_null(found);
	assert_memory_equal(found, &row, sizeof(row));
	assert_null(fgt_cfi_rows_find(rows, SERIAL, START + 1));
	assert_null(fgt_cfi_rows_find(rows, SERIAL + 1, START));
	/* What does not fit a slot is not kept, nor taken for another. */
	fgt_cfi_rows_put(rows, SERIAL, 1ull << 32 | 5, &row);
	assert_null(fgt_cfi_rows_find(rows, SERIAL, 1ull << 32 | 5));
	assert_null(fgt_cfi_rows_find(rows, SERIAL, 5));
	fgt_cfi_rows_put(rows, 1ull << 32 | SERIAL, 6, &row);
	assert_null(fgt_cfi_rows_find(rows, 1ull << 32 | SERIAL, 6));
	assert_null(fgt_cfi_rows_find(rows, SERIAL, 6));
	assert_int_equal(rows->used * sizeof(struct fgt_cfi_slot), 16);
	row.cfa_offset = 32;
	fgt_cfi_rows_put(rows, SERIAL, START, &row);
	found = fgt_cfi_rows_find(rows, SERIAL, START);
	assert_non_null(found);
	assert_int_equal(found->cfa_offset, 32);
	assert_int_equal(rows->used * sizeof(struct fgt_cfi_slot), 16);
	fgt_cfi_rows_free(rows);
}

/* Every row that is found is the right one, for any number of rows. */
static void rows_never_grow_beyond_their_bound(void **state)
{
	struct fgt_cfi_rows *rows;
	size_t kept = 0;

	(void)state;
	assert_int_equal(fgt_cfi_rows_new(&rows), 0);
	for (uint32_t i = 0; i < 4 * ROWS_MAX; i++) {
		struct fgt_cfi_row row = { .cfa_offset = (int32_t)i };

		fgt_cfi_rows_put(rows, 1 + i % 3, i, &row);
		assert_non_null(fgt_cfi_rows_find(rows, 1 + i % 3, i));
	}
	for (uint32_t i = 0; i < 4 * ROWS_MAX; i++) {
		const struct fgt_cfi_row *row =
			fgt_cfi_rows_find(rows, 1 + i % 3, i);

		kept += row != NULL;
		if (row)
			assert_int_equal(row->cfa_offset, i);
	}
	assert_true(kept <= ROWS_MAX && kept > ROWS_MAX * 9 / 10);
	assert_int_equal(rows->used * sizeof(struct fgt_cfi_slot), kept * 16);
	assert_true(rows->used * sizeof(struct fgt_cfi_slot) <=
		    FGT_CFI_ROWS_BYTES_MAX);
	fgt_cfi_rows_free(rows);
}

/* Rows share a page even where their code is far apart. */
static void few_rows_lie_in_one_page(void **state)
{
	struct fgt_cfi_row row = { .cfa_offset = 8 };
	struct fgt_cfi_rows *rows;
	size_t last_set = 0;

	(void)state;
	assert_int_equal(fgt_cfi_rows_new(&rows), 0);
	for (uint32_t i = 0; i < ROWS_FEW; i++)
		fgt_cfi_rows_put(rows, 1 + i % 3, i * 0x54321, &row);
	for (size_t i = 0; i < sizeof(rows->sets) / sizeof(rows->sets[0]); i++)
		for (size_t j = 0; j < FGT_CFI_ROWS_SLOTS; j++)
			if (rows->sets[i].slots[j].serial)
				last_set = i;
	assert_true(last_set < 4096 / sizeof(rows->sets[0]));
	fgt_cfi_rows_free(rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_prologue_has_a_row_per_push),
		cmocka_unit_test(locations_advance_in_all_sizes),
		cmocka_unit_test(states_are_remembered_with_their_cfa),
		cmocka_unit_test(every_way_to_write_an_offset_is_read),
		cmocka_unit_test(other_registers_are_only_noticed),
		cmocka_unit_test(a_root_has_no_return_address),
		cmocka_unit_test(the_expression_of_a_plt_is_known),
		cmocka_unit_test(rule_that_no_row_can_hold_is_refused),
		cmocka_unit_test(broken_instructions_are_refused),
		cmocka_unit_test(rows_are_kept_by_file_and_address),
		cmocka_unit_test(rows_never_grow_beyond_their_bound),
		cmocka_unit_test(few_rows_lie_in_one_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
