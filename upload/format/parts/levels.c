/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expands stacks of a slice. Runs in any thread; must not allocate while
 * expanding: encoders do it once per run.
 */
#include "upload/format/parts/levels.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct fgt_level elided = { FGT_LEVEL_MARKER, FGT_MARKER_ELIDED };
static const struct fgt_level not_sampled = { FGT_LEVEL_MARKER,
					      FGT_MARKER_NOT_SAMPLED };

int fgt_levels_init(struct fgt_levels *levels,
		    const struct fgt_ring_slice *slice,
		    enum fgt_state_frames state_frames, uint32_t max)
{
	*levels = (struct fgt_levels){ .slice = slice,
				       .state_frames = state_frames,
				       .max = max };
	/* The state frame comes on top of the deepest stack. */
	levels->items = calloc(FGT_LEVELS_MAX + 1, sizeof(*levels->items));
	return levels->items ? 0 : -ENOMEM;
}

void fgt_levels_done(struct fgt_levels *levels)
{
	free(levels->items);
	levels->items = NULL;
}

uint32_t fgt_levels_of_frame(const struct fgt_ring_slice *slice, uint32_t frame)
{
	const struct fgt_slice_frame *shown = &slice->frames[frame];

	if (shown->frame.flags & FGT_FRAME_MARKER || !shown->symbol_count)
		return 1;
	return shown->symbol_count;
}

struct fgt_level fgt_level_of_frame(const struct fgt_ring_slice *slice,
				    uint32_t frame, uint32_t index)
{
	const struct fgt_slice_frame *shown = &slice->frames[frame];

	if (shown->frame.flags & FGT_FRAME_MARKER)
		return (struct fgt_level){ FGT_LEVEL_MARKER,
					   (uint32_t)shown->frame.address };
	if (!shown->symbol_count)
		return (struct fgt_level){ FGT_LEVEL_ADDRESS, frame };
	return (struct fgt_level){
		FGT_LEVEL_FUNCTION,
		slice->symbols[shown->symbol_first + index].function
	};
}

/* False when the stack has no room for it. */
static bool push(struct fgt_levels *levels, struct fgt_level level)
{
	if (levels->count >= FGT_LEVELS_MAX)
		return false;
	levels->items[levels->count++] = level;
	return true;
}

static bool push_frame(struct fgt_levels *levels, uint32_t frame)
{
	uint32_t count = fgt_levels_of_frame(levels->slice, frame);
	bool has_room = true;

	for (uint32_t i = 0; i < count && has_room; i++)
		has_room = push(levels,
				fgt_level_of_frame(levels->slice, frame, i));
	return has_room;
}

/* Cuts the middle out: a quarter of what stays is the root's part. */
static void elide(struct fgt_levels *levels, uint32_t first, uint32_t max)
{
	struct fgt_level *items = levels->items + first;
	uint32_t count = levels->count - first;
	uint32_t root = max / 4, leaf = max - root - 1;

	if (count <= max)
		return;
	items[leaf] = elided;
	memmove(items + leaf + 1, items + count - root, root * sizeof(*items));
	levels->count = first + max;
}

uint32_t fgt_levels_state_name(const struct fgt_ring_slice *slice,
			       uint32_t state)
{
	for (uint32_t i = 0; i < slice->state_count; i++)
		if (slice->states[i].state == state)
			return slice->states[i].name;
	return 0;
}

bool fgt_levels_are_marked(const struct fgt_ring_slice *slice, uint32_t stack)
{
	return fgt_slice_leaf_marker(slice, stack) == FGT_MARKER_NOT_SAMPLED;
}

struct fgt_level fgt_level_of_state(const struct fgt_ring_slice *slice,
				    uint32_t state, bool is_sampled)
{
	struct fgt_level level = { FGT_LEVEL_STATE,
				   fgt_levels_state_name(slice, state) };

	/* Where no tick found a thread running, the slice has no name. */
	if (!is_sampled && !level.id && state == FGT_STATE_RUNNING)
		level.kind = FGT_LEVEL_RAN;
	if (!is_sampled && state == FGT_STATE_UNKNOWN)
		level = (struct fgt_level){ FGT_LEVEL_BLOCKED, 0 };
	return level;
}

static void push_stack(struct fgt_levels *levels, uint32_t stack)
{
	const struct fgt_ring_slice *slice = levels->slice;

	while (stack != FGT_NODE_NONE) {
		if (!push_frame(levels, slice->nodes[stack].frame)) {
			levels->items[levels->count - 1] = elided;
			break;
		}
		stack = slice->nodes[stack].parent;
	}
}

static void expand(struct fgt_levels *levels, uint32_t stack, uint32_t state,
		   bool is_sampled)
{
	const struct fgt_ring_slice *slice = levels->slice;
	const struct fgt_level state_level =
		fgt_level_of_state(slice, state, is_sampled);
	uint32_t first = levels->state_frames == FGT_STATE_FRAMES_LEAF;

	levels->count = first;
	if (first)
		levels->items[0] = state_level;
	if (stack == FGT_NODE_NONE)
		push(levels, (struct fgt_level){ FGT_LEVEL_NO_STACK, 0 });
	else if (!is_sampled && !fgt_levels_are_marked(slice, stack))
		push(levels, not_sampled);
	push_stack(levels, stack);
	elide(levels, first, levels->max - 1);
	if (fgt_state_is_at_root(levels->state_frames))
		levels->items[levels->count++] = state_level;
}

void fgt_levels_expand(struct fgt_levels *levels, uint32_t stack,
		       uint32_t state)
{
	expand(levels, stack, state, true);
}

void fgt_levels_expand_bare(struct fgt_levels *levels, uint32_t stack)
{
	levels->count = 0;
	push_stack(levels, stack);
	elide(levels, 0, levels->max - 1);
}

void fgt_levels_expand_unsampled(struct fgt_levels *levels, uint32_t stack,
				 uint32_t state)
{
	expand(levels, stack, state, false);
}

/* The name that the symbolizer gives to what it cannot find: image+0xoffset. */
static const char *address_name(const struct fgt_ring_slice *slice,
				const struct fgt_frame *frame, char *buffer)
{
	const char *path = "", *slash;

	if (frame->image)
		path = fgt_slice_string(slice,
					slice->images[frame->image - 1].path);
	slash = strrchr(path, '/');
	if (slash)
		path = slash + 1;
	snprintf(buffer, FGT_LEVEL_NAME_MAX, "%.90s%s0x%llx", path,
		 *path ? "+" : "", (unsigned long long)frame->address);
	return buffer;
}

const char *fgt_level_thread_name(const struct fgt_ring_slice *slice,
				  const struct fgt_slice_thread *thread,
				  char buffer[FGT_LEVEL_NAME_MAX])
{
	const char *name = fgt_slice_string(slice, thread->name);

	if (*name)
		return name;
	snprintf(buffer, FGT_LEVEL_NAME_MAX, "thread %d", thread->tid);
	return buffer;
}

const char *fgt_level_name(const struct fgt_ring_slice *slice,
			   struct fgt_level level,
			   char buffer[FGT_LEVEL_NAME_MAX])
{
	const char *name;

	switch (level.kind) {
	case FGT_LEVEL_ADDRESS:
		return address_name(slice, &slice->frames[level.id].frame,
				    buffer);
	case FGT_LEVEL_MARKER:
		return fgt_marker_name(level.id);
	case FGT_LEVEL_STATE:
		name = fgt_slice_string(slice, level.id);
		return *name ? name : "unknown";
	case FGT_LEVEL_RAN:
		return "running";
	case FGT_LEVEL_BLOCKED:
		return "blocked";
	case FGT_LEVEL_NO_STACK:
		return "[stack unknown]";
	case FGT_LEVEL_GAP:
		return "[gap: no samples]";
	default:
		name = fgt_slice_string(slice, level.id);
		return *name ? name : "[no name]";
	}
}
