/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sample of a running thread holds a part of its stack. What lies further up
 * is read some time later, when the thread may be elsewhere: here is checked
 * what can be. Runs in the sampler's thread on snapshots.
 */
#include <string.h>

#include "agent/unwind/walk.h"

bool fgt_walk_is_unmoved(const struct fgt_walk *walk)
{
	const struct fgt_snapshot *snapshot = walk->view.snapshot;
	uint64_t sp = walk->state.sp, at, word;
	const struct fgt_unwound_frame *frame;
	size_t count = 0;

	while (fgt_arch_host.return_offset &&
	       (frame = fgt_frame_list_back(&walk->list, count))) {
		/* Frames lie less than 4 GiB apart. */
		sp -= (uint32_t)sp - frame->sp_low;
		at = sp + (uint64_t)(int64_t)fgt_arch_host.return_offset -
		     snapshot->stack_start;
		if (!(frame->flags & FGT_FRAME_CALLER) ||
		    at > snapshot->stack_len ||
		    snapshot->stack_len - at < sizeof(word))
			break;
		memcpy(&word, snapshot->stack + at, sizeof(word));
		if (word != frame->pc)
			return false;
		count++;
	}
	return count > 0;
}

static bool does_call_match(const struct fgt_view *view,
			    const struct fgt_unwound_frame *callee,
			    const struct fgt_unwound_frame *caller)
{
	uint64_t pc = callee->pc - (callee->flags & FGT_FRAME_CALLER);
	struct fgt_image_function function;
	uint64_t target;

	if (!fgt_view_find_call(view, caller->pc, &target))
		return false;
	if (!target || fgt_view_find_function(view, pc, false, &function) < 0)
		return true;
	return target == function.start ||
	       fgt_frame_pointer_is_jump(view, target, function.start,
					 function.end);
}

bool fgt_walk_is_fixed_call(const struct fgt_walk *walk,
			    const struct fgt_unwound_frame *callee,
			    const struct fgt_unwound_frame *caller)
{
	uint64_t pc = callee->pc - (callee->flags & FGT_FRAME_CALLER);
	struct fgt_image_function function;
	uint64_t target;

	if (!(caller->flags & FGT_FRAME_CALLER) ||
	    ((callee->flags | caller->flags) & FGT_FRAME_MARKER))
		return false;
	return fgt_view_find_call(&walk->view, caller->pc, &target) && target &&
	       fgt_view_find_function(&walk->view, pc, false, &function) == 0 &&
	       target == function.start;
}

bool fgt_walk_calls_match(const struct fgt_walk *walk,
			  const struct fgt_unwound_frame *frames, size_t first,
			  size_t count)
{
	for (size_t i = first; i < count; i++) {
		const struct fgt_unwound_frame *callee = &frames[i - 1];

		/* What a signal interrupted has called nothing. */
		if (!(frames[i].flags & FGT_FRAME_CALLER) ||
		    (callee->flags & FGT_FRAME_MARKER))
			continue;
		/* Of a recursion, one in a row is enough. */
		if (i > first && callee->pc == frames[i - 2].pc &&
		    frames[i].pc == callee->pc)
			continue;
		if (!does_call_match(&walk->view, callee, &frames[i]) ||
		    fgt_walk_is_late(walk))
			return false;
	}
	return true;
}
