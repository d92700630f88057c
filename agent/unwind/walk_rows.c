/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path of a walk: nearly every frame of nearly every stack, at a few
 * nanoseconds each. Runs in the sampler's thread; must leave to the walk
 * whatever is not plain, and decides nothing that the walk would not.
 */
#include <string.h>

#include "agent/unwind/walk.h"

/* A frame, as far as rows follow it. */
struct position {
	uint64_t pc, sp, fp;
	bool has_fp;
};

static inline bool read_copied(const struct fgt_snapshot *snapshot,
			       uint64_t address, uint64_t *ret_word)
{
	uint64_t at = address - snapshot->stack_start;

	if (at > snapshot->stack_len ||
	    snapshot->stack_len - at < sizeof(*ret_word))
		return false;
	memcpy(ret_word, snapshot->stack + at, sizeof(*ret_word));
	return true;
}

/* Takes the row's step up the copied stack, if it is one. */
static inline bool step_up(const struct fgt_snapshot *snapshot,
			   const struct fgt_cfi_row *row,
			   const struct position *here, struct position *next)
{
	uint64_t cfa = here->sp;

	if (row->flags >= FGT_CFI_ROW_ROOT)
		return false;
	if (row->flags & FGT_CFI_ROW_FP_BASED) {
		if (!here->has_fp)
			return false;
		cfa = here->fp;
	}
	cfa += (uint64_t)(int64_t)row->cfa_offset;
	next->sp = cfa;
	next->fp = here->fp;
	next->has_fp = here->has_fp;
	if (row->flags & FGT_CFI_ROW_FP_SAVED) {
		next->has_fp = true;
		if (!read_copied(snapshot,
				 cfa + (uint64_t)(int64_t)row->fp_offset,
				 &next->fp))
			return false;
	}
	return cfa > here->sp &&
	       read_copied(snapshot, cfa + (uint64_t)(row->pc_words * 8),
			   &next->pc);
}

void fgt_walk_follow_rows(struct fgt_walk *walk)
{
	const struct fgt_snapshot *snapshot = walk->view.snapshot;
	struct fgt_frame_state *state = &walk->state;
	struct position here = { .sp = state->sp }, next;
	uint64_t asked = state->pc - !state->is_exact;
	const struct fgt_view_place *place;
	const struct fgt_cfi_row *row;
	unsigned int flags = 0, count = 0;

	here.has_fp = fgt_regs_get(&state->regs, fgt_arch_host.fp, &here.fp);
	place = fgt_view_find_place(&walk->view, asked);
	while (place && place->serial) {
		row = fgt_cfi_rows_find(walk->view.rows, place->serial,
					asked - place->bias);
		if (!row || !step_up(snapshot, row, &here, &next))
			break;
		asked = next.pc - 1;
		place = fgt_view_find_place(&walk->view, asked);
		if (!place || !place->is_executable)
			break;
		flags |= row->flags;
		here = next;
		count++;
		fgt_frame_list_push(&walk->list, here.pc, here.sp,
				    FGT_FRAME_CALLER);
	}
	if (!count)
		return;
	state->pc = here.pc;
	state->sp = here.sp;
	state->is_exact = false;
	if (here.has_fp)
		fgt_regs_set(&state->regs, fgt_arch_host.fp, here.fp);
	if (flags & FGT_CFI_ROW_OTHERS_SAVED)
		state->regs.valid &= 1ull << fgt_arch_host.fp;
}
