/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a look at one thread at one tick has found; tick.c writes it to the
 * ring.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_VERDICT_H
#define FGT_AGENT_CAPTURE_LOOK_VERDICT_H

#include <stdint.h>

#include "ringbuf/slice/frame.h"

enum fgt_verdict_kind {
	FGT_VERDICT_AS_BEFORE, /* the stack and state of the tick before */
	FGT_VERDICT_STACK, /* frames, in state */
	FGT_VERDICT_MARKED, /* the ring's stack below leaf, in state */
	FGT_VERDICT_ENDED, /* no tick has this thread any more */
};

enum fgt_refusal {
	FGT_REFUSAL_NONE,
	FGT_REFUSAL_OF_TARGET, /* it may not be read, perhaps for a short time */
	/* The program that records itself is not dumpable. */
	FGT_REFUSAL_NOT_DUMPABLE,
};

struct fgt_verdict {
	enum fgt_verdict_kind kind;
	enum fgt_refusal refusal;
	uint32_t state;
	enum fgt_marker leaf;
	/* Borrowed: of the tick, or kept of the thread. */
	const struct fgt_frame *frames;
	size_t frame_count;
	uint32_t credit_ticks; /* so many before this one belong to it */
	/* These ticks before this one had that stack, running. */
	uint32_t past_ticks;
	const struct fgt_frame *past_frames;
	size_t past_count;
	/* When it got a CPU first, and left one last, since the tick before;
	 * 0: not known. */
	uint64_t on_ns, off_ns;
};

static inline struct fgt_verdict
fgt_verdict_stack(const struct fgt_frame *frames, size_t count, uint32_t state)
{
	return (struct fgt_verdict){
		.kind = FGT_VERDICT_STACK,
		.state = state,
		.frames = frames,
		.frame_count = count,
	};
}

#endif
