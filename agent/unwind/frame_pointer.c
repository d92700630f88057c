/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the frame pointer that a function set up: somewhere above SP lie the
 * caller's frame pointer and, after it, a return address whose call led to that
 * function. Runs in the sampler thread on a snapshot; must not take a slot that
 * only looks right because of stale stack contents.
 */
#include "agent/unwind/walk.h"

#include <errno.h>

#define CANDIDATES_MAX	 64u
#define SEARCH_BYTES_MAX (64u * 1024)
#define PROLOGUE_BYTES	 64u
#define ENTRY_BYTES	 512u
#define JUMP_BYTES_MAX	 (32u * 1024)

/* How sure a slot is, best first; in one rank the nearest goes first. */
enum rank {
	PREDICTED, /* where the function's first instructions put it */
	DIRECT, /* after a direct call of the function */
	JUMPED, /* after a call of code that jumps to the function */
	INDIRECT, /* after a call through a pointer or PLT */
	RANKS
};

struct candidate {
	uint64_t slot;
	uint64_t target; /* of the call, 0: indirect */
	enum rank rank;
};

struct slot_search {
	struct fgt_walk *walk;
	const struct fgt_regs *regs;
	uint64_t start, end; /* that function; [0, 0) without a rule */
	uint64_t predicted; /* slot, 0 if unknown */
	struct candidate candidates[CANDIDATES_MAX];
	size_t count;
	uint64_t need_end; /* over all tries */
};

/*
 * What [slot] holds is not asked: a caller without frame pointers keeps
 * anything there, and for one with them the walk fails on a wrong one.
 */
static enum rank rank_of(const struct slot_search *search, uint64_t slot,
			 uint64_t target)
{
	if (slot == search->predicted && (!target || target == search->start))
		return PREDICTED;
	if (!target)
		return INDIRECT;
	return target == search->start ? DIRECT : JUMPED; /* to be proved */
}

static void collect(struct slot_search *search, uint64_t from)
{
	struct fgt_view *view = &search->walk->view;
	uint64_t return_pc, slot = (from + 7) & ~7ull;
	uint64_t end = slot + SEARCH_BYTES_MAX;

	for (; slot < end && search->count < CANDIDATES_MAX; slot += 8) {
		struct candidate *next = &search->candidates[search->count];

		if (fgt_view_read_stack(view, slot + 8, &return_pc) < 0)
			break;
		if (!fgt_view_is_code(view, return_pc) ||
		    !fgt_view_find_call(view, return_pc, &next->target))
			continue;
		next->slot = slot;
		next->rank = rank_of(search, slot, next->target);
		search->count++;
	}
	/* Ran out of copied stack: the slot may lie further up. */
	search->need_end = view->need_end;
}

bool fgt_frame_pointer_is_jump(const struct fgt_view *view, uint64_t target,
			       uint64_t start, uint64_t end)
{
	uint8_t code[4096];
	struct fgt_image_function function;
	uint64_t at, code_end;
	size_t len;

	/* Without rules the end of the jumping code is not known. */
	if (!end || fgt_view_find_function(view, target, false, &function) < 0)
		return false;
	code_end = function.end - target < JUMP_BYTES_MAX
			   ? function.end
			   : target + JUMP_BYTES_MAX;
	/* Pieces overlap by the longest jump. */
	for (at = target; at < code_end; at += sizeof(code) - 8) {
		len = code_end - at < sizeof(code) ? code_end - at
						   : sizeof(code);
		len = fgt_view_read_code(view, at, code, len);
		if (fgt_arch_host.has_jump_to(code, len, at, start, end))
			return true;
	}
	return false;
}

/* 0: taken. If more stack is needed, need_end is set and no other slot is
 * tried: a worse one might look right. */
static enum fgt_marker try_candidate(struct slot_search *search,
				     const struct candidate *candidate)
{
	struct fgt_regs regs = *search->regs;
	enum fgt_marker reason;

	if (candidate->rank == JUMPED &&
	    !fgt_frame_pointer_is_jump(&search->walk->view, candidate->target,
				       search->start, search->end))
		return FGT_MARKER_TRUNCATED_NO_FP;
	fgt_regs_set(&regs, fgt_arch_host.fp, candidate->slot);
	reason = fgt_walk_run(search->walk, &regs);
	if (reason == FGT_MARKER_TRUNCATED_NO_STACK)
		search->need_end = search->walk->view.need_end;
	return reason;
}

static enum fgt_marker try_rank(struct slot_search *search, enum rank rank)
{
	enum fgt_marker reason;

	for (size_t i = 0; i < search->count; i++) {
		if (search->candidates[i].rank != rank)
			continue;
		reason = try_candidate(search, &search->candidates[i]);
		if (!reason || reason == FGT_MARKER_TRUNCATED_NO_STACK)
			return reason;
	}
	return FGT_MARKER_TRUNCATED_NO_FP;
}

/* Without rules: the nearest code before pc that sets up a frame pointer. */
static void guess_function(struct slot_search *search, uint64_t pc)
{
	const struct fgt_view *view = &search->walk->view;
	uint8_t code[ENTRY_BYTES];
	uint64_t first = pc - sizeof(code);

	if (fgt_view_read_code(view, first, code, sizeof(code)) !=
		    sizeof(code) ||
	    !fgt_arch_host.find_entry(code, sizeof(code), first,
				      &search->start))
		search->start = 0;
}

/* Learns about the function that asked. */
static void describe_function(struct slot_search *search)
{
	const struct fgt_frame_state *state = &search->walk->state;
	const struct fgt_view *view = &search->walk->view;
	uint8_t code[PROLOGUE_BYTES];
	struct fgt_image_function function;
	uint64_t locals;
	size_t len;

	if (fgt_view_find_function(view, state->pc - !state->is_exact, true,
				   &function) < 0) {
		guess_function(search, state->pc);
		return;
	}
	search->start = function.start;
	search->end = function.end;
	/* A leaf can be amidst its first or last instructions. */
	if (state->is_exact)
		return;
	len = function.end - function.start < sizeof(code)
		      ? function.end - function.start
		      : sizeof(code);
	len = fgt_view_read_code(view, function.start, code, len);
	locals = fgt_arch_host.locals_bytes
			 ? fgt_arch_host.locals_bytes(code, len)
			 : 0;
	search->predicted =
		state->sp + locals + function.saved * sizeof(uint64_t);
}

enum fgt_marker fgt_frame_pointer_recover(struct fgt_walk *walk,
					  const struct fgt_regs *regs)
{
	struct slot_search search = { .walk = walk, .regs = regs };
	uint64_t word;

	describe_function(&search);
	/* A large frame: its slot was not copied, and other slots would
	 * mislead. */
	if (search.predicted &&
	    fgt_view_read_stack(&walk->view, search.predicted + 8, &word) ==
		    -ENODATA)
		return FGT_MARKER_TRUNCATED_NO_FP;
	/* Below lie the locals: whatever looks right there is stale. */
	collect(&search, search.predicted ? search.predicted : walk->state.sp);
	for (enum rank rank = 0; rank < RANKS; rank++) {
		enum fgt_marker reason = try_rank(&search, rank);

		if (!reason)
			return 0;
		if (reason != FGT_MARKER_TRUNCATED_NO_STACK)
			continue;
		/* As much as is read at once: it led up all of that. */
		if (walk->view.snapshot->stack_len >= FGT_SNAPSHOT_MAX_BYTES)
			return reason;
		break;
	}
	walk->view.need_end = search.need_end;
	return FGT_MARKER_TRUNCATED_NO_FP;
}
