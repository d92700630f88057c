/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small fixed buffer in front of a sink, for encoders that write a few bytes
 * at a time. The first error sticks: writers check once, at the flush.
 */
#ifndef FGT_RINGBUF_BASE_SINK_BUFFER_H
#define FGT_RINGBUF_BASE_SINK_BUFFER_H

#include <stdint.h>
#include <string.h>

#include "ringbuf/base/sink.h"

struct fgt_sink_buffer {
	const struct fgt_sink *target; /* outlives the buffer */
	uint64_t total_bytes; /* handed to the target so far */
	int error; /* the first one; nothing is written after */
	size_t used_bytes;
	char bytes[8192];
};

void fgt_sink_buffer_init(struct fgt_sink_buffer *buffer,
			  const struct fgt_sink *target);

/* What does not fit in the free part. Called by fgt_sink_buffer_put(). */
void fgt_sink_buffer_put_slow(struct fgt_sink_buffer *buffer, const void *bytes,
			      size_t len);

static inline void fgt_sink_buffer_put(struct fgt_sink_buffer *buffer,
				       const void *bytes, size_t len)
{
	if (len > sizeof(buffer->bytes) - buffer->used_bytes) {
		fgt_sink_buffer_put_slow(buffer, bytes, len);
		return;
	}
	memcpy(buffer->bytes + buffer->used_bytes, bytes, len);
	buffer->used_bytes += len;
}

/*
 * Hands on what is left. 0, or the first error of the target.
 *
 * MT-Unsafe for one buffer | AS-Unsafe
 */
int fgt_sink_buffer_flush(struct fgt_sink_buffer *buffer);

#endif
