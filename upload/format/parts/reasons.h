/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows why threads are blocked: the name of a state gets its reason, "futex
 * g_cache_lock ← flusher-2" (held by that thread), "read pipe", "fsync
 * /var/lib/x.wal". Every format that shows states shows reasons by this.
 *
 * MT-Safe for different slices | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_REASONS_H
#define FGT_UPLOAD_FORMAT_PARTS_REASONS_H

#include "ringbuf/base/sink.h"
#include "upload/format/parts/options.h"

/*
 * Gives the runs of a slice states whose names have their reasons. The slice is
 * for encoders of names from then on: the new states' numbers mean nothing. At
 * most FGT_REASONS_MAX different ones, the first ones; the rest keep the names
 * that they had. -ENOMEM.
 */
#define FGT_REASONS_MAX 400
int fgt_reasons_apply(struct fgt_ring_slice *slice);

/* The state without the reason that its name got; itself if it has none. */
uint32_t fgt_reasons_base(const struct fgt_ring_slice *slice, uint32_t state);

/* Calls write with a slice that shows the reasons; the given one stays.
 * -ENOMEM; write's errors. */
int fgt_reasons_write(const struct fgt_ring_slice *slice,
		      const struct fgt_format_options *options,
		      const struct fgt_sink *sink,
		      int (*write)(const struct fgt_ring_slice *slice,
				   const struct fgt_format_options *options,
				   const struct fgt_sink *sink));

#endif
