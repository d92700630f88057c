/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of symbols: slices with chosen addresses, truth from
 * addr2line. Runs in tests.
 */
#ifndef FGT_TESTS_UNIT_SYMBOLS_KIT_H
#define FGT_TESTS_UNIT_SYMBOLS_KIT_H

#include "agent/symbols/symbolizer.h"

/* A slice of this process with one image, identified as the file is now. */
struct fgt_ring_slice *kit_slice_of(const char *image_path);
void kit_slice_free(struct fgt_ring_slice *slice);

/* Adds a frame; image: index + 1 or FGT_IMAGE_NONE. Returns its index. */
uint32_t kit_add_frame(struct fgt_ring_slice *slice, uint32_t image,
		       uint64_t address, uint32_t flags);

/* Text of symbol number `at` of a frame. */
const char *kit_function(const struct fgt_ring_slice *slice, uint32_t frame,
			 uint32_t at);
const char *kit_file(const struct fgt_ring_slice *slice, uint32_t frame,
		     uint32_t at);
const struct fgt_symbol *kit_symbol(const struct fgt_ring_slice *slice,
				    uint32_t frame, uint32_t at);

/* A symbolizer with these options (NULL: defaults); fails the test. */
struct fgt_symbolizer *
kit_symbolizer(const struct fgt_symbolizer_options *options);

/* The line of nm for a symbol; fails the test if there is none. */
uint64_t kit_address_of(const char *file, const char *symbol);

#endif
