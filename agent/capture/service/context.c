/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a process context that its program may be writing, or that is made to
 * mislead: each step has a bound, nothing is believed but by a second read of
 * the header. Any thread.
 */
#include "agent/capture/service/context.h"

#include <errno.h>
#include <string.h>

#define VERSION 2
#define TRIES	3

struct header {
	char signature[8];
	uint32_t version, payload_bytes;
	uint64_t published_ns; /* 0: it is being written */
	uint64_t payload; /* address */
};
_Static_assert(sizeof(struct header) == 32, "as programs write it");

static int read_header(const struct fgt_context_memory *memory,
		       uint64_t address, struct header *ret_header)
{
	int r = memory->read(memory->context, address, ret_header,
			     sizeof(*ret_header));

	if (r < 0)
		return r;
	if (memcmp(ret_header->signature, "OTEL_CTX", 8) != 0 ||
	    ret_header->version != VERSION)
		return -EPROTO;
	return ret_header->published_ns ? 0 : -EAGAIN;
}

/* The payload of header, unless the program changes either meanwhile. */
static int read_payload(const struct fgt_context_memory *memory,
			uint64_t address, const struct header *header,
			uint8_t *buffer, size_t size)
{
	struct header again;
	int r;

	if (header->payload_bytes > size)
		return -EMSGSIZE;
	r = memory->read(memory->context, header->payload, buffer,
			 header->payload_bytes);
	/* It may have been freed for the next one. */
	if (read_header(memory, address, &again) < 0 ||
	    memcmp(&again, header, sizeof(again)) != 0)
		return -EAGAIN;
	return r;
}

int fgt_context_copy(const struct fgt_context_memory *memory, uint64_t address,
		     uint64_t known_ns, uint8_t *buffer, size_t size,
		     uint64_t *ret_published_ns, size_t *ret_len)
{
	struct header header;
	int r = -EAGAIN;

	for (int i = 0; i < TRIES && r == -EAGAIN; i++) {
		r = read_header(memory, address, &header);
		if (r < 0)
			continue;
		if (header.published_ns == known_ns)
			return 0;
		r = read_payload(memory, address, &header, buffer, size);
	}
	if (r < 0)
		return r;
	*ret_published_ns = header.published_ns;
	*ret_len = header.payload_bytes;
	return 1;
}
