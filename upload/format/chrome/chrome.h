/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chrome trace events, for Perfetto and speedscope.
 */
#ifndef FGT_UPLOAD_FORMAT_CHROME_CHROME_H
#define FGT_UPLOAD_FORMAT_CHROME_CHROME_H

#include "upload/format/parts/options.h"

/* As fgt_format_write(). MT-Safe | AS-Unsafe */
int fgt_chrome_write(const struct fgt_ring_slice *slice,
		     const struct fgt_format_options *options,
		     const struct fgt_sink *sink);

/* ---- Between its parts ------------------------------------------------- */

/* Readers keep 32 bits without a sign, and 0 is their idle thread. */
static inline uint64_t fgt_chrome_id(int32_t id)
{
	return id > 0 ? (uint64_t)id : INT32_MAX;
}

/* The name, unless speedscope would read the file as a DevTools profile. */
const char *fgt_chrome_safe_name(const char *name);

#endif
