/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the frame pointer that a function set up: somewhere above SP lie the
 * caller's frame pointer and, after it, a return address whose call led to
 * that function. Runs in the sampler's thread on a snapshot; must not take a
 * slot that stale stack contents only make look right.
 */
#include "agent/unwind/frame_pointer.h"

#define CANDIDATES_MAX	 64u
#define SEARCH_BYTES_MAX (64u * 1024)

/* How sure a slot is, best first. */
enum rank {
	DIRECT_CHAINED, /* called by a direct call, and [slot] fits */
	DIRECT, /* caller uses the register for something else */
	INDIRECT_CHAINED, /* call through a pointer or PLT */
	INDIRECT,
	RANKS
};

struct candidate {
	uint64_t slot;
	enum rank rank;
};

struct search {
	struct fgt_walk *walk;
	const struct fgt_regs *regs;
	uint64_t function; /* start of the one that asked, 0 if unknown */
	uint64_t stack_end;
	struct candidate candidates[CANDIDATES_MAX];
	size_t count;
	uint64_t need_end; /* over all tries */
};

/* Does the call before return_pc lead to the function? */
static bool rank_slot(const struct search *search, uint64_t slot,
		      uint64_t saved_fp, uint64_t return_pc,
		      enum rank *ret_rank)
{
	bool is_chained = !saved_fp ||
			  (saved_fp > slot && saved_fp < search->stack_end &&
			   saved_fp % sizeof(saved_fp) == 0);
	struct fgt_view *view = &search->walk->view;
	uint64_t target;

	if (!fgt_view_is_code(view, return_pc) ||
	    !fgt_view_find_call(view, return_pc, &target))
		return false;
	if (!target)
		*ret_rank = is_chained ? INDIRECT_CHAINED : INDIRECT;
	else if (target == search->function)
		*ret_rank = is_chained ? DIRECT_CHAINED : DIRECT;
	else
		return false;
	return true;
}

static void collect(struct search *search, uint64_t from)
{
	struct fgt_view *view = &search->walk->view;
	uint64_t saved_fp, return_pc, slot = (from + 7) & ~7ull;
	uint64_t end = slot + SEARCH_BYTES_MAX;

	for (; slot < end && search->count < CANDIDATES_MAX; slot += 8) {
		struct candidate *next = &search->candidates[search->count];

		if (fgt_view_read_stack(view, slot, &saved_fp) < 0 ||
		    fgt_view_read_stack(view, slot + 8, &return_pc) < 0)
			break;
		if (!rank_slot(search, slot, saved_fp, return_pc, &next->rank))
			continue;
		next->slot = slot;
		search->count++;
	}
	/* Ran out of copied stack: the slot may lie further up. */
	search->need_end = view->need_end;
}

static bool try_candidates(struct search *search, enum rank rank)
{
	struct fgt_regs regs = *search->regs;

	for (size_t i = 0; i < search->count; i++) {
		if (search->candidates[i].rank != rank)
			continue;
		fgt_regs_set(&regs, fgt_arch_host.fp,
			     search->candidates[i].slot);
		if (fgt_walk_run(search->walk, &regs) == 0)
			return true;
		if (search->walk->view.need_end > search->need_end)
			search->need_end = search->walk->view.need_end;
	}
	return false;
}

enum fgt_marker fgt_frame_pointer_recover(struct fgt_walk *walk,
					  const struct fgt_regs *regs)
{
	struct search search = { .walk = walk, .regs = regs };
	const struct fgt_frame_state *state = &walk->state;
	struct fgt_cfi_rule rule;

	search.stack_end = fgt_view_stack_end(&walk->view);
	if (fgt_view_find_rule(&walk->view, state->pc - !state->is_exact,
			       &rule) == 0)
		search.function = rule.start;
	collect(&search, state->sp);
	for (enum rank rank = 0; rank < RANKS; rank++)
		if (try_candidates(&search, rank))
			return 0;
	walk->view.need_end = search.need_end;
	return FGT_MARKER_TRUNCATED_NO_FP;
}
