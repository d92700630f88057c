/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies the table entries that the pieces of a cut use, each once. Runs in any
 * reader while the writer writes: entries of segments that it drops may be
 * torn, so they are not checked here; only numbers outside a table are left
 * out. Ends after at most one step per entry.
 */
#include "ringbuf/ring/cut.h"

#include <errno.h>
#include <string.h>

static int rows_init(struct fgt_cut_rows *rows, uint32_t ids)
{
	rows->index = calloc(ids, sizeof(*rows->index));
	return rows->index ? 0 : -ENOMEM;
}

/* The array with a row for id appended, NULL if there is no memory. */
static void *add_row(struct fgt_cut_rows *rows, void *array, uint32_t id,
		     size_t object_size)
{
	void *grown =
		fgt_cut_grow(array, rows->count, &rows->capacity, object_size);

	if (grown)
		rows->index[id] = ++rows->count;
	return grown;
}

static int collect_image(struct fgt_cut *cut, uint32_t image)
{
	const struct fgt_region *region = cut->region;
	uint64_t words[FGT_REGION_IMAGE_WORDS];
	struct fgt_cut_image *images, *copy;
	uint32_t id = image - 1;

	if (image == FGT_IMAGE_NONE || id >= region->shape.images ||
	    cut->image_rows.index[id])
		return 0;
	images = add_row(&cut->image_rows, cut->images, id, sizeof(*images));
	if (!images)
		return -ENOMEM;
	cut->images = images;
	for (size_t i = 0; i < FGT_REGION_IMAGE_WORDS; i++)
		words[i] = fgt_region_load(&region->images[id].words[i]);
	copy = &images[cut->image_rows.count - 1];
	copy->out = 0;
	memcpy(&copy->image, words, sizeof(copy->image));
	return 0;
}

static int collect_frame(struct fgt_cut *cut, uint32_t id)
{
	const struct fgt_region *region = cut->region;
	struct fgt_cut_frame *frames;
	uint64_t image_flags;

	if (id >= region->shape.frames || cut->frame_rows.index[id])
		return 0;
	frames = add_row(&cut->frame_rows, cut->frames, id, sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	cut->frames = frames;
	image_flags = fgt_region_load(&region->frames[id].image_flags);
	frames[cut->frame_rows.count - 1] = (struct fgt_cut_frame){
		.frame.address = fgt_region_load(&region->frames[id].address),
		.frame.image = (uint32_t)(image_flags >> 32),
		.frame.flags = (uint32_t)image_flags,
	};
	return collect_image(cut, (uint32_t)(image_flags >> 32));
}

static int collect_stack(struct fgt_cut *cut, uint32_t id)
{
	const struct fgt_region *region = cut->region;

	/* Each step copies a node that was not copied yet: no endless loop,
	 * even if parents run in a circle. */
	while (id < region->shape.nodes && !cut->node_rows.index[id]) {
		struct fgt_cut_node *nodes = add_row(
			&cut->node_rows, cut->nodes, id, sizeof(*nodes));
		uint64_t word;
		int error;

		if (!nodes)
			return -ENOMEM;
		cut->nodes = nodes;
		word = fgt_region_load(&region->nodes[id]);
		id = (uint32_t)(word >> 32);
		nodes[cut->node_rows.count - 1] = (struct fgt_cut_node){
			.parent = id,
			.frame = (uint32_t)word,
		};
		error = collect_frame(cut, (uint32_t)word);
		if (error)
			return error;
	}
	return 0;
}

static int collect_thread(struct fgt_cut *cut, uint32_t slot)
{
	const struct fgt_region_thread *row = &cut->region->threads[slot];
	uint64_t words[FGT_REGION_NAME_WORDS];
	struct fgt_cut_thread *threads, *copy;

	if (cut->thread_rows.index[slot])
		return 0;
	threads = add_row(&cut->thread_rows, cut->threads, slot,
			  sizeof(*threads));
	if (!threads)
		return -ENOMEM;
	cut->threads = threads;
	copy = &threads[cut->thread_rows.count - 1];
	memset(copy, 0, sizeof(*copy));
	copy->slot = slot;
	copy->tid = (int32_t)(uint32_t)fgt_region_load(&row->tid);
	copy->start_time = fgt_region_load(&row->start_time);
	fgt_region_read_pair(&row->version, row->names, FGT_REGION_NAME_WORDS,
			     words);
	memcpy(copy->name, words, sizeof(copy->name));
	copy->name[sizeof(copy->name) - 1] = '\0';
	return 0;
}

int fgt_cut_collect(struct fgt_cut *cut)
{
	const struct fgt_region_shape *shape = &cut->region->shape;

	if (rows_init(&cut->thread_rows, shape->threads) ||
	    rows_init(&cut->node_rows, shape->nodes) ||
	    rows_init(&cut->frame_rows, shape->frames) ||
	    rows_init(&cut->image_rows, shape->images))
		return -ENOMEM;
	/* Also pieces that credit took back: what remains is among them. */
	for (uint32_t i = 0; i < cut->piece_count; i++) {
		struct fgt_cut_piece piece = cut->pieces[i];
		int error;

		if (!fgt_cut_clip(cut, &piece))
			continue;
		error = collect_thread(cut, piece.slot);
		if (!error)
			error = collect_stack(cut, piece.node);
		if (error)
			return error;
	}
	return 0;
}
