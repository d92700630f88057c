/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unwinder of one target: walks, recovers frame pointers, counts. Runs in
 * the sampler's thread; must not look at a live process.
 */
#include "agent/unwind/unwinder.h"

#include <errno.h>
#include <string.h>

#include "agent/unwind/walk.h"

#define PAGE_BYTES 4096u

struct fgt_unwinder {
	struct fgt_cfi_stepper *stepper;
	struct fgt_cfi_rows *rows; /* the cache's; NULL: unused */
	const uint64_t *late; /* the cache's */
	struct fgt_view_places places;
	struct fgt_walk walk; /* the last one */
	unsigned int max_depth;
	struct fgt_unwind_stats stats;
	struct outcome {
		enum fgt_marker reason;
		bool is_fp_needed, is_fp_recovered;
		uint64_t sp;
		size_t copied; /* bytes of both stacks */
	} last;
	/* The last result asked for more stack: counted unless the same is
	 * unwound again with more. */
	bool is_pending;
	size_t later_seen; /* frames before those read later; 0: none is */
};

int fgt_unwinder_new(struct fgt_image_cache *cache, unsigned int max_depth,
		     struct fgt_unwinder **ret_unwinder)
{
	FGT_AUTO(fgt_unwinder_free) struct fgt_unwinder *unwinder = NULL;
	int r;

	unwinder = calloc(1, sizeof(*unwinder));
	if (!unwinder)
		return -ENOMEM;
	unwinder->max_depth = max_depth;
	if (unwinder->max_depth > FGT_STACK_DEPTH_MAX)
		unwinder->max_depth = FGT_STACK_DEPTH_MAX;
	unwinder->rows = fgt_image_cache_rows(cache);
	unwinder->late = fgt_image_cache_late(cache);
	r = fgt_cfi_stepper_new(&unwinder->stepper);
	if (r < 0)
		return r;
	*ret_unwinder = FGT_TAKE(unwinder);
	return 0;
}

void fgt_unwinder_free(struct fgt_unwinder *unwinder)
{
	if (!unwinder)
		return;
	fgt_cfi_stepper_free(unwinder->stepper);
	free(unwinder);
}

void fgt_unwinder_leave_rows(struct fgt_unwinder *unwinder)
{
	unwinder->rows = NULL;
}

void fgt_unwinder_forget(struct fgt_unwinder *unwinder)
{
	fgt_cfi_stepper_forget(unwinder->stepper);
	/* They may have been replaced since the last stack was unwound. */
	unwinder->walk.view.maps = NULL;
}

/* ---- One stack ---------------------------------------------------------- */

/*
 * How much to copy next time: what was missed, and twice as much as now, so
 * that few calls are enough. 0 if there is no more.
 */
static size_t bytes_to_ask_for(const struct fgt_walk *walk)
{
	const struct fgt_snapshot *snapshot = walk->view.snapshot;
	uint64_t sp = snapshot->regs.value[fgt_arch_host.sp];
	uint64_t have = snapshot->stack_start + snapshot->stack_len - sp;
	uint64_t most = fgt_view_stack_end(&walk->view) - sp;
	uint64_t need = walk->view.need_end - sp;

	if (walk->view.need_end <= sp || need > FGT_SNAPSHOT_MAX_BYTES)
		return 0;
	if (need < 2 * have)
		need = 2 * have;
	need = (need + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
	if (need > most)
		need = most;
	if (need > FGT_SNAPSHOT_MAX_BYTES)
		need = FGT_SNAPSHOT_MAX_BYTES;
	return need > have ? need : 0;
}

/* Where more of the stack would have to be read, in another piece. */
static uint64_t next_sp_of(const struct fgt_walk *walk)
{
	const struct fgt_view *view = &walk->view;
	uint64_t sp = walk->state.sp;

	return !view->need_other_end && !walk->is_by_libunwind &&
			       sp >= view->snapshot->stack_start &&
			       sp < fgt_view_stack_end(view)
		       ? sp
		       : 0;
}

/* How much to copy of the stack on which a signal found the thread. */
static size_t other_bytes_to_ask_for(const struct fgt_walk *walk)
{
	const struct fgt_view *view = &walk->view;
	uint64_t have, need = view->need_other_end - view->other_start;

	if (!view->need_other_end)
		return 0;
	have = view->snapshot->other_start == view->other_start
		       ? view->snapshot->other_len
		       : 0;
	if (need < 2 * have)
		need = 2 * have;
	if (need < FGT_SNAPSHOT_FIRST_BYTES)
		need = FGT_SNAPSHOT_FIRST_BYTES;
	if (need > FGT_SNAPSHOT_MAX_BYTES)
		need = FGT_SNAPSHOT_MAX_BYTES;
	return need > have ? need : 0;
}

static enum fgt_marker recover(struct fgt_walk *walk,
			       const struct fgt_regs *regs,
			       struct outcome *outcome)
{
	enum fgt_marker reason;
	struct fgt_view missing;

	outcome->is_fp_needed = true;
	reason = fgt_frame_pointer_recover(walk, regs);
	/* A slot may have been passed over for want of an answer. */
	if (fgt_walk_is_late(walk)) {
		reason = FGT_MARKER_TRUNCATED_LATE;
	} else if (!reason || reason == FGT_MARKER_TRUNCATED_NO_STACK) {
		outcome->is_fp_recovered = true;
		return reason;
	}
	/* The frames up to the one that asked are sure: get them back. */
	missing = walk->view;
	fgt_walk_ask_again(walk);
	fgt_walk_run(walk, regs);
	walk->view.need_end = missing.need_end;
	walk->view.need_other_end = missing.need_other_end;
	walk->view.other_start = missing.other_start;
	return reason;
}

/* by: 1, or -1 to take it off again. */
static void count_outcome(struct fgt_unwind_stats *stats,
			  const struct outcome *outcome, int by)
{
	const uint64_t step = (uint64_t)(int64_t)by;

	stats->stacks += step;
	if (outcome->reason)
		stats->truncated[outcome->reason] += step;
	else
		stats->complete += step;
	if (outcome->is_fp_needed)
		stats->fp_needed += step;
	if (outcome->is_fp_recovered)
		stats->fp_recovered += step;
}

/* Counts each stack once, even if it was unwound again with more memory. */
static void take_outcome(struct fgt_unwinder *unwinder,
			 const struct outcome *outcome, bool is_final)
{
	const struct outcome *last = &unwinder->last;
	bool is_retry = last->sp == outcome->sp &&
			last->copied < outcome->copied;

	if (unwinder->is_pending && !is_retry)
		count_outcome(&unwinder->stats, last, 1);
	unwinder->is_pending = !is_final;
	unwinder->last = *outcome;
	if (is_final)
		count_outcome(&unwinder->stats, outcome, 1);
}

void fgt_unwinder_take_back(struct fgt_unwinder *unwinder,
			    enum fgt_marker reason)
{
	if (!unwinder->is_pending)
		count_outcome(&unwinder->stats, &unwinder->last, -1);
	unwinder->is_pending = false;
	unwinder->last.reason = reason;
	count_outcome(&unwinder->stats, &unwinder->last, 1);
}

/* The frame after the one that a signal found on the other stack. */
static size_t find_interrupted(const struct fgt_walk *walk, size_t count)
{
	const struct fgt_unwound_frame *frames = walk->list.frames;

	for (size_t i = 1; i < count; i++)
		if (!frames[i].flags &&
		    frames[i].sp_low == (uint32_t)walk->view.other_start)
			return i + 1;
	return walk->list.leaf_max;
}

static void check_later(struct fgt_unwinder *unwinder,
			struct fgt_unwind_result *result)
{
	const struct fgt_walk *walk = &unwinder->walk;
	const struct fgt_unwound_frame *frames = walk->list.frames;
	size_t first = unwinder->later_seen;

	if (walk->view.snapshot->is_other_later && walk->view.other_start)
		first = find_interrupted(walk, result->count);
	/* Where the marker between the two parts stands, if there is one. */
	if (first > walk->list.leaf_max &&
	    walk->list.seen > walk->list.leaf_max + walk->list.root_max)
		first = walk->list.leaf_max;
	if (!first || first >= result->count)
		return;
	result->later_first =
		first + (frames[first].flags & FGT_FRAME_MARKER ? 1 : 0);
	result->is_later_checked = result->is_complete &&
				   fgt_walk_calls_match(walk, frames,
							result->later_first,
							result->count);
}

/* Of unwinder->walk, which has ended. */
static void make_result(struct fgt_unwinder *unwinder, enum fgt_marker reason,
			struct fgt_unwind_result *ret_result)
{
	struct fgt_walk *walk = &unwinder->walk;
	struct fgt_unwind_result result = {
		.count = fgt_frame_list_finish(&walk->list, reason),
		.reason = reason,
		.is_complete = !reason,
		.need_maps = walk->need_maps,
	};

	if (reason) {
		result.need_args = walk->need_args &&
				   walk->view.snapshot->is_blocked;
		result.need_bytes = bytes_to_ask_for(walk);
		result.need_other_bytes = other_bytes_to_ask_for(walk);
	}
	if (result.need_other_bytes)
		result.need_other = walk->view.other_start;
	if (reason == FGT_MARKER_TRUNCATED_NO_STACK)
		result.next_sp = next_sp_of(walk);
	check_later(unwinder, &result);
	*ret_result = result;
}

void fgt_unwind(struct fgt_unwinder *unwinder, const struct fgt_maps *maps,
		const struct fgt_snapshot *snapshot,
		struct fgt_unwound_frame *frames, size_t capacity,
		struct fgt_unwind_result *ret_result)
{
	struct fgt_walk *walk = &unwinder->walk;
	struct outcome outcome = {
		.sp = snapshot->regs.value[fgt_arch_host.sp],
		.copied = snapshot->stack_len + snapshot->other_len,
	};

	*walk = (struct fgt_walk){ .stepper = unwinder->stepper,
				   .late = unwinder->late };
	fgt_walk_ask_again(walk);
	unwinder->later_seen = 0;
	fgt_view_init(&walk->view, maps, snapshot, &unwinder->places,
		      unwinder->rows);
	fgt_frame_list_init(&walk->list, frames, capacity, unwinder->max_depth);
	outcome.reason = fgt_walk_run(walk, &snapshot->regs);
	if (outcome.reason && walk->is_fp_unknown &&
	    outcome.reason != FGT_MARKER_TRUNCATED_LATE)
		outcome.reason = recover(walk, &snapshot->regs, &outcome);
	make_result(unwinder, outcome.reason, ret_result);
	take_outcome(unwinder, &outcome,
		     !ret_result->need_bytes && !ret_result->need_other);
}

void fgt_unwind_go_on(struct fgt_unwinder *unwinder,
		      const struct fgt_maps *maps,
		      const struct fgt_snapshot *snapshot, bool is_later,
		      struct fgt_unwind_result *ret_result)
{
	struct fgt_walk *walk = &unwinder->walk;
	enum fgt_marker reason = FGT_MARKER_TRUNCATED_NO_STACK;

	fgt_view_init(&walk->view, maps, snapshot, &unwinder->places,
		      unwinder->rows);
	fgt_frame_list_reopen(&walk->list);
	fgt_walk_ask_again(walk);
	if (is_later && !unwinder->later_seen)
		unwinder->later_seen = walk->list.seen;
	if (!is_later || fgt_walk_is_unmoved(walk))
		reason = fgt_walk_go_on(walk);
	make_result(unwinder, reason, ret_result);
	ret_result->need_bytes = 0;
	fgt_unwinder_take_back(unwinder, reason);
}

bool fgt_unwinder_is_fixed_call(const struct fgt_unwinder *unwinder, size_t i)
{
	const struct fgt_walk *walk = &unwinder->walk;

	return walk->view.maps &&
	       fgt_walk_is_fixed_call(walk, &walk->list.frames[i - 1],
				      &walk->list.frames[i]);
}

void fgt_unwinder_drop_last(struct fgt_unwinder *unwinder)
{
	if (!unwinder->is_pending)
		count_outcome(&unwinder->stats, &unwinder->last, -1);
	unwinder->is_pending = false;
}

void fgt_unwinder_get_stats(const struct fgt_unwinder *unwinder,
			    struct fgt_unwind_stats *ret_stats)
{
	*ret_stats = unwinder->stats;
	if (unwinder->is_pending)
		count_outcome(ret_stats, &unwinder->last, 1);
}

bool fgt_unwind_is_one_function(struct fgt_image_file *file, uint64_t one,
				uint64_t other)
{
	struct fgt_image_function function;

	return fgt_image_file_find_function(file, one, false, &function) == 0 &&
	       other >= function.start && other < function.end;
}
