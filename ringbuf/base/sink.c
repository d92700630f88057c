/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sinks for descriptors and memory, and the buffer before a sink. Runs in any
 * thread; only the memory sink may allocate, and not beyond its bound.
 */
#include "ringbuf/base/sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ringbuf/base/array.h"

int fgt_fd_write(int fd, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len > 0) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

ssize_t fgt_fd_read(int fd, void *bytes, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = read(fd, (char *)bytes + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int write_fd(void *context, const void *bytes, size_t len)
{
	const int *fd = context;

	return fgt_fd_write(*fd, bytes, len);
}

struct fgt_sink fgt_fd_sink(int *fd)
{
	return (struct fgt_sink){ .write = write_fd, .context = fd };
}

static int write_memory(void *context, const void *bytes, size_t len)
{
	struct fgt_memory_sink *memory = context;
	int error;

	if (len > memory->max_bytes - memory->len_bytes)
		return -EMSGSIZE;
	error = FGT_ARRAY_RESERVE(memory->bytes, memory->len_bytes + len,
				  memory->capacity_bytes);
	if (error)
		return error;
	if (len)
		memcpy(memory->bytes + memory->len_bytes, bytes, len);
	memory->len_bytes += len;
	return 0;
}

void fgt_memory_sink_init(struct fgt_memory_sink *memory, size_t max_bytes)
{
	*memory = (struct fgt_memory_sink){
		.sink = { .write = write_memory, .context = memory },
		.max_bytes = max_bytes,
	};
}

void fgt_memory_sink_done(struct fgt_memory_sink *memory)
{
	free(memory->bytes);
	memory->bytes = NULL;
	memory->len_bytes = memory->capacity_bytes = 0;
}

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
