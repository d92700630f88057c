/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What maps are made of, for those that make them and look things up in them.
 */
#ifndef FGT_AGENT_UNWIND_MAPS_MAPS_TABLE_H
#define FGT_AGENT_UNWIND_MAPS_MAPS_TABLE_H

#include "agent/unwind/maps/maps.h"

struct fgt_maps_image {
	struct fgt_image image;
	struct fgt_image_file *file; /* NULL: could not be opened */
};

struct fgt_maps {
	uint64_t serial;
	struct fgt_mapping *mappings; /* sorted, disjoint */
	size_t count, capacity;
	struct fgt_maps_image *images;
	size_t image_count, image_capacity;
};

#endif
