/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folded stacks: one line "root;…;leaf ticks" per distinct stack, sorted by
 * byte.
 */
#ifndef FGT_UPLOAD_FORMAT_FOLDED_H
#define FGT_UPLOAD_FORMAT_FOLDED_H

#include "upload/format/format.h"

/* As fgt_format_write(). MT-Safe | AS-Unsafe */
int fgt_folded_write(const struct fgt_ring_slice *slice,
		     const struct fgt_format_options *options,
		     const struct fgt_sink *sink);

#endif
