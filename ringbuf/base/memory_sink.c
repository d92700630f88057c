/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grows by doubling. One thread at a time; must not grow beyond its bound.
 */
#include "ringbuf/base/memory_sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 65536

static int reserve(struct fgt_memory_sink *memory, size_t len_bytes)
{
	size_t capacity = memory->capacity_bytes;
	uint8_t *grown;

	if (len_bytes <= capacity)
		return 0;
	capacity = capacity ? capacity : FIRST_CAPACITY;
	while (capacity < len_bytes)
		capacity *= 2;
	grown = realloc(memory->bytes, capacity);
	if (!grown)
		return -ENOMEM;
	memory->bytes = grown;
	memory->capacity_bytes = capacity;
	return 0;
}

static int write_memory(void *context, const void *bytes, size_t len)
{
	struct fgt_memory_sink *memory = context;
	int error;

	if (len > memory->max_bytes - memory->len_bytes)
		return -EMSGSIZE;
	error = reserve(memory, memory->len_bytes + len);
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
