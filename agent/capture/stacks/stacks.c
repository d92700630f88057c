/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps, unwinder and ring images of one target. Runs in the sampler's thread.
 */
#include "agent/capture/stacks/stacks.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "ringbuf/base/clock.h"

#define MAX_DEPTH_DEFAULT 256u
#define EXTRA_FRAMES	  3u /* marker at leaf, in the middle, at the root */
#define PATIENCE_MIN_NS	  20000000u
#define PATIENCE_MAX_NS	  1000000000u
#define PAUSE_PER_COST	  1000u /* a thousandth of a core at most */
#define PLACE_PER_COST	  50u /* 2 %, where the kernel cannot be asked */
#define PAUSE_MAX_NS	  30000000000u
#define PAGE_BYTES	  4096u
#define ATTACH_WAIT_MS	  2000u

size_t fgt_stacks_capacity(unsigned int max_depth)
{
	return (max_depth ? max_depth : MAX_DEPTH_DEFAULT) + EXTRA_FRAMES;
}

int fgt_stacks_init(struct fgt_stacks *stacks,
		    const struct fgt_process *process,
		    struct fgt_image_cache *cache, struct fgt_ring *ring,
		    unsigned int max_depth)
{
	int rc;

	*stacks = (struct fgt_stacks){
		.process = process,
		.cache = cache,
		.ring = ring,
		.is_foreign = process->pid != getpid(),
		.capacity = fgt_stacks_capacity(max_depth),
	};
	stacks->unwound = calloc(stacks->capacity, sizeof(*stacks->unwound));
	if (stacks->unwound)
		rc = fgt_unwinder_new(
			cache, (unsigned int)stacks->capacity - EXTRA_FRAMES,
			&stacks->unwinder);
	else
		rc = -ENOMEM;
	if (rc < 0)
		fgt_stacks_done(stacks);
	return rc;
}

static void put_images(struct fgt_stacks *stacks)
{
	for (size_t i = 0; i < stacks->image_count; i++)
		if (stacks->ring_images[i] != FGT_IMAGE_NONE)
			fgt_ring_image_put(stacks->ring,
					   stacks->ring_images[i]);
	free(stacks->ring_images);
	stacks->ring_images = NULL;
	stacks->image_count = 0;
}

void fgt_stacks_done(struct fgt_stacks *stacks)
{
	put_images(stacks);
	fgt_readable_done(&stacks->readable);
	fgt_unwinder_free(stacks->unwinder);
	fgt_maps_free(stacks->maps);
	free(stacks->unwound);
	*stacks = (struct fgt_stacks){ 0 };
}

static void drop_maps(struct fgt_stacks *stacks)
{
	stacks->generation++;
	put_images(stacks);
	fgt_maps_free(FGT_TAKE(stacks->maps));
	fgt_unwinder_forget(stacks->unwinder);
}

/*
 * The same code, and other stacks: the images keep their numbers. The unwinder
 * knows places in the former list by its serial.
 */
static void take_mappings(struct fgt_stacks *stacks, struct fgt_maps *fresh)
{
	struct fgt_maps *maps = stacks->maps;
	struct fgt_mapping *mappings = maps->mappings;

	memcpy(maps->contexts, fresh->contexts, sizeof(maps->contexts));
	maps->context_count = fresh->context_count;
	if (maps->image_count != fresh->image_count)
		return;
	maps->serial = fresh->serial;
	maps->mappings = fresh->mappings;
	maps->count = fresh->count;
	maps->capacity = fresh->capacity;
	fresh->mappings = mappings;
}

int fgt_stacks_refresh(struct fgt_stacks *stacks, uint64_t now_ns,
		       bool is_other_program, struct fgt_why *why)
{
	uint64_t begin_ns = fgt_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	FGT_AUTO(fgt_maps_free) struct fgt_maps *maps = NULL;
	FGT_AUTO(fgt_fd_close) int dir_fd = -1;
	int32_t tid;
	size_t count;
	/* The sampler does not wait, the thread that attaches may. */
	unsigned int wait_ms = stacks->read_ns ? 0 : ATTACH_WAIT_MS;
	int rc;

	stacks->read_ns = now_ns;
	if (is_other_program)
		drop_maps(stacks);
	rc = fgt_process_open_memory(stacks->process, &dir_fd, &tid);
	if (rc == 0)
		rc = fgt_maps_read(dir_fd, tid, stacks->cache, wait_ms, &maps,
				   why);
	if (rc != 0)
		return rc;
	stacks->is_unanswered = maps->is_unanswered;
	stacks->is_stale = maps->is_incomplete || maps->is_unanswered;
	/* They are younger than what was asked since the last ones. */
	stacks->readable.count = 0;
	if (stacks->maps && fgt_maps_is_equal(stacks->maps, maps)) {
		take_mappings(stacks, maps);
		stacks->cost_ns =
			fgt_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
		return 0;
	}
	drop_maps(stacks);
	count = maps->image_count;
	stacks->ring_images = calloc(count ? count : 1, sizeof(uint32_t));
	if (!stacks->ring_images)
		return -ENOMEM;
	stacks->image_count = count;
	stacks->maps = FGT_TAKE(maps);
	return 1;
}

static uint64_t pause_of(const struct fgt_stacks *stacks, uint64_t least_ns)
{
	uint64_t pause_ns = stacks->cost_ns * PAUSE_PER_COST;

	if (pause_ns > PAUSE_MAX_NS)
		pause_ns = PAUSE_MAX_NS;
	return pause_ns > least_ns ? pause_ns : least_ns;
}

bool fgt_stacks_is_due(const struct fgt_stacks *stacks, uint64_t now_ns,
		       uint64_t least_ns)
{
	return now_ns - stacks->read_ns >= pause_of(stacks, least_ns);
}

bool fgt_stacks_refresh_if_stale(struct fgt_stacks *stacks, uint64_t now_ns)
{
	int rc;

	if (!stacks->is_stale || now_ns - stacks->read_ns < stacks->patience_ns)
		return false;
	rc = fgt_stacks_refresh(stacks, now_ns, false, NULL);
	if (rc > 0) {
		stacks->patience_ns = 0;
		return true;
	}
	/* A file's server has not answered yet, but may at any time. */
	if (rc == 0 && stacks->is_unanswered) {
		stacks->patience_ns = pause_of(stacks, PATIENCE_MIN_NS);
		return false;
	}
	/* Code that no mapping explains: looking again soon is no help. */
	stacks->patience_ns *= 2;
	if (stacks->patience_ns < PATIENCE_MIN_NS)
		stacks->patience_ns = PATIENCE_MIN_NS;
	if (stacks->patience_ns > pause_of(stacks, PATIENCE_MAX_NS))
		stacks->patience_ns = pause_of(stacks, PATIENCE_MAX_NS);
	return false;
}

uint64_t fgt_stacks_limit(const struct fgt_stacks *stacks, uint64_t sp)
{
	const struct fgt_mapping *mapping =
		stacks->maps ? fgt_maps_find(stacks->maps, sp) : NULL;

	if (mapping)
		return mapping->end;
	/* A thread younger than the maps, which are not replaced for the sake
	 * of a stack; or the first thread's, which has grown. */
	if (sp > UINT64_MAX - FGT_STACKS_READ_MAX_BYTES)
		return UINT64_MAX;
	return (sp + FGT_STACKS_READ_MAX_BYTES) & ~(uint64_t)(PAGE_BYTES - 1);
}

int64_t fgt_stacks_readable(struct fgt_stacks *stacks, uint64_t address,
			    size_t len)
{
	if (!stacks->is_foreign)
		return (int64_t)len;
	return fgt_readable_bytes(&stacks->readable, stacks->process,
				  stacks->maps, address, len);
}

void fgt_stacks_find_place(struct fgt_stacks *stacks, uint64_t sp,
			   uint64_t now_ns)
{
	const struct fgt_mapping *mapping;

	if (!stacks->readable.has_no_query)
		return;
	mapping = stacks->maps ? fgt_maps_find(stacks->maps, sp) : NULL;
	if ((!mapping || !mapping->is_memory) &&
	    now_ns - stacks->read_ns >= stacks->cost_ns * PLACE_PER_COST)
		(void)fgt_stacks_refresh(stacks, now_ns, false, NULL);
}

/* Number of an image in the ring; FGT_IMAGE_NONE if it finds no room. */
static uint32_t ring_image(struct fgt_stacks *stacks, uint32_t image)
{
	if (image >= stacks->image_count)
		return FGT_IMAGE_NONE;
	if (stacks->ring_images[image] == FGT_IMAGE_NONE &&
	    fgt_ring_image_get(stacks->ring, &stacks->maps->images[image].image,
			       &stacks->ring_images[image]) < 0)
		stacks->ring_images[image] = FGT_IMAGE_NONE;
	return stacks->ring_images[image];
}

static void intern(struct fgt_stacks *stacks,
		   const struct fgt_unwound_frame *unwound,
		   struct fgt_frame *frame)
{
	const struct fgt_mapping *mapping;
	uint64_t pc = unwound->pc;

	*frame = (struct fgt_frame){ .address = pc, .flags = unwound->flags };
	if (unwound->flags & FGT_FRAME_MARKER)
		return;
	if ((unwound->flags & FGT_FRAME_CALLER) && pc)
		pc--;
	mapping = stacks->maps ? fgt_maps_find(stacks->maps, pc) : NULL;
	if (!mapping || mapping->image == FGT_MAPS_NO_IMAGE)
		return;
	frame->image = ring_image(stacks, mapping->image);
	if (frame->image != FGT_IMAGE_NONE)
		frame->address -=
			stacks->maps->images[mapping->image].image.bias;
}

static struct fgt_frame marker_frame(enum fgt_marker marker)
{
	return (struct fgt_frame){ .address = marker,
				   .flags = FGT_FRAME_MARKER };
}

/* What was unwound, below a leaf marker unless that is 0. */
static size_t take_frames(struct fgt_stacks *stacks, enum fgt_marker leaf,
			  struct fgt_frame *frames,
			  struct fgt_unwind_result *result)
{
	size_t count = 0;

	if (leaf) {
		frames[count++] = marker_frame(leaf);
		result->later_first += result->later_first != 0;
	}
	for (size_t i = 0; i < result->count; i++)
		intern(stacks, &stacks->unwound[i], &frames[count++]);
	if (result->need_maps)
		stacks->is_stale = true;
	return count;
}

size_t fgt_stacks_unwind(struct fgt_stacks *stacks,
			 const struct fgt_snapshot *snapshot,
			 enum fgt_marker leaf, struct fgt_frame *frames,
			 struct fgt_unwind_result *ret_result)
{
	if (!stacks->maps) {
		*ret_result = (struct fgt_unwind_result){
			.reason = FGT_MARKER_TRUNCATED_UNREADABLE,
			.need_maps = true,
		};
		frames[0] = marker_frame(leaf ? leaf : ret_result->reason);
		stacks->is_stale = true;
		return 1;
	}
	fgt_unwind(stacks->unwinder, stacks->maps, snapshot, stacks->unwound,
		   stacks->capacity - 1, ret_result);
	return take_frames(stacks, leaf, frames, ret_result);
}

size_t fgt_stacks_go_on(struct fgt_stacks *stacks,
			const struct fgt_snapshot *snapshot, bool is_later,
			enum fgt_marker leaf, struct fgt_frame *frames,
			struct fgt_unwind_result *ret_result)
{
	fgt_unwind_go_on(stacks->unwinder, stacks->maps, snapshot, is_later,
			 ret_result);
	return take_frames(stacks, leaf, frames, ret_result);
}

size_t fgt_stacks_cut(struct fgt_stacks *stacks, enum fgt_marker marker,
		      struct fgt_frame *frames, size_t count)
{
	fgt_unwinder_take_back(stacks->unwinder, marker);
	/* The marker that divides them from what came after them. */
	if (frames[count - 1].flags & FGT_FRAME_MARKER)
		count--;
	frames[count++] = marker_frame(marker);
	return count;
}

size_t fgt_stacks_interrupted(const struct fgt_stacks *stacks, uint64_t sp,
			      const struct fgt_frame *frames, size_t count,
			      uint64_t *ret_sp)
{
	size_t leaf = 0, i;

	while (leaf < count && (frames[leaf].flags & FGT_FRAME_MARKER))
		leaf++;
	for (i = leaf + 1; i < count; i++)
		if (!frames[i].flags)
			break;
	if (i >= count || i - leaf >= stacks->capacity)
		return 0;
	/* The frame above it is the trampoline's. */
	*ret_sp = sp + (uint32_t)(stacks->unwound[i - leaf - 1].sp_low -
				  (uint32_t)sp);
	return i;
}

/* A return address may lie behind the end of its function. */
static uint64_t place_of(const struct fgt_frame *frame)
{
	return frame->address - !!(frame->flags & FGT_FRAME_CALLER);
}

bool fgt_stacks_is_one_function(const struct fgt_stacks *stacks,
				const struct fgt_frame *one,
				const struct fgt_frame *other)
{
	if (!stacks->maps || one->image == FGT_IMAGE_NONE ||
	    one->image != other->image)
		return false;
	for (size_t i = 0; i < stacks->image_count; i++)
		if (stacks->ring_images[i] == one->image)
			return stacks->maps->images[i].file &&
			       fgt_unwind_is_one_function(
				       stacks->maps->images[i].file,
				       place_of(one), place_of(other));
	return false;
}

bool fgt_stacks_is_fixed_call(const struct fgt_stacks *stacks, size_t i)
{
	return fgt_unwinder_is_fixed_call(stacks->unwinder, i);
}

void fgt_stacks_drop_last(struct fgt_stacks *stacks)
{
	fgt_unwinder_drop_last(stacks->unwinder);
}

/* ---- Kept stacks -------------------------------------------------------- */

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
	kept->frames[0] = marker_frame(leaf);
	*ret_count = kept->count + 1;
	return kept->frames;
}

static bool has_root(const struct fgt_frame *frames, size_t count)
{
	return count && !(frames[count - 1].flags & FGT_FRAME_MARKER);
}

bool fgt_kept_stack_differs(const struct fgt_kept_stack *kept,
			    const struct fgt_frame *frames, size_t count,
			    uint64_t generation)
{
	if (kept->generation != generation || !kept->count ||
	    (kept->count == count &&
	     !memcmp(kept->frames + 1, frames, count * sizeof(*frames))))
		return false;
	return has_root(kept->frames + 1, kept->count) &&
	       has_root(frames, count);
}

void fgt_kept_stack_done(struct fgt_kept_stack *kept)
{
	free(kept->frames);
	*kept = (struct fgt_kept_stack){ 0 };
}
