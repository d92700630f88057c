/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Sentry envelope: a transaction and its profile, sample format version 1.
 */
#ifndef FGT_UPLOAD_FORMAT_SENTRY_SENTRY_H
#define FGT_UPLOAD_FORMAT_SENTRY_SENTRY_H

#include "upload/format/parts/options.h"

/* As fgt_format_write(). MT-Safe | AS-Unsafe */
int fgt_sentry_write(const struct fgt_ring_slice *slice,
		     const struct fgt_format_options *options,
		     const struct fgt_sink *sink);

#endif
