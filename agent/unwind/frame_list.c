/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of a stack of any depth, in a fixed array: the leaf part, then a
 * ring of the last frames seen. Runs in the sampler's thread.
 */
#include <string.h>

#include "agent/unwind/walk.h"

/* One in six frames kept is of the root part, five are of the leaf part. */
#define ROOT_SHARE 6u

void fgt_frame_list_init(struct fgt_frame_list *list,
			 struct fgt_unwound_frame *frames, size_t capacity,
			 size_t max_depth)
{
	/* Two slots are for the markers. */
	if (max_depth > capacity - 2)
		max_depth = capacity - 2;
	if (!max_depth)
		max_depth = 1;
	list->frames = frames;
	list->root_max = max_depth / ROOT_SHARE;
	list->leaf_max = max_depth - list->root_max;
	list->seen = 0;
}

void fgt_frame_list_push_deep(struct fgt_frame_list *list,
			      struct fgt_unwound_frame frame)
{
	size_t i = list->seen++;

	list->last = NULL;
	if (!list->root_max)
		return;
	i = list->leaf_max + (i - list->leaf_max) % list->root_max;
	list->frames[i] = frame;
	list->last = &list->frames[i];
}

static void reverse(struct fgt_unwound_frame *frames, size_t count)
{
	struct fgt_unwound_frame swap;

	for (size_t i = 0; i < count / 2; i++) {
		swap = frames[i];
		frames[i] = frames[count - 1 - i];
		frames[count - 1 - i] = swap;
	}
}

static bool is_elided(const struct fgt_frame_list *list)
{
	return list->seen > list->leaf_max + list->root_max;
}

size_t fgt_frame_list_finish(struct fgt_frame_list *list,
			     enum fgt_marker reason)
{
	struct fgt_unwound_frame *root = list->frames + list->leaf_max;
	size_t count = list->seen, first;

	if (is_elided(list)) {
		/* Three reversals turn the ring so that its oldest is first. */
		first = list->root_max
				? (count - list->leaf_max) % list->root_max
				: 0;
		reverse(root, first);
		reverse(root + first, list->root_max - first);
		reverse(root, list->root_max);
		memmove(root + 1, root, list->root_max * sizeof(*root));
		root->pc = FGT_MARKER_ELIDED;
		root->flags = FGT_FRAME_MARKER;
		count = list->leaf_max + 1 + list->root_max;
	}
	if (reason) {
		list->frames[count].pc = reason;
		list->frames[count].flags = FGT_FRAME_MARKER;
		count++;
	}
	return count;
}

void fgt_frame_list_reopen(struct fgt_frame_list *list)
{
	struct fgt_unwound_frame *root = list->frames + list->leaf_max;

	if (is_elided(list)) {
		memmove(root, root + 1, list->root_max * sizeof(*root));
		/* The next one takes the place of the oldest, the first. */
		if (list->root_max)
			list->seen = list->leaf_max + 2 * list->root_max;
	}
	list->last = fgt_frame_list_back(list, 0);
}

struct fgt_unwound_frame *fgt_frame_list_back(const struct fgt_frame_list *list,
					      size_t back)
{
	size_t count = list->seen;

	if (is_elided(list)) {
		count = list->leaf_max + list->root_max;
		if (back >= list->root_max)
			return NULL;
	}
	return back < count ? &list->frames[count - 1 - back] : NULL;
}
