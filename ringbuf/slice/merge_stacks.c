/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of a merged slice. Processes that forked have the same images at
 * the same addresses, so that most of their frames and stacks are equal. Runs in
 * any thread.
 */
#include <errno.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/hash.h"
#include "ringbuf/base/id_map.h"
#include "ringbuf/slice/merge.h"

struct known {
	struct fgt_id_map images; /* as they are numbered in the result */
	struct fgt_id_map frames, nodes;
	uint64_t secret; /* of hashes */
	uint32_t *frame_of; /* [frames.count]: number in the result */
	uint32_t image_capacity, frame_of_capacity, frame_capacity;
	uint32_t node_capacity;
};

/* A frame with the result's numbers. */
struct moved_frame {
	struct fgt_slice_frame frame;
	struct fgt_symbol symbols[FGT_SYMBOLS_PER_FRAME_MAX];
};

static bool is_same_image(const struct fgt_slice_image *a,
			  const struct fgt_slice_image *b)
{
	return a->path == b->path && a->bias == b->bias &&
	       a->start == b->start && a->end == b->end && a->dev == b->dev &&
	       a->ino == b->ino && a->is_deleted == b->is_deleted &&
	       a->build_id_len == b->build_id_len &&
	       memcmp(a->build_id, b->build_id, a->build_id_len) == 0;
}

static uint64_t hash_image(const struct known *known,
			   const struct fgt_slice_image *image)
{
	const uint64_t numbers[] = { image->path,      image->bias,
				     image->start,     image->end,
				     image->dev,       image->ino,
				     image->is_deleted };

	return fgt_hash_more(
		fgt_hash_more(known->secret, numbers, sizeof(numbers)),
		image->build_id, image->build_id_len);
}

static int add_image(struct fgt_merge *merge, struct known *known,
		     struct fgt_merge_source *source, uint32_t index)
{
	struct fgt_ring_slice *result = merge->result;
	struct fgt_slice_image image = source->slice->images[index];
	uint32_t *at = &source->images[index];
	uint64_t hash;
	int r = fgt_merge_string(merge, source, &image.path);

	if (r == 0)
		r = FGT_ARRAY_GROW(result->images, result->image_count,
				   known->image_capacity);
	hash = hash_image(known, &image);
	/* Images with one hash may differ. */
	for (; r == 0; hash = fgt_hash_number(hash + 1)) {
		r = fgt_id_map_add(&known->images, hash, at);
		if (r == 0 && *at == result->image_count)
			result->images[result->image_count++] = image;
		if (r == 0 && is_same_image(&result->images[*at], &image))
			break;
	}
	return r;
}

static int move_frame(struct fgt_merge *merge,
		      const struct fgt_merge_source *source, uint32_t index,
		      struct moved_frame *moved)
{
	int r = 0;

	moved->frame = source->slice->frames[index];
	if (moved->frame.frame.image != FGT_IMAGE_NONE)
		moved->frame.frame.image =
			source->images[moved->frame.frame.image - 1] + 1;
	for (uint32_t i = 0; i < moved->frame.symbol_count && r == 0; i++) {
		struct fgt_symbol *symbol = &moved->symbols[i];

		*symbol = source->slice->symbols[moved->frame.symbol_first + i];
		r = fgt_merge_string(merge, source, &symbol->function);
		if (r == 0)
			r = fgt_merge_string(merge, source, &symbol->file);
	}
	return r;
}

static bool is_same_frame(const struct fgt_ring_slice *result, uint32_t number,
			  const struct moved_frame *moved)
{
	const struct fgt_slice_frame *frame = &result->frames[number];

	return frame->frame.address == moved->frame.frame.address &&
	       frame->frame.image == moved->frame.frame.image &&
	       frame->frame.flags == moved->frame.frame.flags &&
	       frame->symbol_count == moved->frame.symbol_count &&
	       memcmp(result->symbols + frame->symbol_first, moved->symbols,
		      frame->symbol_count * sizeof(*moved->symbols)) == 0;
}

static uint64_t hash_frame(const struct known *known,
			   const struct moved_frame *moved)
{
	const struct fgt_frame *frame = &moved->frame.frame;
	const uint64_t numbers[] = { frame->address, frame->image,
				     frame->flags };

	return fgt_hash_more(
		fgt_hash_more(known->secret, numbers, sizeof(numbers)),
		moved->symbols,
		moved->frame.symbol_count * sizeof(*moved->symbols));
}

static int append_frame(struct fgt_ring_slice *result, struct known *known,
			struct moved_frame *moved)
{
	uint32_t count = moved->frame.symbol_count;
	int r = FGT_ARRAY_GROW(result->frames, result->frame_count,
			       known->frame_capacity);

	if (r == 0)
		r = FGT_ARRAY_RESERVE(result->symbols,
				      (size_t)result->symbol_count + count,
				      result->symbol_capacity);
	if (r < 0)
		return r;
	moved->frame.symbol_first = result->symbol_count;
	memcpy(result->symbols + result->symbol_count, moved->symbols,
	       count * sizeof(*moved->symbols));
	result->symbol_count += count;
	result->frames[result->frame_count++] = moved->frame;
	return 0;
}

/* Frames with one hash may differ. */
static int add_frame(struct fgt_merge *merge, struct known *known,
		     struct fgt_merge_source *source, uint32_t index)
{
	struct fgt_ring_slice *result = merge->result;
	struct moved_frame moved;
	uint64_t hash;
	int r = move_frame(merge, source, index, &moved);

	if (r < 0)
		return r;
	hash = hash_frame(known, &moved);
	for (;; hash = fgt_hash_number(hash + 1)) {
		uint32_t before = known->frames.count, at;

		r = FGT_ARRAY_GROW(known->frame_of, before,
				   known->frame_of_capacity);
		if (r == 0)
			r = fgt_id_map_add(&known->frames, hash, &at);
		if (r < 0)
			return r;
		if (at == before) {
			known->frame_of[at] = result->frame_count;
			source->frames[index] = result->frame_count;
			return append_frame(result, known, &moved);
		}
		source->frames[index] = known->frame_of[at];
		if (is_same_frame(result, known->frame_of[at], &moved))
			return 0;
	}
}

static int add_node(struct fgt_merge *merge, struct known *known,
		    struct fgt_merge_source *source, uint32_t index)
{
	struct fgt_ring_slice *result = merge->result;
	struct fgt_slice_node node = source->slice->nodes[index];
	uint32_t before = result->node_count;
	int r;

	node.frame = source->frames[node.frame];
	if (node.parent != FGT_NODE_NONE)
		node.parent = source->nodes[node.parent];
	r = fgt_id_map_add(&known->nodes,
			   (uint64_t)node.parent << 32 | node.frame,
			   &source->nodes[index]);
	if (r < 0 || source->nodes[index] != before)
		return r;
	r = FGT_ARRAY_GROW(result->nodes, before, known->node_capacity);
	if (r == 0)
		result->nodes[result->node_count++] = node;
	return r;
}

static int add_source(struct fgt_merge *merge, struct known *known,
		      struct fgt_merge_source *source)
{
	const struct fgt_ring_slice *slice = source->slice;
	int r = 0;

	if (!FGT_ARRAY_NEW(source->images, slice->image_count) ||
	    !FGT_ARRAY_NEW(source->frames, slice->frame_count) ||
	    !FGT_ARRAY_NEW(source->nodes, slice->node_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->image_count && r == 0; i++)
		r = add_image(merge, known, source, i);
	for (uint32_t i = 0; i < slice->frame_count && r == 0; i++)
		r = add_frame(merge, known, source, i);
	for (uint32_t i = 0; i < slice->node_count && r == 0; i++)
		r = add_node(merge, known, source, i);
	return r;
}

static int unite_states(struct fgt_merge *merge)
{
	struct fgt_ring_slice *result = merge->result;
	uint32_t names[FGT_STATE_MAX + 1];
	bool is_used[FGT_STATE_MAX + 1] = { false };
	int r = 0;

	for (uint32_t i = 0; i < merge->count; i++) {
		const struct fgt_merge_source *source = &merge->sources[i];

		for (uint32_t k = 0; k < source->slice->state_count; k++) {
			uint32_t state = source->slice->states[k].state;

			if (is_used[state])
				continue;
			is_used[state] = true;
			names[state] = source->slice->states[k].name;
			r = r ? r
			      : fgt_merge_string(merge, source, &names[state]);
		}
	}
	if (r == 0 && !FGT_ARRAY_NEW(result->states, FGT_STATE_MAX + 1))
		r = -ENOMEM;
	for (uint32_t state = 0; state <= FGT_STATE_MAX && r == 0; state++)
		if (is_used[state])
			result->states[result->state_count++] =
				(struct fgt_slice_state){ state, names[state] };
	return r;
}

int fgt_merge_stacks(struct fgt_merge *merge)
{
	struct known known = { .secret = fgt_hash_secret() };
	int r = unite_states(merge);

	for (uint32_t i = 0; i < merge->count && r == 0; i++)
		r = add_source(merge, &known, &merge->sources[i]);
	fgt_id_map_done(&known.images);
	fgt_id_map_done(&known.frames);
	free(known.frame_of);
	fgt_id_map_done(&known.nodes);
	return r;
}
