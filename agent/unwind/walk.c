/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks one stack. Runs in the sampler's thread on a snapshot; must end on
 * any input, and must not pass off a short stack as a whole one.
 */
#include "agent/unwind/walk.h"

#include <errno.h>

#define STEPS_MAX	 100000u
#define SIGRETURN_BYTES	 16u
#define SIGNALS_MAX	 32u
#define SIGNAL_FRAME_MAX 32768u /* bytes; less than 12 KiB on x86-64 */

/* Pops a return address: what a function that saved nothing would do. */
static int pop_return_address(struct fgt_walk *walk)
{
	struct fgt_frame_state *state = &walk->state;
	uint64_t pc;
	int r;

	r = fgt_view_read_stack(&walk->view, state->sp, &pc);
	if (r < 0)
		return r;
	if (!fgt_view_is_code(&walk->view, pc))
		return -ENOENT;
	state->pc = pc;
	state->sp += sizeof(pc);
	state->is_exact = false;
	return 0;
}

/*
 * No rules for the innermost frame: code of a JIT, or a wrapper of clone(2),
 * whose rules end before the system call. Without a frame, its return address
 * lies at SP. The frame pointer would be its caller's, and skip that one (fault
 * U10).
 */
static bool step_by_word_at_sp(struct fgt_walk *walk)
{
	const struct fgt_frame_state *state = &walk->state;
	uint64_t return_pc, target;

	if (!state->is_exact || walk->is_word_wrong ||
	    fgt_view_read_stack(&walk->view, state->sp, &return_pc) < 0 ||
	    !fgt_view_is_code(&walk->view, return_pc - 1) ||
	    !fgt_view_find_call(&walk->view, return_pc, &target))
		return false;
	/* A call of some other code: the word is a left-over. */
	if (target && (target > state->pc ||
		       fgt_maps_find(walk->view.maps, target) !=
			       fgt_maps_find(walk->view.maps, state->pc)))
		return false;
	walk->is_word_taken = pop_return_address(walk) == 0;
	return walk->is_word_taken;
}

/* No rules: the chain of frame pointers, if it looks like one. */
static enum fgt_marker step_by_frame_pointer(struct fgt_walk *walk)
{
	struct fgt_frame_state *state = &walk->state;
	uint64_t fp, saved_fp, pc, target;
	int r;

	if (!fgt_regs_get(&state->regs, fgt_arch_host.fp, &fp)) {
		walk->is_fp_unknown = true;
		return FGT_MARKER_TRUNCATED_NO_FP;
	}
	if (fp < state->sp || fp % sizeof(fp))
		return FGT_MARKER_TRUNCATED_NO_CFI;
	r = fgt_view_read_stack(&walk->view, fp, &saved_fp);
	if (r == 0)
		r = fgt_view_read_stack(&walk->view, fp + sizeof(fp), &pc);
	if (r < 0)
		return r == -ENODATA ? FGT_MARKER_TRUNCATED_NO_STACK
				     : FGT_MARKER_TRUNCATED_NO_CFI;
	if (pc && (!fgt_view_is_code(&walk->view, pc - 1) ||
		   !fgt_view_find_call(&walk->view, pc, &target)))
		return FGT_MARKER_TRUNCATED_NO_CFI;
	fgt_regs_set(&state->regs, fgt_arch_host.fp, saved_fp);
	state->pc = pc;
	state->sp = fp + 2 * sizeof(fp);
	state->is_exact = false;
	return 0;
}

/* A signal trampoline: the kernel's frame lies at SP. */
static enum fgt_marker step_by_sigreturn(struct fgt_walk *walk)
{
	struct fgt_frame_state *state = &walk->state;
	struct fgt_regs regs = { .valid = 0 };
	uint64_t value;
	int offset, r;

	for (unsigned int i = 0; i < fgt_arch_host.reg_count; i++) {
		offset = fgt_arch_host.sigreturn_offset(i);
		if (offset < 0)
			continue;
		r = fgt_view_read_stack(&walk->view,
					state->sp + (uint64_t)offset, &value);
		if (r < 0)
			return r == -ENODATA ? FGT_MARKER_TRUNCATED_NO_STACK
					     : FGT_MARKER_TRUNCATED_NO_CFI;
		fgt_regs_set(&regs, i, value);
	}
	state->regs = regs;
	state->pc = regs.value[fgt_arch_host.pc];
	state->sp = regs.value[fgt_arch_host.sp];
	state->is_exact = true;
	return 0;
}

static bool is_sigreturn_at(const struct fgt_walk *walk, uint64_t pc)
{
	uint8_t code[SIGRETURN_BYTES];
	size_t len = fgt_view_read_code(&walk->view, pc, code, sizeof(code));

	return fgt_arch_host.is_sigreturn(code, len);
}

/* Ends the walk at a step that failed. */
static enum fgt_marker reason_of(struct fgt_walk *walk, enum fgt_step step,
				 unsigned int reg)
{
	switch (step) {
	case FGT_STEP_NO_STACK:
		return FGT_MARKER_TRUNCATED_NO_STACK;
	case FGT_STEP_NO_REG:
		walk->is_fp_unknown = reg == fgt_arch_host.fp;
		walk->need_args = reg != fgt_arch_host.fp;
		return FGT_MARKER_TRUNCATED_NO_FP;
	case FGT_STEP_NO_RULE:
		return FGT_MARKER_TRUNCATED_NO_CFI;
	default:
		return FGT_MARKER_TRUNCATED_BAD_CFI;
	}
}

static enum fgt_marker step_without_rules(struct fgt_walk *walk,
					  bool *ret_is_root)
{
	enum fgt_marker reason;

	if (is_sigreturn_at(walk, walk->state.pc))
		return step_by_sigreturn(walk);
	if (step_by_word_at_sp(walk))
		return 0;
	*ret_is_root = fgt_walk_is_root_without_rules(walk);
	if (*ret_is_root)
		return 0;
	reason = step_by_frame_pointer(walk);
	return reason == FGT_MARKER_TRUNCATED_NO_CFI &&
			       fgt_walk_step_by_call(walk)
		       ? 0
		       : reason;
}

/*
 * The leaf stands at the first instruction of a function: nothing is pushed
 * yet. libunwind caches rows by PC alone, and the same address can also be
 * the return address of a call that never returns, with another row.
 */
static bool step_from_entry(struct fgt_walk *walk)
{
	struct fgt_frame_state *state = &walk->state;
	uint64_t return_pc, target;
	struct fgt_image_function function;

	if (walk->view.snapshot->is_blocked ||
	    fgt_view_find_function(&walk->view, state->pc, false, &function) <
		    0 ||
	    function.start != state->pc || function.is_signal_frame ||
	    fgt_view_read_stack(&walk->view, state->sp, &return_pc) < 0 ||
	    !fgt_view_find_call(&walk->view, return_pc, &target))
		return false;
	return pop_return_address(walk) == 0;
}

/* True if a row can leave the leaf. */
static bool has_row(struct fgt_walk *walk)
{
	const uint8_t none = FGT_CFI_ROW_COMPLEX | FGT_CFI_ROW_NONE;

	return walk->view.rows &&
	       !(fgt_view_find_row(&walk->view, walk->state.pc).flags & none);
}

/* Takes the registers back from libunwind. */
static bool end_libunwind(struct fgt_walk *walk)
{
	bool is_whole = true;

	if (walk->is_started)
		is_whole = fgt_cfi_stepper_save(walk->stepper);
	walk->is_started = false;
	return is_whole;
}

static enum fgt_step step_by_libunwind(struct fgt_walk *walk,
				       unsigned int *ret_reg)
{
	enum fgt_step result = FGT_STEP_DONE;

	if (!walk->is_started)
		result = fgt_cfi_stepper_start(walk->stepper, &walk->view,
					       &walk->state);
	walk->is_started = true;
	if (result == FGT_STEP_DONE)
		result = fgt_cfi_stepper_step(walk->stepper, ret_reg);
	/* What cannot be read now libunwind might never have asked for. */
	if (result == FGT_STEP_DONE && walk->view.rows && !end_libunwind(walk))
		walk->need_all_regs = true;
	if (result == FGT_STEP_NO_REG && walk->view.rows &&
	    *ret_reg != fgt_arch_host.fp)
		walk->need_all_regs = true;
	if (result == FGT_STEP_NO_RULE)
		end_libunwind(walk);
	return result;
}

/*
 * The rules of a signal trampoline are expressions over the kernel's frame. It
 * is read directly: libunwind would take longer for this step than rows take
 * for the whole stack.
 */
static enum fgt_step step_of_no_row(struct fgt_walk *walk,
				    const struct fgt_cfi_row *row)
{
	if (row->flags & FGT_CFI_ROW_SIGNAL)
		return is_sigreturn_at(walk, walk->state.pc) &&
				       !step_by_sigreturn(walk)
			       ? FGT_STEP_DONE
			       : FGT_STEP_NO_ROW;
	if (row->flags & FGT_CFI_ROW_COMPLEX)
		return FGT_STEP_NO_ROW;
	return row->flags & FGT_CFI_ROW_NONE ? FGT_STEP_NO_RULE : FGT_STEP_ROOT;
}

/*
 * One step by the row of state->pc: one that was not read before, or the one at
 * which fgt_walk_follow_rows() stopped, to find out why; out of a signal
 * trampoline by the kernel's frame. FGT_STEP_NO_ROW: libunwind has to do it;
 * state is as before.
 */
static enum fgt_step step_by_row(struct fgt_walk *walk, unsigned int *ret_reg)
{
	struct fgt_frame_state *state = &walk->state;
	uint64_t cfa = state->sp, pc, fp = 0;
	const struct fgt_cfi_row row =
		fgt_view_find_row(&walk->view, state->pc - !state->is_exact);
	int r;

	if (row.flags >= FGT_CFI_ROW_ROOT)
		return step_of_no_row(walk, &row);
	*ret_reg = fgt_arch_host.fp;
	if (row.flags & FGT_CFI_ROW_FP_BASED &&
	    !fgt_regs_get(&state->regs, fgt_arch_host.fp, &cfa))
		return FGT_STEP_NO_REG;
	cfa += (uint64_t)(int64_t)row.cfa_offset;
	r = fgt_view_read_stack(&walk->view, cfa + (uint64_t)(row.pc_words * 8),
				&pc);
	if (r < 0)
		return r == -ENODATA ? FGT_STEP_NO_STACK : FGT_STEP_NO_ROW;
	/* Popped already, or elsewhere in memory. */
	if (row.flags & FGT_CFI_ROW_FP_SAVED &&
	    fgt_view_read_stack(&walk->view,
				cfa + (uint64_t)(int64_t)row.fp_offset, &fp))
		return FGT_STEP_NO_ROW;
	if (row.flags & FGT_CFI_ROW_FP_SAVED)
		fgt_regs_set(&state->regs, fgt_arch_host.fp, fp);
	if (row.flags & FGT_CFI_ROW_OTHERS_SAVED)
		state->regs.valid &= 1ull << fgt_arch_host.fp;
	state->pc = pc;
	state->sp = cfa;
	state->is_exact = false;
	return FGT_STEP_DONE;
}

/*
 * One step by whatever knows how: the row of state->pc, else libunwind, else
 * no rules. *ret_is_root: state was the last.
 */
static enum fgt_marker step(struct fgt_walk *walk, bool *ret_is_root)
{
	enum fgt_step result = FGT_STEP_NO_ROW;
	unsigned int reg = 0;

	*ret_is_root = false;
	if (walk->view.rows)
		result = step_by_row(walk, &reg);
	if (result == FGT_STEP_NO_ROW)
		result = step_by_libunwind(walk, &reg);
	switch (result) {
	case FGT_STEP_DONE:
		return 0;
	case FGT_STEP_ROOT:
		*ret_is_root = true;
		return 0;
	case FGT_STEP_NO_RULE:
		return step_without_rules(walk, ret_is_root);
	default:
		return reason_of(walk, result, reg);
	}
}

static void push_frame(struct fgt_walk *walk)
{
	const struct fgt_frame_state *state = &walk->state;

	/* Nothing called the trampoline that this step left: it is exact. */
	if (state->is_exact && walk->list.last)
		walk->list.last->flags = 0;
	fgt_frame_list_push(&walk->list, state->pc, state->sp,
			    state->is_exact ? 0 : FGT_FRAME_CALLER);
}

static bool is_on_stack(const struct fgt_walk *walk, uint64_t sp)
{
	return sp >= walk->view.snapshot->stack_start &&
	       sp < fgt_view_stack_end(&walk->view);
}

/*
 * A signal frame may lead down the stack, or once to another one. One that
 * leads far up has left its stack, whose end is not known then: the frame
 * itself has some kilobytes.
 */
static enum fgt_marker check_signal(struct fgt_walk *walk, uint64_t last_sp)
{
	const struct fgt_frame_state *state = &walk->state;

	if (++walk->signal_count > SIGNALS_MAX)
		return FGT_MARKER_TRUNCATED_LOOP;
	if (is_on_stack(walk, state->sp) &&
	    (state->sp < last_sp || state->sp - last_sp < SIGNAL_FRAME_MAX))
		return 0;
	if (walk->view.other_start && walk->view.other_start != state->sp)
		return FGT_MARKER_TRUNCATED_LOOP;
	walk->view.other_start = state->sp;
	return 0;
}

/* An exact frame in no code: called through a wild pointer, so that its
 * return address is the next word. */
static enum fgt_marker leave_wild_frame(struct fgt_walk *walk)
{
	int r;

	walk->need_maps = true;
	r = pop_return_address(walk);
	if (r == -ENODATA)
		return FGT_MARKER_TRUNCATED_NO_STACK;
	if (r < 0)
		return FGT_MARKER_TRUNCATED_BAD_PC;
	push_frame(walk);
	return 0;
}

/*
 * Takes the frame that a step led to, if it is acceptable. was_exact: the frame
 * that was left is the innermost one, and may have taken its return address off
 * the stack, as vfork(2) does.
 */
static enum fgt_marker arrive(struct fgt_walk *walk, uint64_t last_sp,
			      bool was_exact)
{
	const struct fgt_frame_state *state = &walk->state;
	enum fgt_marker reason;

	if (state->is_exact) {
		reason = check_signal(walk, last_sp);
		if (reason)
			return reason;
	} else if (state->sp < last_sp ||
		   (state->sp == last_sp && !was_exact)) {
		return FGT_MARKER_TRUNCATED_LOOP;
	}
	if (fgt_view_is_code(&walk->view, state->pc - !state->is_exact)) {
		push_frame(walk);
		return 0;
	}
	walk->need_maps = true;
	if (!state->is_exact)
		return FGT_MARKER_TRUNCATED_BAD_PC;
	push_frame(walk);
	end_libunwind(walk);
	return leave_wild_frame(walk);
}

static void start(struct fgt_walk *walk, const struct fgt_regs *regs)
{
	struct fgt_frame_state *state = &walk->state;

	walk->is_fp_unknown = false;
	walk->is_word_taken = false;
	walk->is_started = false;
	walk->need_args = false;
	walk->need_all_regs = false;
	walk->signal_count = 0;
	walk->view.need_end = 0;
	walk->view.need_other_end = 0;
	walk->view.other_start = 0;
	walk->list.seen = 0;
	state->regs = *regs;
	state->pc = regs->value[fgt_arch_host.pc];
	state->sp = regs->value[fgt_arch_host.sp];
	state->is_exact = true;
}

/* From walk->state, whose frame is pushed. */
static enum fgt_marker climb(struct fgt_walk *walk)
{
	const struct fgt_frame_state *state = &walk->state;
	enum fgt_marker reason = 0;
	bool is_root, was_exact;
	uint64_t last_sp;

	for (unsigned int i = 0; i < STEPS_MAX && !reason; i++) {
		if (walk->view.rows)
			fgt_walk_follow_rows(walk);
		last_sp = state->sp;
		was_exact = state->is_exact;
		reason = step(walk, &is_root);
		if (fgt_walk_is_late(walk))
			return FGT_MARKER_TRUNCATED_LATE;
		if (reason || walk->need_all_regs)
			return reason;
		if (is_root || (!state->pc && !state->is_exact))
			return 0;
		reason = arrive(walk, last_sp, was_exact);
	}
	return reason ? reason : FGT_MARKER_TRUNCATED_LOOP;
}

static enum fgt_marker run(struct fgt_walk *walk, const struct fgt_regs *regs)
{
	struct fgt_frame_state *state = &walk->state;
	enum fgt_marker reason = 0;

	start(walk, regs);
	fgt_frame_list_push(&walk->list, state->pc, state->sp, 0);
	if (!fgt_view_is_code(&walk->view, state->pc))
		reason = leave_wild_frame(walk);
	else if (!has_row(walk) && step_from_entry(walk))
		push_frame(walk);
	return reason ? reason : climb(walk);
}

static enum fgt_marker run_any_rule(struct fgt_walk *walk,
				    const struct fgt_regs *regs)
{
	struct fgt_cfi_rows *rows = walk->view.rows;
	enum fgt_marker reason = run(walk, regs);

	walk->is_by_libunwind = !rows || walk->need_all_regs;
	if (!walk->need_all_regs || reason == FGT_MARKER_TRUNCATED_LATE)
		return reason;
	/* Rare: libunwind from the leaf on, which follows every register. */
	walk->view.rows = NULL;
	reason = run(walk, regs);
	walk->view.rows = rows;
	return reason;
}

enum fgt_marker fgt_walk_run(struct fgt_walk *walk, const struct fgt_regs *regs)
{
	enum fgt_marker reason = run_any_rule(walk, regs);

	if (!reason || !walk->is_word_taken || walk->is_fp_unknown ||
	    reason == FGT_MARKER_TRUNCATED_NO_STACK ||
	    reason == FGT_MARKER_TRUNCATED_LATE)
		return reason;
	/* It led nowhere. */
	walk->is_word_wrong = true;
	reason = run_any_rule(walk, regs);
	walk->is_word_wrong = false;
	return reason;
}

enum fgt_marker fgt_walk_go_on(struct fgt_walk *walk)
{
	enum fgt_marker reason;

	/* libunwind has the words of another snapshot; state is complete. */
	walk->is_started = false;
	walk->need_all_regs = false;
	walk->view.other_start = 0;
	reason = climb(walk);
	/* It would have to start at the leaf again. */
	return walk->need_all_regs ? FGT_MARKER_TRUNCATED_BAD_CFI : reason;
}
