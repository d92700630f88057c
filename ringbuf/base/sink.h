/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where encoders put their bytes: a file, a socket, a buffer, a compressor.
 */
#ifndef FGT_RINGBUF_BASE_SINK_H
#define FGT_RINGBUF_BASE_SINK_H

#include <stddef.h>

struct fgt_sink {
	/*
	 * Takes all of bytes[len] or fails with a negative errno; after a
	 * failure it is not called again.
	 */
	int (*write)(void *context, const void *bytes, size_t len);
	void *context;
};

static inline int fgt_sink_write(const struct fgt_sink *sink, const void *bytes,
				 size_t len)
{
	return sink->write(sink->context, bytes, len);
}

#endif
