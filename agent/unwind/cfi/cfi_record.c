/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks call frame instructions (DWARF 5 section 6.4.2) and writes them as
 * records. Runs in any thread on bytes in memory.
 */
#include "agent/unwind/cfi/cfi_table.h"

#include <errno.h>
#include <string.h>

#include "agent/unwind/arch/arch.h"
#include "agent/unwind/cfi/cfi_entry.h"

#define REMEMBER_DEPTH_MAX 32
#define EXPRESSION_MAX	   512u

/* Operands of an instruction. */
enum operand {
	NONE,
	BYTES_1,
	BYTES_2,
	BYTES_4,
	NUMBER, /* with or without a sign: as long */
	REG,
	REG_NUMBER,
	REG_REG,
	BLOCK,
	REG_BLOCK,
	REFUSED,
};

static enum operand operand_of(uint8_t opcode)
{
	static const uint8_t operands[] = {
		[FGT_CFA_NOP] = NONE,
		[0x01] = REFUSED, /* set_loc: nothing emits it */
		[FGT_CFA_ADVANCE_LOC1] = BYTES_1,
		[FGT_CFA_ADVANCE_LOC2] = BYTES_2,
		[FGT_CFA_ADVANCE_LOC4] = BYTES_4,
		[FGT_CFA_OFFSET_EXTENDED] = REG_NUMBER,
		[FGT_CFA_RESTORE_EXTENDED] = REG,
		[FGT_CFA_UNDEFINED] = REG,
		[FGT_CFA_SAME_VALUE] = REG,
		[FGT_CFA_REGISTER] = REG_REG,
		[FGT_CFA_REMEMBER_STATE] = NONE,
		[FGT_CFA_RESTORE_STATE] = NONE,
		[FGT_CFA_DEF_CFA] = REG_NUMBER,
		[FGT_CFA_DEF_CFA_REGISTER] = REG,
		[FGT_CFA_DEF_CFA_OFFSET] = NUMBER,
		[FGT_CFA_DEF_CFA_EXPRESSION] = BLOCK,
		[FGT_CFA_EXPRESSION] = REG_BLOCK,
		[FGT_CFA_OFFSET_EXTENDED_SF] = REG_NUMBER,
		[FGT_CFA_DEF_CFA_SF] = REG_NUMBER,
		[FGT_CFA_DEF_CFA_OFFSET_SF] = NUMBER,
		[FGT_CFA_VAL_OFFSET] = REG_NUMBER,
		[FGT_CFA_VAL_OFFSET_SF] = REG_NUMBER,
		[FGT_CFA_VAL_EXPRESSION] = REG_BLOCK,
	};

	if (opcode >= FGT_CFA_ADVANCE_LOC)
		return (opcode & 0xc0) == FGT_CFA_OFFSET ? NUMBER : NONE;
	if (opcode == FGT_CFA_GNU_ARGS_SIZE)
		return NUMBER;
	if (opcode == FGT_CFA_AARCH64_NEGATE_RA_STATE)
		return NONE;
	return opcode < sizeof(operands) ? operands[opcode] : REFUSED;
}

/* Steps over one operation of an expression. False: not allowed. */
static bool check_operation(struct fgt_cfi_cursor *cursor)
{
	uint8_t op = fgt_cfi_read_u8(cursor), size;

	switch (op) {
	case 0x03: /* addr */
	case 0x0e: /* const8u, const8s */
	case 0x0f:
		fgt_cfi_skip(cursor, 8);
		return true;
	case 0x08: /* const1u, const1s */
	case 0x09:
	case 0x15: /* pick */
		fgt_cfi_skip(cursor, 1);
		return true;
	case 0x0a: /* const2u, const2s */
	case 0x0b:
		fgt_cfi_skip(cursor, 2);
		return true;
	case 0x0c: /* const4u, const4s */
	case 0x0d:
		fgt_cfi_skip(cursor, 4);
		return true;
	case 0x10: /* constu, consts, plus_uconst */
	case 0x11:
	case 0x23:
		fgt_cfi_read_uleb(cursor);
		return true;
	case 0x94: /* deref_size */
		size = fgt_cfi_read_u8(cursor);
		return size == 1 || size == 2 || size == 4 || size == 8;
	case 0x1b: /* div: the lowest number by -1 traps */
	case 0x1d: /* mod */
	case 0x28: /* bra, skip: may never end */
	case 0x2f:
		return false;
	default:
		break;
	}
	if (op >= 0x70 && op <= 0x8f) { /* breg */
		fgt_cfi_read_sleb(cursor);
		return op - 0x70u < fgt_arch_host.reg_count;
	}
	/* deref, stack and arithmetic operations, literals, nop */
	return op == 0x06 || (op >= 0x12 && op <= 0x2e && op != 0x18) ||
	       (op >= 0x30 && op <= 0x4f) || op == 0x96;
}

static bool check_expression(struct fgt_cfi_cursor *cursor)
{
	uint64_t len = fgt_cfi_read_uleb(cursor);
	struct fgt_cfi_cursor block = *cursor;

	fgt_cfi_skip(cursor, len);
	if (cursor->is_bad || len > EXPRESSION_MAX)
		return false;
	block.end = cursor->at;
	while (block.at < block.end && !block.is_bad)
		if (!check_operation(&block))
			return false;
	return !block.is_bad;
}

/* Reads the operands; *ret_reg is the register that is changed, if any. */
static bool check_operands(struct fgt_cfi_cursor *cursor, enum operand operand,
			   uint64_t *ret_reg)
{
	switch (operand) {
	case NONE:
		return true;
	case BYTES_1:
	case BYTES_2:
	case BYTES_4:
		fgt_cfi_skip(cursor, 1u << (operand - BYTES_1));
		return true;
	case NUMBER:
		fgt_cfi_read_uleb(cursor);
		return true;
	case REG:
		*ret_reg = fgt_cfi_read_uleb(cursor);
		return true;
	case REG_NUMBER:
		*ret_reg = fgt_cfi_read_uleb(cursor);
		fgt_cfi_read_uleb(cursor);
		return true;
	case REG_REG:
		*ret_reg = fgt_cfi_read_uleb(cursor);
		return fgt_cfi_read_uleb(cursor) < fgt_arch_host.reg_count;
	case REG_BLOCK:
		*ret_reg = fgt_cfi_read_uleb(cursor);
		return check_expression(cursor);
	case BLOCK:
		return check_expression(cursor);
	case REFUSED:
		break;
	}
	return false;
}

struct checker {
	uint8_t *copy; /* where the instructions were copied to */
	int depth; /* of remember_state */
	bool has_expressions;
};

static bool is_cfa_opcode(uint8_t opcode)
{
	return opcode == FGT_CFA_DEF_CFA ||
	       opcode == FGT_CFA_DEF_CFA_REGISTER ||
	       opcode == FGT_CFA_DEF_CFA_SF;
}

/* One instruction at cursor, which runs over the copy. */
static int check_instruction(struct checker *checker,
			     struct fgt_cfi_cursor *cursor)
{
	uint8_t *first =
		checker->copy + (cursor->at - (const uint8_t *)checker->copy);
	uint8_t opcode = fgt_cfi_read_u8(cursor);
	enum operand operand = operand_of(opcode);
	uint64_t reg = 0;

	if (opcode >= FGT_CFA_OFFSET)
		reg = opcode & 0x3f;
	if (!check_operands(cursor, operand, &reg) || cursor->is_bad)
		return -EBADMSG;
	if (opcode == FGT_CFA_REMEMBER_STATE &&
	    ++checker->depth > REMEMBER_DEPTH_MAX)
		return -EBADMSG;
	if (opcode == FGT_CFA_RESTORE_STATE && --checker->depth < 0)
		return -EBADMSG;
	if (operand == BLOCK || operand == REG_BLOCK)
		checker->has_expressions = true;
	if (reg >= fgt_arch_host.reg_count) {
		if (is_cfa_opcode(opcode))
			return -EBADMSG;
		/* A vector register: no rule needs it. */
		memset(first, FGT_CFA_NOP, (size_t)(cursor->at - first));
	}
	if (opcode == FGT_CFA_UNDEFINED && reg == fgt_arch_host.fp)
		*first = FGT_CFA_SAME_VALUE;
	return 0;
}

static int check_instructions(struct checker *checker, size_t len)
{
	struct fgt_cfi_cursor cursor = {
		.at = checker->copy,
		.end = checker->copy + len,
	};
	int r;

	while (cursor.at < cursor.end) {
		r = check_instruction(checker, &cursor);
		if (r < 0)
			return r;
	}
	return 0;
}

struct record_writer {
	uint8_t *at, *end;
	bool is_full;
};

static void put(struct record_writer *writer, const void *bytes, size_t len)
{
	if ((size_t)(writer->end - writer->at) < len) {
		writer->is_full = true;
		return;
	}
	memcpy(writer->at, bytes, len);
	writer->at += len;
}

static void put_u8(struct record_writer *writer, uint8_t value)
{
	put(writer, &value, sizeof(value));
}

static void put_u32(struct record_writer *writer, uint32_t value)
{
	put(writer, &value, sizeof(value));
}

/* Always ten bytes: padded LEB128 is valid, and -1 needs no other case. */
static void put_sleb(struct record_writer *writer, int64_t value)
{
	for (int i = 0; i < 9; i++) {
		put_u8(writer, (uint8_t)((value & 0x7f) | 0x80));
		value >>= 7;
	}
	put_u8(writer, (uint8_t)(value & 0x7f));
}

/* The record's length goes into its first word, which the caller put. */
static void end_record(struct record_writer *writer, uint8_t *first)
{
	uint32_t len;

	while (!writer->is_full && (writer->at - first) % 8)
		put_u8(writer, FGT_CFA_NOP);
	len = (uint32_t)(writer->at - first - 4);
	if (!writer->is_full)
		memcpy(first, &len, sizeof(len));
}

/* Copies instructions and checks the copy. */
static int put_instructions(struct record_writer *writer,
			    struct checker *checker,
			    const uint8_t *instructions, size_t len)
{
	checker->copy = writer->at;
	put(writer, instructions, len);
	return writer->is_full ? -ENOSPC : check_instructions(checker, len);
}

int fgt_cfi_record_write(const struct fgt_cfi_rule *rule, uint8_t *buffer,
			 size_t size, struct fgt_cfi_record *ret_record)
{
	struct record_writer writer = { .at = buffer, .end = buffer + size };
	const char *letters = rule->is_signal_frame ? "zRS" : "zR";
	struct checker checker = { .depth = 0 };
	uint64_t len = rule->end - rule->start;
	uint8_t *fde;
	int r;

	if (rule->code_align > INT32_MAX || rule->data_align > INT32_MAX ||
	    rule->data_align < INT32_MIN ||
	    rule->return_column >= fgt_arch_host.reg_count)
		return -EBADMSG;
	put_u32(&writer, 0); /* length: end_record */
	put_u32(&writer, 0); /* a CIE */
	put_u8(&writer, 1); /* version */
	put(&writer, letters, strlen(letters) + 1);
	put_sleb(&writer, (int64_t)rule->code_align);
	put_sleb(&writer, rule->data_align);
	put_u8(&writer, (uint8_t)rule->return_column);
	put_u8(&writer, 1); /* bytes of augmentation: */
	put_u8(&writer, 0); /* R: absolute addresses */
	r = put_instructions(&writer, &checker, rule->common, rule->common_len);
	if (r < 0)
		return r;
	end_record(&writer, buffer);
	fde = writer.at;
	put_u32(&writer, 0);
	put_u32(&writer, (uint32_t)(fde + 4 - buffer));
	put(&writer, &rule->start, sizeof(rule->start));
	put(&writer, &len, sizeof(len));
	put_u8(&writer, 0); /* no augmentation */
	r = put_instructions(&writer, &checker, rule->instructions,
			     rule->instructions_len);
	if (r < 0)
		return r;
	end_record(&writer, fde);
	if (writer.is_full)
		return -ENOSPC;
	ret_record->len = (size_t)(writer.at - buffer);
	ret_record->fde_at = (size_t)(fde - buffer);
	ret_record->has_expressions = checker.has_expressions;
	return 0;
}

unsigned int fgt_cfi_rule_count_saved(const struct fgt_cfi_rule *rule)
{
	struct fgt_cfi_cursor cursor = {
		.at = rule->instructions,
		.end = rule->instructions + rule->instructions_len,
	};
	uint64_t saved = 0;

	while (cursor.at < cursor.end && !cursor.is_bad) {
		uint8_t opcode = fgt_cfi_read_u8(&cursor);
		uint64_t reg = opcode & 0x3f;

		if (!check_operands(&cursor, operand_of(opcode), &reg))
			break;
		if (((opcode & 0xc0) == FGT_CFA_OFFSET ||
		     opcode == FGT_CFA_OFFSET_EXTENDED) &&
		    reg < fgt_arch_host.reg_count)
			saved |= 1ull << reg;
	}
	saved &= ~(1ull << fgt_arch_host.fp | 1ull << rule->return_column);
	return (unsigned int)__builtin_popcountll(saved);
}
