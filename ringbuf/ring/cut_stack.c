/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the stacks of a slice from a cut's private copies, parents before
 * children. Runs in any reader; must refuse invalid copies, since the ring may
 * belong to another process.
 */
#include "ringbuf/ring/cut.h"

#include <errno.h>
#include <string.h>

static int build_image(const struct fgt_cut *cut, struct fgt_ring_slice *slice,
		       uint32_t image, uint32_t *ret_image)
{
	struct fgt_cut_image *copy;
	struct fgt_slice_image *built;
	uint32_t row;

	*ret_image = FGT_IMAGE_NONE;
	if (image == FGT_IMAGE_NONE)
		return 0;
	if (image > cut->region->shape.images ||
	    !cut->image_rows.index[image - 1])
		return -EBADMSG;
	row = cut->image_rows.index[image - 1] - 1;
	copy = &cut->images[row];
	*ret_image = copy->out;
	if (copy->out)
		return 0;
	if (copy->image.build_id_len > FGT_BUILD_ID_MAX)
		return -EBADMSG;
	built = &slice->images[slice->image_count];
	built->build_id_len = copy->image.build_id_len;
	memcpy(built->build_id, copy->image.build_id, sizeof(built->build_id));
	built->is_deleted = copy->image.is_deleted;
	built->bias = copy->image.bias;
	built->start = copy->image.start;
	built->end = copy->image.end;
	built->dev = copy->image.dev;
	built->ino = copy->image.ino;
	copy->out = *ret_image = ++slice->image_count;
	return fgt_strings_intern(
		&slice->strings, copy->image.path,
		strnlen(copy->image.path, sizeof(copy->image.path)),
		&built->path);
}

static int build_frame(const struct fgt_cut *cut, struct fgt_ring_slice *slice,
		       uint32_t id, uint32_t *ret_frame)
{
	struct fgt_cut_frame *copy;
	struct fgt_slice_frame *built;
	int error;

	if (id >= cut->region->shape.frames || !cut->frame_rows.index[id])
		return -EBADMSG;
	copy = &cut->frames[cut->frame_rows.index[id] - 1];
	if (!copy->out) {
		built = &slice->frames[slice->frame_count];
		built->frame = copy->frame;
		error = build_image(cut, slice, copy->frame.image,
				    &built->frame.image);
		if (error)
			return error;
		copy->out = ++slice->frame_count;
	}
	*ret_frame = copy->out - 1;
	return 0;
}

static struct fgt_cut_node *find_node(const struct fgt_cut *cut, uint32_t id)
{
	if (id >= cut->region->shape.nodes || !cut->node_rows.index[id])
		return NULL;
	return &cut->nodes[cut->node_rows.index[id] - 1];
}

/* The nodes from id up to one that is built already, leaf first. */
static int climb(const struct fgt_cut *cut, uint32_t id,
		 struct fgt_cut_node **chain, uint32_t *ret_len,
		 struct fgt_cut_node **ret_built)
{
	uint32_t len = 0;

	*ret_built = NULL;
	while (id != FGT_NODE_NONE) {
		struct fgt_cut_node *node = find_node(cut, id);

		if (!node || len == FGT_SLICE_DEPTH_MAX)
			return -EBADMSG;
		if (node->out) {
			*ret_built = node;
			break;
		}
		chain[len++] = node;
		id = node->parent;
	}
	*ret_len = len;
	return 0;
}

int fgt_cut_build_stack(const struct fgt_cut *cut, struct fgt_ring_slice *slice,
			uint32_t id, uint32_t *ret_stack)
{
	struct fgt_cut_node *chain[FGT_SLICE_DEPTH_MAX], *parent;
	uint32_t len;
	int error;

	error = climb(cut, id, chain, &len, &parent);
	if (error)
		return error;
	while (len--) {
		struct fgt_slice_node *built = &slice->nodes[slice->node_count];

		chain[len]->depth = parent ? parent->depth + 1 : 1;
		if (chain[len]->depth > FGT_SLICE_DEPTH_MAX)
			return -EBADMSG;
		built->parent = parent ? parent->out - 1 : FGT_NODE_NONE;
		error = build_frame(cut, slice, chain[len]->frame,
				    &built->frame);
		if (error)
			return error;
		parent = chain[len];
		parent->out = ++slice->node_count;
	}
	*ret_stack = parent ? parent->out - 1 : FGT_NODE_NONE;
	return 0;
}
