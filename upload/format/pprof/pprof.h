/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's profile.proto, gzipped: samples and wall-clock time per stack,
 * thread and state.
 */
#ifndef FGT_UPLOAD_FORMAT_PPROF_PPROF_H
#define FGT_UPLOAD_FORMAT_PPROF_PPROF_H

#include "upload/format/parts/options.h"

/* As fgt_format_write(). MT-Safe | AS-Unsafe */
int fgt_pprof_write(const struct fgt_ring_slice *slice,
		    const struct fgt_format_options *options,
		    const struct fgt_sink *sink);

#endif
