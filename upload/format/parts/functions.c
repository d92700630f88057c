/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions by number. Runs in the thread that owns them; must not copy a
 * name: they stay in the slice.
 */
#include "upload/format/parts/functions.h"

void fgt_functions_init(struct fgt_functions *functions,
			const struct fgt_ring_slice *slice)
{
	*functions = (struct fgt_functions){ .slice = slice };
}

void fgt_functions_done(struct fgt_functions *functions)
{
	fgt_id_map_done(&functions->names);
	fgt_id_map_done(&functions->ids);
}

int fgt_functions_add(struct fgt_functions *functions, struct fgt_level level,
		      uint32_t file, uint32_t *ret_function)
{
	uint32_t name;
	int r;

	r = fgt_id_map_add(&functions->names, fgt_level_key(level), &name);
	if (r)
		return r;
	return fgt_id_map_add(&functions->ids, (uint64_t)name << 32 | file,
			      ret_function);
}

int fgt_functions_add_frame(struct fgt_functions *functions, uint32_t frame,
			    uint32_t index, uint32_t *ret_function)
{
	const struct fgt_ring_slice *slice = functions->slice;
	struct fgt_level level = fgt_level_of_frame(slice, frame, index);
	uint32_t symbol = slice->frames[frame].symbol_first + index;

	return fgt_functions_add(functions, level,
				 level.kind == FGT_LEVEL_FUNCTION
					 ? slice->symbols[symbol].file
					 : 0,
				 ret_function);
}

struct fgt_level fgt_functions_level(const struct fgt_functions *functions,
				     uint32_t function)
{
	uint32_t name = (uint32_t)(functions->ids.keys[function] >> 32);

	return fgt_level_of_key(functions->names.keys[name]);
}

uint32_t fgt_functions_file(const struct fgt_functions *functions,
			    uint32_t function)
{
	return (uint32_t)functions->ids.keys[function];
}
