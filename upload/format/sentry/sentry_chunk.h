/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Sentry envelope of one profile_chunk, sample format version 2: profiles
 * of any length, as chunks of one profiler_id.
 */
#ifndef FGT_UPLOAD_FORMAT_SENTRY_SENTRY_CHUNK_H
#define FGT_UPLOAD_FORMAT_SENTRY_SENTRY_CHUNK_H

#include <stdbool.h>

#include "upload/format/parts/options.h"

/* Ticks of one chunk, both included; { 0, 0 } before the first. */
struct fgt_sentry_chunk_ticks {
	uint32_t first, last;
};

/*
 * Goes to the ticks of the next chunk, at most 30 s as a profile of version 1
 * (Relay accepts 66 s), and less where its samples would take more than 10 MiB.
 * It begins with the last tick of the one before, since a sample lasts until
 * its thread's next one. False after the last chunk.
 *
 * MT-Safe | AS-Unsafe
 */
bool fgt_sentry_chunk_next(const struct fgt_ring_slice *slice,
			   struct fgt_sentry_chunk_ticks *ticks);

/*
 * Does all of it fit into one, however long it is?
 *
 * MT-Safe | AS-Safe
 */
bool fgt_sentry_chunk_is_one(const struct fgt_ring_slice *slice);

/*
 * Writes one of them. Give all chunks of a slice the same profiler_id, and
 * each one a different event_id. -ENODATA if no thread has two samples in it:
 * leave it out; else as fgt_format_write().
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_sentry_chunk_write_ticks(const struct fgt_ring_slice *slice,
				 const struct fgt_format_options *options,
				 const struct fgt_sentry_chunk_ticks *ticks,
				 const struct fgt_sink *sink);

#endif
