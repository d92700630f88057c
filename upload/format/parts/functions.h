/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers the functions that an encoder shows: 0, 1, 2 … in order of
 * appearance. A function is a name in a source file, or a state, or a marker.
 *
 * MT-Unsafe for one table of functions | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_FUNCTIONS_H
#define FGT_UPLOAD_FORMAT_PARTS_FUNCTIONS_H

#include "ringbuf/base/id_map.h"
#include "upload/format/parts/levels.h"

struct fgt_functions {
	const struct fgt_ring_slice *slice;
	struct fgt_id_map names; /* level → name */
	struct fgt_id_map ids; /* (name, file) → function */
};

void fgt_functions_init(struct fgt_functions *functions,
			const struct fgt_ring_slice *slice);
void fgt_functions_done(struct fgt_functions *functions);

/* file: string id of the slice, 0 if unknown. -ENOMEM. */
int fgt_functions_add(struct fgt_functions *functions, struct fgt_level level,
		      uint32_t file, uint32_t *ret_function);

/* Adds a level of a frame, 0 is the innermost. -ENOMEM. */
int fgt_functions_add_frame(struct fgt_functions *functions, uint32_t frame,
			    uint32_t index, uint32_t *ret_function);

/* The level that has its name, and its file's string id. */
struct fgt_level fgt_functions_level(const struct fgt_functions *functions,
				     uint32_t function);
uint32_t fgt_functions_file(const struct fgt_functions *functions,
			    uint32_t function);

#endif
