/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One walk from a leaf to its root: up the stack only, on the stack only,
 * through code only.
 *
 * MT-Unsafe for one walk | AS-Unsafe
 */
#ifndef FGT_AGENT_UNWIND_WALK_H
#define FGT_AGENT_UNWIND_WALK_H

#include "agent/unwind/cfi_step.h"
#include "agent/unwind/unwinder.h"

/* Frames while they are found: the leaf part, then a ring of the last ones. */
struct fgt_frame_list {
	struct fgt_unwound_frame *frames;
	size_t leaf_max, root_max; /* slots of either part */
	size_t seen; /* frames pushed, kept or not */
	struct fgt_unwound_frame *last; /* NULL if it was not kept */
};

void fgt_frame_list_push_deep(struct fgt_frame_list *list, uint64_t pc,
			      uint32_t flags);
static inline void fgt_frame_list_push(struct fgt_frame_list *list, uint64_t pc,
				       uint32_t flags)
{
	if (list->seen >= list->leaf_max) {
		fgt_frame_list_push_deep(list, pc, flags);
		return;
	}
	list->last = &list->frames[list->seen++];
	list->last->pc = pc;
	list->last->flags = flags;
}

struct fgt_walk {
	struct fgt_view view;
	struct fgt_cfi_stepper *stepper;
	struct fgt_frame_list list;
	struct fgt_frame_state state; /* where it ended */
	bool is_started; /* the stepper is, at state */
	bool need_all_regs; /* one was asked for that rows do not follow */
	unsigned int signal_count; /* frames crossed */
	bool need_maps;
	bool need_args; /* a register was asked for that is not known */
	/* A frame without rules was left by the word at its SP, and must not
	 * be. */
	bool is_word_taken, is_word_wrong;
	bool is_fp_unknown; /* ended because of it, at state */
};

/* Makes and pushes as many steps as plain rows allow, maybe none. SP moves up
 * the copied stack with each: that ends it. */
void fgt_walk_follow_rows(struct fgt_walk *walk);

/* Walks from regs. Returns 0 at the root, else why it ended before. */
enum fgt_marker fgt_walk_run(struct fgt_walk *walk,
			     const struct fgt_regs *regs);

/* ---- The frame pointer of a blocked thread (frame_pointer.c) ------------ */

/*
 * procfs does not have it. walk ended with is_fp_unknown. Tries the slots above
 * its SP that can be the saved frame pointer of the function that asked; the
 * first from which the walk reaches the root is taken and walk->list holds its
 * frames. Returns 0, or why there is none; walk->list is then undefined and
 * walk->view.need_end is set if more of the stack might help.
 */
enum fgt_marker fgt_frame_pointer_recover(struct fgt_walk *walk,
					  const struct fgt_regs *regs);

#endif
