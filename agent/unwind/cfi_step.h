/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps from a frame to its caller by call frame information, every kind of
 * rule, through libunwind's remote interface.
 *
 * MT-Unsafe for one stepper | AS-Unsafe
 */
#ifndef FGT_AGENT_UNWIND_CFI_STEP_H
#define FGT_AGENT_UNWIND_CFI_STEP_H

#include "agent/unwind/view.h"
#include "ringbuf/base/owner.h"

enum fgt_step {
	FGT_STEP_DONE, /* state is the caller's */
	FGT_STEP_ROOT, /* by the rules, this function has no caller */
	FGT_STEP_NO_RULE, /* no rules for this PC */
	FGT_STEP_BAD_RULE, /* malformed, or of memory that is not there */
	FGT_STEP_NO_STACK, /* a word of the stack was not copied */
	FGT_STEP_NO_REG, /* a register is needed that is not known */
	FGT_STEP_NO_ROW, /* of steps by rows: libunwind has to do it */
};

/* A frame in the middle of a walk. */
struct fgt_frame_state {
	uint64_t pc, sp;
	bool is_exact; /* pc is the next instruction, not a return address */
	/* All registers as far as known; behind pc and sp until
	 * fgt_cfi_stepper_save(). */
	struct fgt_regs regs;
};

struct fgt_cfi_stepper; /* MT-Unsafe; caches rules by PC */

int fgt_cfi_stepper_new(struct fgt_cfi_stepper **ret_stepper);
void fgt_cfi_stepper_free(struct fgt_cfi_stepper *stepper);
FGT_DEFINE_AUTO(struct fgt_cfi_stepper *, fgt_cfi_stepper_free);

/* Forgets cached rules: the maps have changed. */
void fgt_cfi_stepper_forget(struct fgt_cfi_stepper *stepper);

/* Starts at state; view and state stay borrowed until the next start. */
enum fgt_step fgt_cfi_stepper_start(struct fgt_cfi_stepper *stepper,
				    struct fgt_view *view,
				    struct fgt_frame_state *state);

/* One step; *ret_reg is the unknown register of FGT_STEP_NO_REG. */
enum fgt_step fgt_cfi_stepper_step(struct fgt_cfi_stepper *stepper,
				   unsigned int *ret_reg);

/* Brings state->regs up to date. False: memory that should hold one of them
 * was not there. */
bool fgt_cfi_stepper_save(struct fgt_cfi_stepper *stepper);

#endif
