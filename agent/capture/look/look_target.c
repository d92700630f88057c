/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts by stacks that were kept. Runs in the sampler's thread.
 */
#include "agent/capture/look/look_target.h"

struct fgt_verdict fgt_look_kept(const struct fgt_look *target,
				 const struct fgt_kept_stack *kept,
				 uint32_t state, enum fgt_marker leaf)
{
	const struct fgt_frame *frames;
	size_t count;

	frames = fgt_kept_stack_show(kept, target->stacks.generation, leaf,
				     &count);
	if (frames)
		return fgt_verdict_stack(frames, count, state);
	return (struct fgt_verdict){
		.kind = FGT_VERDICT_MARKED,
		.state = state,
		.leaf = leaf ? leaf : FGT_MARKER_NOT_SAMPLED,
	};
}
