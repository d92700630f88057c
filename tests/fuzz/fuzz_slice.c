/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .fgt files from anywhere: never a crash, and what is accepted survives
 * encoding and every format.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/slice/slice_codec.h"
#include "upload/format/format.h"

struct memory {
	uint8_t *bytes;
	size_t len, capacity;
};

static int keep(void *context, const void *bytes, size_t len)
{
	struct memory *memory = context;

	if (memory->len + len > memory->capacity) {
		memory->capacity = (memory->len + len) * 2;
		memory->bytes = realloc(memory->bytes, memory->capacity);
		if (!memory->bytes)
			abort();
	}
	memcpy(memory->bytes + memory->len, bytes, len);
	memory->len += len;
	return 0;
}

static int count(void *context, const void *bytes, size_t len)
{
	size_t *total = context;

	(void)bytes;
	*total += len;
	/* A sink may fail at any time; it also bounds what one input costs. */
	return *total > 4u << 20 ? -ENOSPC : 0;
}

static struct memory encode(const struct fgt_ring_slice *slice)
{
	struct memory memory = { 0 };
	const struct fgt_sink sink = { .write = keep, .context = &memory };

	if (fgt_slice_encode(slice, &sink))
		abort();
	return memory;
}

static void must_survive_encoding(const struct fgt_ring_slice *slice)
{
	struct memory once = encode(slice), twice;
	struct fgt_ring_slice *back = NULL;

	if (fgt_slice_decode(once.bytes, once.len, &back, NULL))
		abort();
	twice = encode(back);
	if (once.len != twice.len ||
	    memcmp(once.bytes, twice.bytes, once.len) != 0)
		abort();
	free(once.bytes);
	free(twice.bytes);
	fgt_ring_slice_free(back);
}

static void must_be_writable(const struct fgt_ring_slice *slice)
{
	for (int format = 0; format < FGT_KIND_COUNT; format++) {
		const struct fgt_format_options options = {
			.state_frames =
				(enum fgt_state_frames)(slice->tick_count % 4),
			.otlp_shape =
				(enum fgt_otlp_shape)(slice->tick_count % 2),
		};
		size_t total = 0;
		const struct fgt_sink sink = { .write = count,
					       .context = &total };
		int r = fgt_format_write(slice, (enum fgt_format_kind)format,
					 &options, &sink);

		if (r && r != -ENOSPC && r != -ENODATA)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct fgt_ring_slice *slice = NULL;
	struct fgt_why why;

	if (fgt_slice_decode(bytes, len, &slice, &why))
		return 0;
	must_survive_encoding(slice);
	must_be_writable(slice);
	fgt_ring_slice_free(slice);
	return 0;
}
