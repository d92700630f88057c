/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files whose names were asked for, and the answers: bounded, shared by all
 * slices, keyed by build id or by device, inode and path.
 */
#ifndef FGT_AGENT_SYMBOLS_SYMBOL_CACHE_H
#define FGT_AGENT_SYMBOLS_SYMBOL_CACHE_H

#include "agent/symbols/debug_file.h"
#include "agent/symbols/symbolizer.h"

struct fgt_symbol_cache;
struct fgt_symbol_file; /* reference counted; calls on it take turns */

/* options are borrowed for the cache's life. -ENOMEM. */
int fgt_symbol_cache_new(const struct fgt_symbolizer_options *options,
			 struct fgt_symbol_cache **ret_cache);
void fgt_symbol_cache_free(struct fgt_symbol_cache *cache);

/* The entry of an image, opened when its first name is asked for. -ENOMEM. */
int fgt_symbol_cache_get(struct fgt_symbol_cache *cache,
			 const struct fgt_slice *slice,
			 const struct fgt_slice_image *image,
			 const struct fgt_debug_search *search,
			 struct fgt_symbol_file **ret_file);
void fgt_symbol_file_put(struct fgt_symbol_file *file);

/*
 * Adds the names of an ELF address to a frame of the slice. -ENOENT with the
 * reason when there is none; -ENOMEM.
 */
int fgt_symbol_file_name(struct fgt_symbol_file *file, struct fgt_slice *slice,
			 uint32_t frame, uint64_t address,
			 enum fgt_symbol_reason *ret_reason);

#endif
