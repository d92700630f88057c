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

#include "ringbuf/base/array.h"

static int rows_init(struct fgt_cut_rows *rows, uint32_t ids)
{
	rows->index = calloc(ids, sizeof(*rows->index));
	return rows->index ? 0 : -ENOMEM;
}

/* The row after the last one, for which there is room, becomes that of id. */
static uint32_t take_row(struct fgt_cut_rows *rows, uint32_t id)
{
	rows->index[id] = ++rows->count;
	return rows->count - 1;
}

#define GROW_ROWS(array, rows)                                                 \
	FGT_ARRAY_GROW(array, (rows).count, (rows).capacity)

static int collect_image(struct fgt_cut *cut, uint32_t image)
{
	const struct fgt_region *region = cut->region;
	uint64_t words[FGT_REGION_IMAGE_WORDS];
	struct fgt_cut_image *copy;
	uint32_t id = image - 1;

	if (image == FGT_IMAGE_NONE || id >= region->shape.images ||
	    cut->image_rows.index[id])
		return 0;
	if (GROW_ROWS(cut->images, cut->image_rows))
		return -ENOMEM;
	for (size_t i = 0; i < FGT_REGION_IMAGE_WORDS; i++)
		words[i] = fgt_region_load(&region->images[id].words[i]);
	copy = &cut->images[take_row(&cut->image_rows, id)];
	copy->out = 0;
	memcpy(&copy->image, words, sizeof(copy->image));
	return 0;
}

static int collect_frame(struct fgt_cut *cut, uint32_t id)
{
	const struct fgt_region *region = cut->region;
	uint64_t image_flags;

	if (id >= region->shape.frames || cut->frame_rows.index[id])
		return 0;
	if (GROW_ROWS(cut->frames, cut->frame_rows))
		return -ENOMEM;
	image_flags = fgt_region_load(&region->frames[id].image_flags);
	cut->frames[take_row(&cut->frame_rows, id)] = (struct fgt_cut_frame){
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
		uint64_t word = fgt_region_load(&region->nodes[id]);
		int error;

		if (GROW_ROWS(cut->nodes, cut->node_rows))
			return -ENOMEM;
		cut->nodes[take_row(&cut->node_rows, id)] =
			(struct fgt_cut_node){ .parent = (uint32_t)(word >> 32),
					       .frame = (uint32_t)word };
		id = (uint32_t)(word >> 32);
		error = collect_frame(cut, (uint32_t)word);
		if (error)
			return error;
	}
	return 0;
}

static int collect_wait(struct fgt_cut *cut, uint32_t id)
{
	const struct fgt_region *region = cut->region;
	uint64_t words[FGT_REGION_WAIT_WORDS];
	struct fgt_cut_wait *copy;

	if (id >= region->shape.waits || cut->wait_rows.index[id])
		return 0;
	if (GROW_ROWS(cut->waits, cut->wait_rows))
		return -ENOMEM;
	for (size_t i = 0; i < FGT_REGION_WAIT_WORDS; i++)
		words[i] = fgt_region_load(&region->waits[id].words[i]);
	copy = &cut->waits[take_row(&cut->wait_rows, id)];
	copy->out = 0;
	memcpy(&copy->wait, words, sizeof(copy->wait));
	return 0;
}

/* With its stack. */
static int collect_waker(struct fgt_cut *cut, uint32_t id)
{
	const struct fgt_region *region = cut->region;
	uint64_t words[FGT_REGION_WAKER_WORDS];
	struct fgt_cut_waker *copy;

	if (id >= region->shape.wakers || cut->waker_rows.index[id])
		return 0;
	if (GROW_ROWS(cut->wakers, cut->waker_rows))
		return -ENOMEM;
	for (size_t i = 0; i < FGT_REGION_WAKER_WORDS; i++)
		words[i] = fgt_region_load(&region->wakers[id].words[i]);
	copy = &cut->wakers[take_row(&cut->waker_rows, id)];
	copy->out = 0;
	memcpy(&copy->row, words, sizeof(copy->row));
	return collect_stack(cut, copy->row.node);
}

static int collect_thread(struct fgt_cut *cut, uint32_t slot)
{
	const struct fgt_region_thread *row = &cut->region->threads[slot];
	uint64_t words[FGT_REGION_NAME_WORDS];
	struct fgt_cut_thread *copy;

	if (cut->thread_rows.index[slot])
		return 0;
	if (GROW_ROWS(cut->threads, cut->thread_rows))
		return -ENOMEM;
	copy = &cut->threads[take_row(&cut->thread_rows, slot)];
	memset(copy, 0, sizeof(*copy));
	copy->slot = slot;
	copy->tid = (int32_t)(uint32_t)fgt_region_load(&row->tid);
	copy->start_time = fgt_region_load(&row->start_time);
	if (slot < cut->moved_count)
		copy->moved_ns = cut->moved_ns[slot];
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
	    rows_init(&cut->image_rows, shape->images) ||
	    rows_init(&cut->wait_rows, shape->waits) ||
	    rows_init(&cut->waker_rows, shape->wakers))
		return -ENOMEM;
	/* Pieces that credit took back are collected, too: those that remain
	 * are among them. */
	for (uint32_t i = 0; i < cut->piece_count; i++) {
		struct fgt_cut_piece piece = cut->pieces[i];
		int error;

		if (!fgt_cut_clip(cut, &piece))
			continue;
		error = collect_thread(cut, piece.slot);
		if (!error)
			error = collect_stack(cut, piece.node);
		if (!error && piece.wait)
			error = collect_wait(cut, piece.wait - 1);
		if (error)
			return error;
	}
	for (uint32_t i = 0; i < cut->wake_count; i++) {
		int error = collect_waker(cut, cut->wakes[i].waker);

		if (error)
			return error;
	}
	return 0;
}
