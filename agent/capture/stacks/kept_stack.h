/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stack that is kept of a thread, for ticks at which it cannot be read.
 */
#ifndef FGT_AGENT_CAPTURE_STACKS_KEPT_STACK_H
#define FGT_AGENT_CAPTURE_STACKS_KEPT_STACK_H

#include <stddef.h>
#include <stdint.h>

#include "ringbuf/slice/frame.h"

struct fgt_kept_stack {
	/* [1 + count], leaf first: the first one is room for a marker. */
	struct fgt_frame *frames;
	uint32_t count, capacity; /* without that one */
	uint64_t generation; /* of the images that frames name */
};

/* Copies frames without their leading markers; without memory keeps nothing. */
void fgt_kept_stack_set(struct fgt_kept_stack *kept,
			const struct fgt_frame *frames, size_t count,
			uint64_t generation);
/*
 * The frames, below a leaf marker unless that is 0; valid until the kept stack
 * is set or shown again. NULL: there is none of this generation.
 */
const struct fgt_frame *fgt_kept_stack_show(const struct fgt_kept_stack *kept,
					    uint64_t generation,
					    enum fgt_marker leaf,
					    size_t *ret_count);
void fgt_kept_stack_done(struct fgt_kept_stack *kept);

#endif
