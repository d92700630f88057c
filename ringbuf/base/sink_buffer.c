/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers small writes for a sink. Runs in any thread; must not allocate.
 */
#include "ringbuf/base/sink_buffer.h"

void fgt_sink_buffer_init(struct fgt_sink_buffer *buffer,
			  const struct fgt_sink *target)
{
	buffer->target = target;
	buffer->total_bytes = 0;
	buffer->error = 0;
	buffer->used_bytes = 0;
}

static void hand_on(struct fgt_sink_buffer *buffer, const void *bytes,
		    size_t len)
{
	if (buffer->error || !len)
		return;
	buffer->error = fgt_sink_write(buffer->target, bytes, len);
	buffer->total_bytes += len;
}

void fgt_sink_buffer_put_slow(struct fgt_sink_buffer *buffer, const void *bytes,
			      size_t len)
{
	hand_on(buffer, buffer->bytes, buffer->used_bytes);
	buffer->used_bytes = 0;
	if (len >= sizeof(buffer->bytes)) {
		hand_on(buffer, bytes, len);
		return;
	}
	memcpy(buffer->bytes, bytes, len);
	buffer->used_bytes = len;
}

int fgt_sink_buffer_flush(struct fgt_sink_buffer *buffer)
{
	hand_on(buffer, buffer->bytes, buffer->used_bytes);
	buffer->used_bytes = 0;
	return buffer->error;
}
