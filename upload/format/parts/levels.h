/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stack as readers see it: one level per function, inlined calls included,
 * with markers and the state frame.
 *
 * MT-Unsafe for one struct fgt_levels | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_LEVELS_H
#define FGT_UPLOAD_FORMAT_PARTS_LEVELS_H

#include "ringbuf/slice/slice.h"
#include "upload/format/parts/options.h"

/* Levels of the deepest stack that is shown whole. */
#define FGT_LEVELS_MAX	   4096
#define FGT_LEVEL_NAME_MAX 128

enum fgt_level_kind {
	FGT_LEVEL_FUNCTION, /* id: string id of its name */
	FGT_LEVEL_ADDRESS, /* no symbol; id: frame of the slice */
	FGT_LEVEL_MARKER, /* id: enum fgt_marker */
	FGT_LEVEL_STATE, /* id: string id of its name, 0 if it has none */
	FGT_LEVEL_NO_STACK, /* unknown stack; id 0 */
	FGT_LEVEL_GAP, /* no samples; id 0 */
	FGT_LEVEL_RAN, /* running, known from context switches only; id 0 */
	FGT_LEVEL_BLOCKED, /* likewise */
};

/* Two levels show the same thing when kind and id are equal. */
struct fgt_level {
	uint32_t kind; /* enum fgt_level_kind */
	uint32_t id;
};

static inline bool fgt_level_is_equal(struct fgt_level a, struct fgt_level b)
{
	return a.kind == b.kind && a.id == b.id;
}

/* For tables that number levels. */
static inline uint64_t fgt_level_key(struct fgt_level level)
{
	return (uint64_t)level.kind << 32 | level.id;
}

static inline struct fgt_level fgt_level_of_key(uint64_t key)
{
	return (struct fgt_level){ (uint32_t)(key >> 32), (uint32_t)key };
}

struct fgt_levels {
	const struct fgt_ring_slice *slice;
	enum fgt_state_frames state_frames;
	uint32_t max; /* deeper stacks lose their middle */
	struct fgt_level *items; /* leaf first */
	uint32_t count;
};

/* max: 8 … FGT_LEVELS_MAX. -ENOMEM. */
int fgt_levels_init(struct fgt_levels *levels,
		    const struct fgt_ring_slice *slice,
		    enum fgt_state_frames state_frames, uint32_t max);
void fgt_levels_done(struct fgt_levels *levels);

/* Replaces the levels by those of a leaf node and a state. */
void fgt_levels_expand(struct fgt_levels *levels, uint32_t stack,
		       uint32_t state);

/* The same without a state. */
void fgt_levels_expand_bare(struct fgt_levels *levels, uint32_t stack);

/*
 * Replaces the levels by those of a thread in a state between two ticks,
 * without a sample: the stack that it was last seen with in that state, below a
 * marker. FGT_NODE_NONE: it was not seen so.
 */
void fgt_levels_expand_unsampled(struct fgt_levels *levels, uint32_t stack,
				 uint32_t state);

/* How many levels a frame of the slice has: inlined calls count. */
uint32_t fgt_levels_of_frame(const struct fgt_ring_slice *slice,
			     uint32_t frame);
/* One of them, 0 is the innermost. */
struct fgt_level fgt_level_of_frame(const struct fgt_ring_slice *slice,
				    uint32_t frame, uint32_t index);

/* A thread's name, "thread TID" if it has none; buffer is used for that. */
const char *fgt_level_thread_name(const struct fgt_ring_slice *slice,
				  const struct fgt_slice_thread *thread,
				  char buffer[FGT_LEVEL_NAME_MAX]);

/* Whether its leaf is the marker of fgt_levels_expand_unsampled() already. */
bool fgt_levels_are_marked(const struct fgt_ring_slice *slice, uint32_t stack);

/* What shows a state; is_sampled: at a tick. Between ticks one that is unknown
 * is that of a blocked thread. */
struct fgt_level fgt_level_of_state(const struct fgt_ring_slice *slice,
				    uint32_t state, bool is_sampled);

/* String id of the state's name, 0 if it has none. */
uint32_t fgt_levels_state_name(const struct fgt_ring_slice *slice,
			       uint32_t state);

/*
 * Never NULL nor empty; buffer is used for a name that is made here.
 *
 * MT-Safe | AS-Unsafe
 */
const char *fgt_level_name(const struct fgt_ring_slice *slice,
			   struct fgt_level level,
			   char buffer[FGT_LEVEL_NAME_MAX]);

#endif
