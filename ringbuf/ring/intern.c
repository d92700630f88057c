/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks as a tree of (parent, frame), frames as (image, address), each kept
 * once and counted exactly: the log's records hold nodes, nodes hold their
 * parent and frame, frames their image.
 * Runs in the writer's thread; must not reuse a number that a segment in the
 * ring still needs, which the counts guarantee.
 */
#include "ringbuf/ring/writer.h"

#include <errno.h>
#include <string.h>

#include "ringbuf/base/hash.h"

static uint64_t hash_frame(uint64_t address, uint64_t image_flags)
{
	return fgt_hash_number(address ^ image_flags * 0x9e3779b97f4a7c15u);
}

uint64_t fgt_intern_hash_words(const uint64_t *words, size_t count)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
	return fgt_hash_number(hash);
}

static uint64_t hash_row(const fgt_word *row, size_t count)
{
	uint64_t words[FGT_REGION_IMAGE_WORDS]; /* the largest */

	for (size_t i = 0; i < count; i++)
		words[i] = fgt_region_load(&row[i]);
	return fgt_intern_hash_words(words, count);
}

uint64_t fgt_intern_hash_node(const void *nodes, uint32_t id)
{
	const fgt_word *words = nodes;

	return fgt_hash_number(fgt_region_load(&words[id]));
}

uint64_t fgt_intern_hash_frame(const void *frames, uint32_t id)
{
	const struct fgt_region_frame *frame =
		(const struct fgt_region_frame *)frames + id;

	return hash_frame(fgt_region_load(&frame->address),
			  fgt_region_load(&frame->image_flags));
}

uint64_t fgt_intern_hash_image(const void *images, uint32_t id)
{
	const struct fgt_region_image *image = images;

	return hash_row(image[id].words, FGT_REGION_IMAGE_WORDS);
}

uint64_t fgt_intern_hash_wait(const void *waits, uint32_t id)
{
	const struct fgt_region_wait *wait = waits;

	return hash_row(wait[id].words, FGT_REGION_WAIT_WORDS);
}

uint64_t fgt_intern_hash_waker(const void *wakers, uint32_t id)
{
	const struct fgt_region_waker *waker = wakers;

	return hash_row(waker[id].words, FGT_REGION_WAKER_WORDS);
}

static bool is_row_equal(const fgt_word *row, const uint64_t *words,
			 size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fgt_region_load(&row[i]) != words[i])
			return false;
	return true;
}

uint32_t fgt_intern_find(const struct fgt_id_table *table, const fgt_word *rows,
			 const uint64_t *words, size_t count, uint64_t hash)
{
	uint32_t id = fgt_id_table_first(table, hash);

	while (id != FGT_ID_NONE &&
	       !is_row_equal(rows + id * count, words, count))
		id = fgt_id_table_next(table, id);
	return id;
}

/* Takes an id, dropping old segments until there is one. */
static uint32_t take_id(struct fgt_writer *writer, struct fgt_id_table *table)
{
	uint32_t id = fgt_id_table_take(table);

	while (id == FGT_ID_NONE && fgt_log_evict_oldest(writer))
		id = fgt_id_table_take(table);
	return id;
}

/* ---- Images ----------------------------------------------------------- */

/* Equal images have equal words: nothing lies behind the ends of texts. */
static void pack_image(const struct fgt_image *image, uint64_t *ret_words)
{
	struct fgt_image clean = *image;

	memset(clean.path, 0, sizeof(clean.path));
	memcpy(clean.path, image->path,
	       strnlen(image->path, sizeof(clean.path) - 1));
	if (clean.build_id_len > FGT_BUILD_ID_MAX)
		clean.build_id_len = FGT_BUILD_ID_MAX;
	memset(clean.build_id + clean.build_id_len, 0,
	       FGT_BUILD_ID_MAX - clean.build_id_len);
	memcpy(ret_words, &clean, sizeof(clean));
}

int fgt_ring_image_get(struct fgt_ring *ring, const struct fgt_image *image,
		       uint32_t *ret_image)
{
	struct fgt_writer *writer = &ring->writer;
	struct fgt_id_table *table = &writer->images;
	uint64_t words[FGT_REGION_IMAGE_WORDS], hash;
	uint32_t id;

	pack_image(image, words);
	hash = fgt_intern_hash_words(words, FGT_REGION_IMAGE_WORDS);
	id = fgt_intern_find(table, writer->region.images->words, words,
			     FGT_REGION_IMAGE_WORDS, hash);
	if (id != FGT_ID_NONE) {
		table->refs[id]++;
		*ret_image = id + 1;
		return 0;
	}
	id = take_id(writer, table);
	if (id == FGT_ID_NONE)
		return -ENOSPC;
	for (size_t i = 0; i < FGT_REGION_IMAGE_WORDS; i++)
		fgt_region_store(&writer->region.images[id].words[i], words[i]);
	fgt_id_table_link(table, id, hash);
	writer->made.images++;
	*ret_image = id + 1;
	return 0;
}

static void drop_image(struct fgt_writer *writer, uint32_t image)
{
	struct fgt_id_table *table = &writer->images;
	uint32_t id = image - 1;

	if (image == FGT_IMAGE_NONE || --table->refs[id])
		return;
	fgt_id_table_unlink(table, id,
			    fgt_intern_hash_image(writer->region.images, id));
	fgt_id_table_give(table, id);
}

static bool is_image_known(const struct fgt_writer *writer, uint32_t image)
{
	return image == FGT_IMAGE_NONE || (image <= writer->images.fresh &&
					   writer->images.refs[image - 1]);
}

void fgt_ring_image_put(struct fgt_ring *ring, uint32_t image)
{
	if (is_image_known(&ring->writer, image))
		drop_image(&ring->writer, image);
}

/* ---- Frames ----------------------------------------------------------- */

static void drop_frame(struct fgt_writer *writer, uint32_t id)
{
	const struct fgt_region_frame *frames = writer->region.frames;
	uint64_t image_flags;

	if (--writer->frames.refs[id])
		return;
	image_flags = fgt_region_load(&frames[id].image_flags);
	fgt_id_table_unlink(&writer->frames, id,
			    fgt_intern_hash_frame(frames, id));
	fgt_id_table_give(&writer->frames, id);
	drop_image(writer, (uint32_t)(image_flags >> 32));
}

/* The frame's id with one reference, or FGT_ID_NONE if there is no room. */
static uint32_t hold_frame(struct fgt_writer *writer,
			   const struct fgt_frame *frame)
{
	struct fgt_id_table *table = &writer->frames;
	struct fgt_region_frame *known = writer->region.frames;
	uint64_t image_flags = (uint64_t)frame->image << 32 | frame->flags;
	uint64_t hash = hash_frame(frame->address, image_flags);
	uint32_t id;

	for (id = fgt_id_table_first(table, hash); id != FGT_ID_NONE;
	     id = fgt_id_table_next(table, id)) {
		if (fgt_region_load(&known[id].address) == frame->address &&
		    fgt_region_load(&known[id].image_flags) == image_flags) {
			table->refs[id]++;
			return id;
		}
	}
	/* Held first: making room could take the image's last reference. */
	if (frame->image != FGT_IMAGE_NONE)
		writer->images.refs[frame->image - 1]++;
	id = take_id(writer, table);
	if (id == FGT_ID_NONE) {
		drop_image(writer, frame->image);
		return FGT_ID_NONE;
	}
	fgt_region_store(&known[id].address, frame->address);
	fgt_region_store(&known[id].image_flags, image_flags);
	fgt_id_table_link(table, id, hash);
	writer->made.frames++;
	return id;
}

/* ---- Nodes ------------------------------------------------------------ */

void fgt_intern_hold_node(struct fgt_writer *writer, uint32_t node)
{
	if (node != FGT_NODE_NONE)
		writer->nodes.refs[node]++;
}

void fgt_intern_drop_node(struct fgt_writer *writer, uint32_t node)
{
	struct fgt_id_table *table = &writer->nodes;

	while (node != FGT_NODE_NONE && !--table->refs[node]) {
		uint64_t word = fgt_region_load(&writer->region.nodes[node]);

		fgt_id_table_unlink(table, node, fgt_hash_number(word));
		fgt_id_table_give(table, node);
		drop_frame(writer, (uint32_t)word);
		node = (uint32_t)(word >> 32);
	}
}

/*
 * The node for frame under parent. Takes over the caller's reference on parent
 * and gives one on the result; FGT_ID_NONE if there is no room.
 */
static uint32_t step_down(struct fgt_writer *writer, uint32_t parent,
			  const struct fgt_frame *frame)
{
	struct fgt_id_table *table = &writer->nodes;
	uint32_t frame_id = hold_frame(writer, frame), id = FGT_ID_NONE;
	uint64_t word = (uint64_t)parent << 32 | frame_id;
	uint64_t hash = fgt_hash_number(word);

	if (frame_id != FGT_ID_NONE)
		id = fgt_id_table_first(table, hash);
	while (id != FGT_ID_NONE &&
	       fgt_region_load(&writer->region.nodes[id]) != word)
		id = fgt_id_table_next(table, id);
	if (id != FGT_ID_NONE) {
		table->refs[id]++;
		drop_frame(writer, frame_id);
		fgt_intern_drop_node(writer, parent);
		return id;
	}
	if (frame_id != FGT_ID_NONE)
		id = take_id(writer, table);
	if (id == FGT_ID_NONE) {
		if (frame_id != FGT_ID_NONE)
			drop_frame(writer, frame_id);
		fgt_intern_drop_node(writer, parent);
		return FGT_ID_NONE;
	}
	fgt_region_store(&writer->region.nodes[id], word);
	fgt_id_table_link(table, id, hash);
	writer->made.nodes++;
	return id;
}

static uint32_t overflow(struct fgt_writer *writer)
{
	fgt_region_add(&writer->region.header->overflows, 1);
	fgt_intern_hold_node(writer, writer->overflow_node);
	return writer->overflow_node;
}

static struct fgt_frame marker_frame(uint32_t marker)
{
	return (struct fgt_frame){ .address = marker,
				   .flags = FGT_FRAME_MARKER };
}

int fgt_intern_init(struct fgt_writer *writer)
{
	struct fgt_frame frame = marker_frame(FGT_MARKER_OVERFLOW);

	writer->overflow_node = step_down(writer, FGT_NODE_NONE, &frame);
	return writer->overflow_node == FGT_ID_NONE ? -ENOSPC : 0;
}

int fgt_intern_stack(struct fgt_writer *writer, const struct fgt_frame *frames,
		     size_t count, uint32_t *ret_node)
{
	const struct fgt_frame elided = marker_frame(FGT_MARKER_ELIDED);
	const size_t half = FGT_WRITER_DEPTH_MAX / 2;
	uint32_t node = FGT_NODE_NONE;

	for (size_t i = 0; i < count; i++)
		if (!is_image_known(writer, frames[i].image))
			return -EINVAL;
	for (size_t i = count; i-- > 0;) {
		bool is_elided = count > FGT_WRITER_DEPTH_MAX &&
				 i == count - half;

		node = step_down(writer, node,
				 is_elided ? &elided : &frames[i]);
		if (node == FGT_ID_NONE) {
			node = overflow(writer);
			break;
		}
		if (is_elided)
			i = half;
	}
	*ret_node = node;
	return 0;
}

static bool is_leaf_marker(const struct fgt_writer *writer, uint32_t node)
{
	uint64_t word = fgt_region_load(&writer->region.nodes[node]);
	const struct fgt_region_frame *frame =
		&writer->region.frames[(uint32_t)word];

	if (!(fgt_region_load(&frame->image_flags) & FGT_FRAME_MARKER))
		return false;
	/* Other markers belong to the stack itself. */
	return fgt_region_load(&frame->address) <= FGT_MARKER_NOT_SAMPLED;
}

uint32_t fgt_intern_marker(struct fgt_writer *writer, uint32_t node,
			   uint32_t marker)
{
	struct fgt_frame frame = marker_frame(marker);

	if (node != FGT_NODE_NONE && is_leaf_marker(writer, node))
		node = (uint32_t)(fgt_region_load(
					  &writer->region.nodes[node]) >>
				  32);
	/* There is no last stack that the marker could mean. */
	if (node == FGT_NODE_NONE && marker == FGT_MARKER_NOT_SAMPLED)
		return node;
	fgt_intern_hold_node(writer, node);
	node = step_down(writer, node, &frame);
	return node == FGT_ID_NONE ? overflow(writer) : node;
}
