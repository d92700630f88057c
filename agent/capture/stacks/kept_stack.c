/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kept stacks. Runs in the sampler's thread.
 */
#include "agent/capture/stacks/kept_stack.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool grow(struct fgt_kept_stack *kept, size_t count)
{
	struct fgt_frame *grown =
		reallocarray(kept->frames, count + 1, sizeof(*grown));

	if (!grown)
		return false;
	kept->frames = grown;
	kept->capacity = (uint32_t)count;
	return true;
}

void fgt_kept_stack_set(struct fgt_kept_stack *kept,
			const struct fgt_frame *frames, size_t count,
			uint64_t generation)
{
	size_t markers = 0;

	while (markers < count && (frames[markers].flags & FGT_FRAME_MARKER))
		markers++;
	count -= markers;
	kept->count = 0;
	if (count > kept->capacity && !grow(kept, count))
		return;
	if (count)
		memcpy(kept->frames + 1, frames + markers,
		       count * sizeof(*frames));
	kept->count = (uint32_t)count;
	kept->generation = generation;
}

const struct fgt_frame *fgt_kept_stack_show(const struct fgt_kept_stack *kept,
					    uint64_t generation,
					    enum fgt_marker leaf,
					    size_t *ret_count)
{
	if (!kept->count || kept->generation != generation)
		return NULL;
	if (!leaf) {
		*ret_count = kept->count;
		return kept->frames + 1;
	}
	kept->frames[0] = (struct fgt_frame){ .address = leaf,
					      .flags = FGT_FRAME_MARKER };
	*ret_count = kept->count + 1;
	return kept->frames;
}

void fgt_kept_stack_done(struct fgt_kept_stack *kept)
{
	free(kept->frames);
	*kept = (struct fgt_kept_stack){ 0 };
}
