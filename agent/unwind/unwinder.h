/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns snapshots of one target into stacks.
 * Sees snapshots and mapped files, never a live thread, never runs in a
 * signal handler.
 */
#ifndef FGT_AGENT_UNWIND_UNWINDER_H
#define FGT_AGENT_UNWIND_UNWINDER_H

#include "agent/unwind/arch/snapshot.h"
#include "agent/unwind/maps/image_file.h"
#include "agent/unwind/maps/maps.h"
#include "ringbuf/slice/frame.h"

struct fgt_unwinder;

struct fgt_unwind_stats {
	uint64_t stacks; /* unwound */
	uint64_t complete; /* reached the thread's root */
	uint64_t fp_needed; /* blocked snapshots that asked for an unknown
				 * frame pointer */
	uint64_t fp_recovered;
	uint64_t truncated[FGT_MARKER_COUNT]; /* by FGT_MARKER_TRUNCATED_* */
};

/* A frame before it is interned: the image is one of the maps' images. */
struct fgt_unwound_frame {
	uint64_t pc;
	uint32_t flags; /* FGT_FRAME_CALLER, FGT_FRAME_MARKER (pc: marker) */
	uint32_t sp_low; /* low half of its SP, after its callee has returned */
};

/*
 * One per target. The cache is the one that all targets share, with the rows of
 * their files. It must outlive the unwinder, and all unwinders of one cache
 * belong to the sampler thread. -ENOMEM.
 */
int fgt_unwinder_new(struct fgt_image_cache *cache, unsigned int max_depth,
		     struct fgt_unwinder **ret_unwinder);
void fgt_unwinder_free(struct fgt_unwinder *unwinder);
FGT_DEFINE_AUTO(struct fgt_unwinder *, fgt_unwinder_free);

/* Unwinds only by libunwind from now on: slower, for comparisons. */
void fgt_unwinder_leave_rows(struct fgt_unwinder *unwinder);

/* The maps have changed (exec, dlopen, dlclose): rules are read again. */
void fgt_unwinder_forget(struct fgt_unwinder *unwinder);

/*
 * Unwinds. frames[capacity] is filled leaf first; capacity ≥ max_depth + 2.
 * Deeper stacks keep the leaf part and the root part (5 : 1) with
 * FGT_MARKER_ELIDED between; a stack that does not reach the root ends with
 * an FGT_MARKER_TRUNCATED_* frame. Always at least one frame.
 *
 * MT-Unsafe (one thread per cache) | AS-Unsafe
 */
struct fgt_unwind_result {
	size_t count; /* of frames */
	/* Where the stack copied was too short: call again with so much from
	 * SP. */
	size_t need_bytes;
	uint64_t need_other; /* or 0: copy need_other_bytes from this address
			      * too (alternate stack) and call again */
	size_t need_other_bytes;
	/* A rule asked for a register that the snapshot lacks: one of
	 * fgt_arch.call_args may be it. */
	bool need_args;
	bool need_maps; /* a PC lay outside the maps: they may be stale */
	bool is_complete;
	enum fgt_marker reason; /* 0 if complete */
	/* Of FGT_MARKER_TRUNCATED_NO_STACK: where the stack that is missing
	 * begins; 0: going on there is no help. */
	uint64_t next_sp;
	/*
	 * Frames from this one on come from words that were read later than
	 * the registers; 0: none. is_later_checked: each was left by a call of
	 * the one before it, as far as that can be known.
	 */
	size_t later_first;
	bool is_later_checked;
};
void fgt_unwind(struct fgt_unwinder *unwinder, const struct fgt_maps *maps,
		const struct fgt_snapshot *snapshot,
		struct fgt_unwound_frame *frames, size_t capacity,
		struct fgt_unwind_result *ret_result);

/*
 * Goes on where the last stack of this unwinder ended for want of copied stack:
 * snapshot has the stack from next_sp on, and its registers are not looked at.
 * The frames that are kept by then stay. is_later: the thread runs, and this
 * piece was read after the first: it begins FGT_UNWIND_OVERLAP_BYTES before
 * next_sp, or where the former piece did, to see whether it has moved.
 */
#define FGT_UNWIND_OVERLAP_BYTES 4096u
void fgt_unwind_go_on(struct fgt_unwinder *unwinder,
		      const struct fgt_maps *maps,
		      const struct fgt_snapshot *snapshot, bool is_later,
		      struct fgt_unwind_result *ret_result);

/* The last stack is shown as one that ends for that reason after all. */
void fgt_unwinder_take_back(struct fgt_unwinder *unwinder,
			    enum fgt_marker reason);

/* Do the unwind rules of a file show both addresses (of the file) in one
 * function? MT-Unsafe (one thread per cache) | AS-Unsafe */
bool fgt_unwind_is_one_function(struct fgt_image_file *file, uint64_t one,
				uint64_t other);

/* Does frames[i] of the last stack return from a call that can only lead to the
 * function of frames[i - 1]: neither through a pointer, nor by another
 * function's jump? False once the maps have changed.
 * MT-Unsafe (one thread per cache) | AS-Unsafe */
bool fgt_unwinder_is_fixed_call(const struct fgt_unwinder *unwinder, size_t i);

/* The last stack was none: it does not count. */
void fgt_unwinder_drop_last(struct fgt_unwinder *unwinder);

void fgt_unwinder_get_stats(const struct fgt_unwinder *unwinder,
			    struct fgt_unwind_stats *ret_stats);

#endif
