/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where encoders put their bytes: a descriptor, memory, a compressor; and a
 * buffer in front of any of them.
 *
 * MT-Unsafe for one sink | AS-Unsafe unless a function has another note
 */
#ifndef FGT_RINGBUF_BASE_SINK_H
#define FGT_RINGBUF_BASE_SINK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

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

/* ---- A descriptor that blocks ------------------------------------------- */

/*
 * Writes all bytes, through partial writes and signals. errno of write(2);
 * -EIO if write(2) took nothing.
 *
 * MT-Safe | AS-Safe
 */
int fgt_fd_write(int fd, const void *bytes, size_t len);

/*
 * Reads len bytes, or fewer at the end of the file, through partial reads and
 * signals. Returns how many; errno of read(2).
 *
 * MT-Safe | AS-Safe
 */
ssize_t fgt_fd_read(int fd, void *bytes, size_t len);

/* *fd must stay valid as long as the sink is used. */
struct fgt_sink fgt_fd_sink(int *fd);

/* ---- Memory, up to a bound ---------------------------------------------- */

struct fgt_memory_sink {
	struct fgt_sink sink; /* write here; -EMSGSIZE beyond the bound */
	uint8_t *bytes;
	size_t len_bytes, capacity_bytes, max_bytes;
};

/* It must not be moved afterwards. */
void fgt_memory_sink_init(struct fgt_memory_sink *memory, size_t max_bytes);
void fgt_memory_sink_done(struct fgt_memory_sink *memory);

/* ---- A small buffer before a sink --------------------------------------- */

/*
 * For encoders that write a few bytes at a time. The first error sticks, so
 * that writers check once, at the flush.
 */
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
 * Writes what is left to the target. 0, or the first error of the target.
 *
 * MT-Unsafe for one buffer | AS-Unsafe
 */
int fgt_sink_buffer_flush(struct fgt_sink_buffer *buffer);

#endif
