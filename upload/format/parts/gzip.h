/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sink that compresses into another sink (gzip framing, zlib level 6).
 *
 * MT-Unsafe for one sink | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_GZIP_H
#define FGT_UPLOAD_FORMAT_PARTS_GZIP_H

#include "ringbuf/base/owner.h"
#include "ringbuf/base/sink.h"

struct fgt_gzip;

/* Compresses into *target, which must outlive it. -ENOMEM. */
int fgt_gzip_new(const struct fgt_sink *target, struct fgt_gzip **ret_gzip);
/* With zlib's framing (RFC 1950) instead. -ENOMEM. */
int fgt_gzip_new_zlib(const struct fgt_sink *target,
		      struct fgt_gzip **ret_gzip);
/* The sink to write plain bytes to; valid until fgt_gzip_free(). */
struct fgt_sink *fgt_gzip_sink(struct fgt_gzip *gzip);
/* Writes the trailer; without it the output is incomplete. Sink's errors. */
int fgt_gzip_finish(struct fgt_gzip *gzip);
void fgt_gzip_free(struct fgt_gzip *gzip);
FGT_DEFINE_AUTO(struct fgt_gzip *, fgt_gzip_free);

#endif
