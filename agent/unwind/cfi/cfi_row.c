/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interprets call frame instructions (DWARF 5 section 6.4.2) for three
 * registers. Not libdw's dwarf_cfi_addrframe, which allocates for every address
 * and trusts a target's file. Runs in any thread on bytes in memory; must end
 * after a bounded number of steps.
 */
#include "agent/unwind/cfi/cfi_rows.h"

#include <errno.h>

#include "agent/unwind/arch/arch.h"
#include "agent/unwind/cfi/cfi_entry.h"

#define REMEMBER_DEPTH_MAX 32u
/* Real functions have some hundred; as many as cfi_step.c copies. */
#define INSTRUCTIONS_MAX (40u * 1024)
#define REACHED		 1 /* the next instruction is for later addresses */

enum place_kind {
	UNCHANGED,
	UNDEFINED,
	SAVED, /* at CFA + offset */
	ELSEWHERE, /* another register, an expression */
};

struct saved_place {
	enum place_kind kind;
	int64_t offset;
};

/* One row of the table that the instructions write. */
struct columns {
	uint64_t cfa_reg;
	int64_t cfa_offset;
	bool is_cfa_simple; /* a register and an offset */
	struct saved_place pc, fp, sp;
	uint64_t others; /* bit n: register n is not unchanged */
};

struct interpreter {
	const struct fgt_cfi_rule *rule;
	struct fgt_cfi_cursor cursor;
	uint64_t wanted, location; /* location: where now begins */
	bool is_common; /* in the CIE */
	struct columns now, initial;
	struct columns remembered[REMEMBER_DEPTH_MAX];
	unsigned int depth;
};

/* Wraps: the end result is checked for its range. */
static int64_t scale(const struct interpreter *in, uint64_t factored)
{
	return (int64_t)(factored * (uint64_t)in->rule->data_align);
}

static struct saved_place *place_of(const struct interpreter *in,
				    struct columns *columns, uint64_t reg)
{
	if (reg == in->rule->return_column)
		return &columns->pc;
	if (reg == fgt_arch_host.fp)
		return &columns->fp;
	return reg == fgt_arch_host.sp ? &columns->sp : NULL;
}

static void set_place(struct interpreter *in, uint64_t reg,
		      enum place_kind kind, int64_t offset)
{
	struct saved_place *place = place_of(in, &in->now, reg);

	if (place)
		*place = (struct saved_place){ kind, offset };
	else if (reg < 64 && kind == UNCHANGED)
		in->now.others &= ~(1ull << reg);
	else if (reg < 64)
		in->now.others |= 1ull << reg;
}

static void restore_place(struct interpreter *in, uint64_t reg)
{
	struct saved_place *place = place_of(in, &in->now, reg);

	if (place)
		*place = *place_of(in, &in->initial, reg);
	else if (reg < 64)
		in->now.others = (in->now.others & ~(1ull << reg)) |
				 (in->initial.others & 1ull << reg);
}

static int advance(struct interpreter *in, uint64_t delta)
{
	uint64_t next;

	/* Addresses belong to functions. */
	if (in->is_common)
		return -ENOTSUP;
	if (__builtin_mul_overflow(delta, in->rule->code_align, &next) ||
	    __builtin_add_overflow(next, in->location, &next))
		return -EBADMSG;
	if (next > in->wanted)
		return REACHED;
	in->location = next;
	return 0;
}

static int remember(struct interpreter *in)
{
	if (in->depth == REMEMBER_DEPTH_MAX)
		return -EBADMSG;
	in->remembered[in->depth++] = in->now;
	return 0;
}

static int recall(struct interpreter *in)
{
	if (!in->depth)
		return -EBADMSG;
	in->now = in->remembered[--in->depth];
	return 0;
}

static void set_cfa(struct interpreter *in, uint64_t reg, int64_t offset)
{
	in->now.cfa_reg = reg;
	in->now.cfa_offset = offset;
	in->now.is_cfa_simple = true;
}

static void set_cfa_expression(struct interpreter *in)
{
	uint64_t len = fgt_cfi_read_uleb(&in->cursor);
	const uint8_t *expression = in->cursor.at;
	int64_t offset;

	fgt_cfi_skip(&in->cursor, len);
	in->now.is_cfa_simple = false;
	/* Every call of a library starts in a PLT, so its expression is known
	 * here. */
	if (!in->cursor.is_bad && fgt_arch_host.plt_cfa &&
	    fgt_arch_host.plt_cfa(expression, len, in->wanted, &offset))
		set_cfa(in, fgt_arch_host.sp, offset);
}

/* Instructions that define the CFA. */
static int run_cfa(struct interpreter *in, uint8_t opcode)
{
	struct fgt_cfi_cursor *cursor = &in->cursor;
	uint64_t reg;

	switch (opcode) {
	case FGT_CFA_DEF_CFA:
		reg = fgt_cfi_read_uleb(cursor);
		set_cfa(in, reg, (int64_t)fgt_cfi_read_uleb(cursor));
		return 0;
	case FGT_CFA_DEF_CFA_SF:
		reg = fgt_cfi_read_uleb(cursor);
		set_cfa(in, reg,
			scale(in, (uint64_t)fgt_cfi_read_sleb(cursor)));
		return 0;
	case FGT_CFA_DEF_CFA_EXPRESSION:
		set_cfa_expression(in);
		return 0;
	default:
		break;
	}
	/* The rest changes half of a simple one. */
	if (!in->now.is_cfa_simple)
		return -EBADMSG;
	if (opcode == FGT_CFA_DEF_CFA_REGISTER)
		in->now.cfa_reg = fgt_cfi_read_uleb(cursor);
	else if (opcode == FGT_CFA_DEF_CFA_OFFSET)
		in->now.cfa_offset = (int64_t)fgt_cfi_read_uleb(cursor);
	else if (opcode == FGT_CFA_DEF_CFA_OFFSET_SF)
		in->now.cfa_offset =
			scale(in, (uint64_t)fgt_cfi_read_sleb(cursor));
	else
		return -ENOTSUP; /* unknown: its operands are, too */
	return 0;
}

/* Instructions that set where a register is. */
static int run_register(struct interpreter *in, uint8_t opcode)
{
	struct fgt_cfi_cursor *cursor = &in->cursor;
	uint64_t reg = fgt_cfi_read_uleb(cursor);

	switch (opcode) {
	case FGT_CFA_OFFSET_EXTENDED:
		set_place(in, reg, SAVED, scale(in, fgt_cfi_read_uleb(cursor)));
		return 0;
	case FGT_CFA_OFFSET_EXTENDED_SF:
		set_place(in, reg, SAVED,
			  scale(in, (uint64_t)fgt_cfi_read_sleb(cursor)));
		return 0;
	case FGT_CFA_RESTORE_EXTENDED:
		restore_place(in, reg);
		return 0;
	case FGT_CFA_UNDEFINED:
		set_place(in, reg, UNDEFINED, 0);
		return 0;
	case FGT_CFA_SAME_VALUE:
		set_place(in, reg, UNCHANGED, 0);
		return 0;
	case FGT_CFA_EXPRESSION:
	case FGT_CFA_VAL_EXPRESSION:
		fgt_cfi_skip(cursor, fgt_cfi_read_uleb(cursor));
		break;
	default: /* register, val_offset, val_offset_sf */
		fgt_cfi_read_uleb(cursor);
		break;
	}
	set_place(in, reg, ELSEWHERE, 0);
	return 0;
}

/* 0, REACHED, or an error, also for an unknown instruction. */
static int run_one(struct interpreter *in)
{
	struct fgt_cfi_cursor *cursor = &in->cursor;
	uint8_t opcode = fgt_cfi_read_u8(cursor), low = opcode & 0x3f;

	if (opcode >= FGT_CFA_RESTORE) {
		restore_place(in, low);
		return 0;
	}
	if (opcode >= FGT_CFA_OFFSET) {
		set_place(in, low, SAVED, scale(in, fgt_cfi_read_uleb(cursor)));
		return 0;
	}
	if (opcode >= FGT_CFA_ADVANCE_LOC)
		return advance(in, low);
	switch (opcode) {
	case FGT_CFA_NOP:
		return 0;
	case FGT_CFA_ADVANCE_LOC1:
		return advance(in, fgt_cfi_read_u8(cursor));
	case FGT_CFA_ADVANCE_LOC2:
		return advance(in, fgt_cfi_read_u16(cursor));
	case FGT_CFA_ADVANCE_LOC4:
		return advance(in, fgt_cfi_read_u32(cursor));
	case FGT_CFA_REMEMBER_STATE:
		return remember(in);
	case FGT_CFA_RESTORE_STATE:
		return recall(in);
	case FGT_CFA_GNU_ARGS_SIZE: /* matters only to exceptions */
		fgt_cfi_read_uleb(cursor);
		return 0;
	case FGT_CFA_OFFSET_EXTENDED:
	case FGT_CFA_RESTORE_EXTENDED:
	case FGT_CFA_UNDEFINED:
	case FGT_CFA_SAME_VALUE:
	case FGT_CFA_REGISTER:
	case FGT_CFA_EXPRESSION:
	case FGT_CFA_OFFSET_EXTENDED_SF:
	case FGT_CFA_VAL_OFFSET:
	case FGT_CFA_VAL_OFFSET_SF:
	case FGT_CFA_VAL_EXPRESSION:
		return run_register(in, opcode);
	default:
		return run_cfa(in, opcode);
	}
}

static int run(struct interpreter *in, const uint8_t *instructions, size_t len)
{
	int r = 0;

	in->cursor.at = instructions;
	in->cursor.end = instructions + len;
	while (r == 0 && in->cursor.at < in->cursor.end) {
		r = run_one(in);
		if (in->cursor.is_bad)
			return -EBADMSG;
	}
	return r < 0 ? r : 0;
}

/* -ENOTSUP if that does not fit. */
static int pack(const struct interpreter *in, struct fgt_cfi_row *ret_row)
{
	const struct columns *now = &in->now;
	struct fgt_cfi_row row = { 0 };

	if (now->pc.kind == UNDEFINED) {
		row.flags = FGT_CFI_ROW_ROOT;
		*ret_row = row;
		return 0;
	}
	row.cfa_offset = (int32_t)now->cfa_offset;
	row.pc_words = (int8_t)(now->pc.offset / 8);
	if (!now->is_cfa_simple || row.cfa_offset != now->cfa_offset ||
	    now->pc.kind != SAVED || row.pc_words * 8 != now->pc.offset ||
	    now->sp.kind != UNCHANGED || now->fp.kind == ELSEWHERE)
		return -ENOTSUP;
	if (now->cfa_reg == fgt_arch_host.fp)
		row.flags |= FGT_CFI_ROW_FP_BASED;
	else if (now->cfa_reg != fgt_arch_host.sp)
		return -ENOTSUP;
	if (now->fp.kind == SAVED) {
		row.flags |= FGT_CFI_ROW_FP_SAVED;
		row.fp_offset = (int16_t)now->fp.offset;
		if (row.fp_offset != now->fp.offset)
			return -ENOTSUP;
	}
	/* A link register is restored, too. */
	if (now->others || in->rule->return_column != fgt_arch_host.pc)
		row.flags |= FGT_CFI_ROW_OTHERS_SAVED;
	*ret_row = row;
	return 0;
}

int fgt_cfi_row_read(const struct fgt_cfi_rule *rule, uint64_t address,
		     struct fgt_cfi_row *ret_row)
{
	struct interpreter in;
	int r;

	if (rule->is_signal_frame ||
	    rule->return_column >= fgt_arch_host.reg_count ||
	    rule->return_column == fgt_arch_host.fp ||
	    rule->return_column == fgt_arch_host.sp ||
	    rule->common_len + rule->instructions_len > INSTRUCTIONS_MAX)
		return -ENOTSUP;
	/* Not the remembered ones: they are most of it. */
	in.rule = rule;
	in.wanted = address;
	in.location = rule->start;
	in.depth = 0;
	in.now = (struct columns){ 0 };
	in.initial = in.now;
	in.cursor.is_bad = false;
	in.is_common = true;
	r = run(&in, rule->common, rule->common_len);
	if (r < 0)
		return r;
	in.initial = in.now;
	in.is_common = false;
	r = run(&in, rule->instructions, rule->instructions_len);
	return r < 0 ? r : pack(&in, ret_row);
}
