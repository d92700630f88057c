/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chrome trace events, for Perfetto and speedscope.
 */
#ifndef FGT_UPLOAD_FORMAT_CHROME_H
#define FGT_UPLOAD_FORMAT_CHROME_H

#include "upload/format/format.h"

/* As fgt_format_write(). MT-Safe | AS-Unsafe */
int fgt_chrome_write(const struct fgt_slice *slice,
		     const struct fgt_format_options *options,
		     const struct fgt_sink *sink);

#endif
