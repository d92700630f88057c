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

/* frames[capacity], capacity ≥ 3, of which max_depth are kept. */
void fgt_frame_list_init(struct fgt_frame_list *list,
			 struct fgt_unwound_frame *frames, size_t capacity,
			 size_t max_depth);

void fgt_frame_list_push_deep(struct fgt_frame_list *list,
			      struct fgt_unwound_frame frame);
static inline void fgt_frame_list_push(struct fgt_frame_list *list, uint64_t pc,
				       uint64_t sp, uint32_t flags)
{
	const struct fgt_unwound_frame frame = {
		.pc = pc,
		.flags = flags,
		.sp_low = (uint32_t)sp,
	};

	if (list->seen >= list->leaf_max) {
		fgt_frame_list_push_deep(list, frame);
		return;
	}
	list->last = &list->frames[list->seen++];
	*list->last = frame;
}

/* Puts the parts in order and adds the markers; reason 0: complete. Returns the
 * number of frames. */
size_t fgt_frame_list_finish(struct fgt_frame_list *list,
			     enum fgt_marker reason);

/* Undoes that: more frames may be pushed. */
void fgt_frame_list_reopen(struct fgt_frame_list *list);

/* The last frame (0), the one before it …, of a list that is not finished; NULL
 * if that one was not kept. */
struct fgt_unwound_frame *fgt_frame_list_back(const struct fgt_frame_list *list,
					      size_t back);

struct fgt_walk {
	struct fgt_view view;
	struct fgt_cfi_stepper *stepper;
	struct fgt_frame_list list;
	struct fgt_frame_state state; /* where it ended */
	bool is_started; /* the stepper is, at state */
	bool need_all_regs; /* one was asked for that rows do not follow */
	bool is_by_libunwind; /* every step: state's registers are behind */
	unsigned int signal_count; /* frames crossed */
	bool need_maps;
	bool need_args; /* a register was asked for that is not known */
	/* A frame without rules was left by the word at its SP, and must not
	 * be. */
	bool is_word_taken, is_word_wrong;
	bool is_fp_unknown; /* ended because of it, at state */
	/* fgt_image_cache_late(), and what it was at first; NULL: no answer is
	 * ever late. */
	const uint64_t *late;
	uint64_t late_before;
};

/*
 * Has an answer about a file not come in time? Then nothing is known of the
 * steps since, and the walk ends here.
 */
static inline bool fgt_walk_is_late(const struct fgt_walk *walk)
{
	return walk->late && *walk->late != walk->late_before;
}

/* It is asked again. */
static inline void fgt_walk_ask_again(struct fgt_walk *walk)
{
	if (walk->late)
		walk->late_before = *walk->late;
}

/* Makes and pushes as many steps as plain rows allow, maybe none. SP moves up
 * the copied stack with each: that ends it. */
void fgt_walk_follow_rows(struct fgt_walk *walk);

/* Walks from regs. Returns 0 at the root, else why it ended before. */
enum fgt_marker fgt_walk_run(struct fgt_walk *walk,
			     const struct fgt_regs *regs);

/* The same from where it ended, by a view of another snapshot. Not after
 * is_by_libunwind. */
enum fgt_marker fgt_walk_go_on(struct fgt_walk *walk);

/* ---- Code of files without rules (walk_assembly.c) ---------------------- */

/*
 * The psABI's end of a stack where there are no rules (musl's _start, clone): a
 * frame pointer of zero, in a file's code. Anonymous code proves nothing.
 */
bool fgt_walk_is_root_without_rules(const struct fgt_walk *walk);

/* Steps to the nearest direct call that led to a function of a file without
 * rules, near SP. False: none; the state is as before. */
bool fgt_walk_step_by_call(struct fgt_walk *walk);

/* ---- Stack that is read later (later.c) --------------------------------- */

/*
 * Do the words that held the last frames' return addresses still hold them in
 * walk->view's snapshot, as far as it has them? False also if it has none.
 */
bool fgt_walk_is_unmoved(const struct fgt_walk *walk);

/*
 * Does the call that each of frames[first … count) returns from lead to the
 * function of the frame before it? Calls through pointers may.
 */
bool fgt_walk_calls_match(const struct fgt_walk *walk,
			  const struct fgt_unwound_frame *frames, size_t first,
			  size_t count);

/* Can the call that caller returns from lead to the function of callee only? */
bool fgt_walk_is_fixed_call(const struct fgt_walk *walk,
			    const struct fgt_unwound_frame *callee,
			    const struct fgt_unwound_frame *caller);

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

/*
 * Does the code at target, which was called, jump into [start, end): by a tail
 * call, or into its own cold part?
 */
bool fgt_frame_pointer_is_jump(const struct fgt_view *view, uint64_t target,
			       uint64_t start, uint64_t end);

#endif
