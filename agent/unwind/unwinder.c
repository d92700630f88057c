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
/* One in six frames kept is of the root part, five are of the leaf part. */
#define ROOT_SHARE 6u

struct fgt_unwinder {
	struct fgt_cfi_stepper *stepper;
	struct fgt_cfi_rows *rows; /* the cache's; NULL: unused */
	struct fgt_view_places places;
	unsigned int max_depth;
	struct fgt_unwind_stats stats;
	/* The last result asked for more stack: counted unless the same is
	 * unwound again with more. */
	struct outcome {
		enum fgt_marker reason;
		bool is_fp_needed, is_fp_recovered;
		uint64_t sp;
		size_t copied; /* bytes of both stacks */
	} pending;
	bool is_pending;
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
}

/* ---- Both ends of a stack of any depth, in a fixed array ---------------- */

/* frames[capacity], capacity ≥ 3, of which max_depth are kept. */
static void init_list(struct fgt_frame_list *list,
		      struct fgt_unwound_frame *frames, size_t capacity,
		      size_t max_depth)
{
	/* Two slots are for the markers. */
	if (max_depth > capacity - 2)
		max_depth = capacity - 2;
	if (!max_depth)
		max_depth = 1;
	list->frames = frames;
	list->root_max = max_depth / ROOT_SHARE;
	list->leaf_max = max_depth - list->root_max;
	list->seen = 0;
}

void fgt_frame_list_push_deep(struct fgt_frame_list *list, uint64_t pc,
			      uint32_t flags)
{
	size_t i = list->seen++;

	list->last = NULL;
	if (!list->root_max)
		return;
	i = list->leaf_max + (i - list->leaf_max) % list->root_max;
	list->frames[i].pc = pc;
	list->frames[i].flags = flags;
	list->last = &list->frames[i];
}

static void reverse(struct fgt_unwound_frame *frames, size_t count)
{
	struct fgt_unwound_frame swap;

	for (size_t i = 0; i < count / 2; i++) {
		swap = frames[i];
		frames[i] = frames[count - 1 - i];
		frames[count - 1 - i] = swap;
	}
}

/* Puts the parts in order and adds the markers; reason 0: complete. */
static size_t finish_list(struct fgt_frame_list *list, enum fgt_marker reason)
{
	struct fgt_unwound_frame *root = list->frames + list->leaf_max;
	size_t count = list->seen, first;

	if (count > list->leaf_max + list->root_max) {
		/* Three reversals turn the ring so that its oldest is first. */
		first = list->root_max
				? (count - list->leaf_max) % list->root_max
				: 0;
		reverse(root, first);
		reverse(root + first, list->root_max - first);
		reverse(root, list->root_max);
		memmove(root + 1, root, list->root_max * sizeof(*root));
		root->pc = FGT_MARKER_ELIDED;
		root->flags = FGT_FRAME_MARKER;
		count = list->leaf_max + 1 + list->root_max;
	}
	if (reason) {
		list->frames[count].pc = reason;
		list->frames[count].flags = FGT_FRAME_MARKER;
		count++;
	}
	return count;
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

/* The same for the stack on which a signal found the thread. */
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
	if (!reason) {
		outcome->is_fp_recovered = true;
		return 0;
	}
	/* The frames up to the one that asked are sure: get them back. */
	missing = walk->view;
	fgt_walk_run(walk, regs);
	walk->view.need_end = missing.need_end;
	walk->view.need_other_end = missing.need_other_end;
	walk->view.other_start = missing.other_start;
	return reason;
}

static void count_outcome(struct fgt_unwind_stats *stats,
			  const struct outcome *outcome)
{
	stats->stacks++;
	if (outcome->reason)
		stats->truncated[outcome->reason]++;
	else
		stats->complete++;
	stats->fp_needed += outcome->is_fp_needed;
	stats->fp_recovered += outcome->is_fp_recovered;
}

/* Counts each stack once, even if it was unwound again with more memory. */
static void take_outcome(struct fgt_unwinder *unwinder,
			 const struct outcome *outcome, bool is_final)
{
	const struct outcome *pending = &unwinder->pending;
	bool is_retry = pending->sp == outcome->sp &&
			pending->copied < outcome->copied;

	if (unwinder->is_pending && !is_retry)
		count_outcome(&unwinder->stats, &unwinder->pending);
	unwinder->is_pending = !is_final;
	if (is_final)
		count_outcome(&unwinder->stats, outcome);
	else
		unwinder->pending = *outcome;
}

void fgt_unwind(struct fgt_unwinder *unwinder, const struct fgt_maps *maps,
		const struct fgt_snapshot *snapshot,
		struct fgt_unwound_frame *frames, size_t capacity,
		struct fgt_unwind_result *ret_result)
{
	struct fgt_unwind_result result = { .count = 0 };
	struct fgt_walk walk = { .stepper = unwinder->stepper };
	struct outcome outcome = {
		.sp = snapshot->regs.value[fgt_arch_host.sp],
		.copied = snapshot->stack_len + snapshot->other_len,
	};
	enum fgt_marker reason;

	fgt_view_init(&walk.view, maps, snapshot, &unwinder->places,
		      unwinder->rows);
	init_list(&walk.list, frames, capacity, unwinder->max_depth);
	reason = fgt_walk_run(&walk, &snapshot->regs);
	if (reason && walk.is_fp_unknown)
		reason = recover(&walk, &snapshot->regs, &outcome);
	result.count = finish_list(&walk.list, reason);
	result.reason = reason;
	result.is_complete = !reason;
	result.need_maps = walk.need_maps;
	if (reason) {
		result.need_args = walk.need_args && snapshot->is_blocked;
		result.need_bytes = bytes_to_ask_for(&walk);
		result.need_other_bytes = other_bytes_to_ask_for(&walk);
	}
	if (result.need_other_bytes)
		result.need_other = walk.view.other_start;
	outcome.reason = reason;
	take_outcome(unwinder, &outcome,
		     !result.need_bytes && !result.need_other);
	*ret_result = result;
}

void fgt_unwinder_get_stats(const struct fgt_unwinder *unwinder,
			    struct fgt_unwind_stats *ret_stats)
{
	*ret_stats = unwinder->stats;
	if (unwinder->is_pending)
		count_outcome(ret_stats, &unwinder->pending);
}
