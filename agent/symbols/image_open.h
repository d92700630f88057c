/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the very file that a slice's image was mapped from, or says why not.
 */
#ifndef FGT_AGENT_SYMBOLS_IMAGE_OPEN_H
#define FGT_AGENT_SYMBOLS_IMAGE_OPEN_H

#include <stddef.h>
#include <stdint.h>

#include "agent/symbols/symbolizer.h"

/*
 * The NT_GNU_BUILD_ID note of an ELF file, read with pread and bounded.
 * *ret_len 0 if it has none. ret_build_id[FGT_BUILD_ID_MAX]. -EBADMSG.
 * MT-Safe | AS-Safe
 */
int fgt_image_read_build_id(int fd, uint8_t *ret_build_id, size_t *ret_len);

/*
 * By options->open_image, else by path below root_fd (-1: none), else below
 * "/"; the vDSO from our own. Accepted only if build id, or (dev, ino) where
 * there is no build id, agrees. 0; or -ENOENT with the reason why not.
 */
int fgt_image_open(const struct fgt_symbolizer_options *options,
		   const struct fgt_slice *slice,
		   const struct fgt_slice_image *image, int root_fd,
		   int *ret_fd, enum fgt_symbol_reason *ret_reason);

#endif
