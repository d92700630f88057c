/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From snapshots of one target to frames of its ring: the maps as they are
 * now, the unwinder, and which image has which number in the ring.
 *
 * Runs in the sampler's thread, except that the thread that attaches a target
 * makes its stacks. MT-Unsafe for one target | AS-Unsafe
 */
#ifndef FGT_AGENT_CAPTURE_STACKS_STACKS_H
#define FGT_AGENT_CAPTURE_STACKS_STACKS_H

#include "agent/capture/stacks/readable.h"
#include "agent/unwind/unwinder.h"
#include "ringbuf/ring/ring.h"

struct fgt_stacks {
	const struct fgt_process *process; /* borrowed */
	struct fgt_image_cache *cache; /* borrowed */
	struct fgt_ring *ring; /* borrowed */
	struct fgt_maps *maps; /* NULL: not readable */
	struct fgt_unwinder *unwinder;
	uint32_t *ring_images; /* by image of maps; FGT_IMAGE_NONE: not yet */
	size_t image_count;
	uint64_t generation; /* grows when images get other numbers */
	uint64_t read_ns; /* when maps were read */
	uint64_t cost_ns; /* CPU time of a reading that finds nothing new */
	uint64_t patience_ns; /* between two readings that found nothing new */
	bool is_stale; /* the maps may have changed */
	bool is_unanswered; /* as of maps */
	/* The stack of a blocked thread was cut, since a rule was not read yet;
	 * cleared when such threads are looked at again. */
	bool is_late;
	bool is_foreign; /* another process: its files may block a reader */
	struct fgt_readable readable;
	struct fgt_unwound_frame *unwound;
	size_t capacity; /* of a stack, in frames */
};

/* Frames that a stack may have, markers included. max_depth 0: the default. */
size_t fgt_stacks_capacity(unsigned int max_depth);

int fgt_stacks_init(struct fgt_stacks *stacks,
		    const struct fgt_process *process,
		    struct fgt_image_cache *cache, struct fgt_ring *ring,
		    unsigned int max_depth);
void fgt_stacks_done(struct fgt_stacks *stacks);

/*
 * Reads the maps again: 1 they differ, 0 they are as before. After an error
 * (-ESRCH, -EACCES …) the old ones stay. is_other_program: forget them.
 */
int fgt_stacks_refresh(struct fgt_stacks *stacks, uint64_t now_ns,
		       bool is_other_program, struct fgt_why *why);
/* True if the last reading is least_ns ago, and so long that reading again
 * costs next to nothing: a program of many threads has many lines of maps. */
bool fgt_stacks_is_due(const struct fgt_stacks *stacks, uint64_t now_ns,
		       uint64_t least_ns);
/* Reads them if they are stale and the last reading was not just now. */
bool fgt_stacks_refresh_if_stale(struct fgt_stacks *stacks, uint64_t now_ns);

/* So much of one stack is read at most, in pieces (fault U2). */
#define FGT_STACKS_READ_MAX_BYTES (2u << 20)

/* End of the stack that holds sp; where the maps do not have it, as much as is
 * ever read. */
uint64_t fgt_stacks_limit(const struct fgt_stacks *stacks, uint64_t sp);

/*
 * How many of len bytes of the target's memory may be read, from an address on:
 * not the contents of a mapped file, which may never come (fault X7). 0: none,
 * and stacks->readable.is_refused. No system call where the maps have the
 * place. Errors: those of fgt_readable_bytes().
 */
int64_t fgt_stacks_readable(struct fgt_stacks *stacks, uint64_t address,
			    size_t len);

/*
 * Before a stack is read, and not while frames of it are in use: reads the maps
 * again if they lack its place and the kernel cannot be asked for it.
 */
void fgt_stacks_find_place(struct fgt_stacks *stacks, uint64_t sp,
			   uint64_t now_ns);

/*
 * Unwinds into frames[capacity], leaf first; the count is returned. leaf:
 * marker to put before the first frame, 0 for none.
 */
size_t fgt_stacks_unwind(struct fgt_stacks *stacks,
			 const struct fgt_snapshot *snapshot,
			 enum fgt_marker leaf, struct fgt_frame *frames,
			 struct fgt_unwind_result *ret_result);

/* Goes on with the same stack: see fgt_unwind_go_on(). Arguments as before. */
size_t fgt_stacks_go_on(struct fgt_stacks *stacks,
			const struct fgt_snapshot *snapshot, bool is_later,
			enum fgt_marker leaf, struct fgt_frame *frames,
			struct fgt_unwind_result *ret_result);

/* Ends that stack after its first frames with a marker after all. Returns the
 * number of frames. */
size_t fgt_stacks_cut(struct fgt_stacks *stacks, enum fgt_marker marker,
		      struct fgt_frame *frames, size_t count);

/*
 * Of the stack that was unwound last: the frame that its innermost signal
 * handler interrupted, 0 if there is none. ret_sp: where the kernel has put the
 * registers of that frame. sp: of the leaf.
 */
size_t fgt_stacks_interrupted(const struct fgt_stacks *stacks, uint64_t sp,
			      const struct fgt_frame *frames, size_t count,
			      uint64_t *ret_sp);

/* Does the leaf, or call, of both lie in one function, as far as is known? */
bool fgt_stacks_is_one_function(const struct fgt_stacks *stacks,
				const struct fgt_frame *one,
				const struct fgt_frame *other);

/* Of frames[i - 1] and [i] of the last stack: fgt_unwinder_is_fixed_call(). */
bool fgt_stacks_is_fixed_call(const struct fgt_stacks *stacks, size_t i);

/* Does not count the last stack: fgt_unwinder_drop_last(). */
void fgt_stacks_drop_last(struct fgt_stacks *stacks);

/* ---- Kept stacks -------------------------------------------------------- */

/* A stack that is kept of a thread, for ticks at which it cannot be read. */
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
/* Certainly another stack: a stack without a root, or of former images, may be
 * a part of the same. frames: without leading markers. */
bool fgt_kept_stack_differs(const struct fgt_kept_stack *kept,
			    const struct fgt_frame *frames, size_t count,
			    uint64_t generation);
void fgt_kept_stack_done(struct fgt_kept_stack *kept);

#endif
