/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks things up in the maps of a process, an immutable table. Runs in any
 * thread.
 */
#include "agent/unwind/maps/maps.h"

#include <string.h>

#include "ringbuf/base/array.h"

void fgt_maps_free(struct fgt_maps *maps)
{
	if (!maps)
		return;
	for (size_t i = 0; i < maps->image_count; i++)
		fgt_image_file_put(maps->images[i].file);
	free(maps->images);
	free(maps->mappings);
	free(maps);
}

const struct fgt_mapping *fgt_maps_find(const struct fgt_maps *maps,
					uint64_t address)
{
	size_t found = FGT_ARRAY_BISECT(at, maps->count,
					maps->mappings[at].end <= address);

	if (found == maps->count || address < maps->mappings[found].start)
		return NULL;
	return &maps->mappings[found];
}

/* The next executable mapping from *at on, NULL at the end. */
static const struct fgt_mapping *next_executable(const struct fgt_maps *maps,
						 size_t *at)
{
	while (*at < maps->count) {
		const struct fgt_mapping *mapping = &maps->mappings[(*at)++];

		if (mapping->is_executable)
			return mapping;
	}
	return NULL;
}

static bool is_same_image(const struct fgt_maps *a, uint32_t image_a,
			  const struct fgt_maps *b, uint32_t image_b)
{
	const struct fgt_maps_image *left, *right;

	if (image_a == FGT_MAPS_NO_IMAGE || image_b == FGT_MAPS_NO_IMAGE)
		return image_a == image_b;
	left = &a->images[image_a];
	right = &b->images[image_b];
	return left->file == right->file &&
	       left->image.bias == right->image.bias &&
	       left->image.dev == right->image.dev &&
	       left->image.ino == right->image.ino &&
	       left->image.is_deleted == right->image.is_deleted &&
	       !strcmp(left->image.path, right->image.path);
}

bool fgt_maps_is_equal(const struct fgt_maps *a, const struct fgt_maps *b)
{
	const struct fgt_mapping *left, *right;
	size_t at_a = 0, at_b = 0;

	for (;;) {
		left = next_executable(a, &at_a);
		right = next_executable(b, &at_b);
		if (!left || !right)
			return !left && !right;
		if (left->start != right->start || left->end != right->end ||
		    left->offset != right->offset ||
		    !is_same_image(a, left->image, b, right->image))
			return false;
	}
}
