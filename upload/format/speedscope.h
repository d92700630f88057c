/* SPDX-License-Identifier: Apache-2.0 */
/*
 * speedscope's own file format: a timeline of stacks for each thread.
 */
#ifndef FGT_UPLOAD_FORMAT_SPEEDSCOPE_H
#define FGT_UPLOAD_FORMAT_SPEEDSCOPE_H

#include "upload/format/format.h"

/* As fgt_format_write(). MT-Safe | AS-Unsafe */
int fgt_speedscope_write(const struct fgt_ring_slice *slice,
			 const struct fgt_format_options *options,
			 const struct fgt_sink *sink);

#endif
