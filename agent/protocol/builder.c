/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds frames of the control socket. Runs in any thread, one builder per
 * thread; must not build a frame that fgt_message_decode() would refuse for
 * its depth, its size or its number of keys.
 */
#include "agent/protocol/builder.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/protocol/protocol.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/base/why.h"

#define FIXSTR_LEN 32 /* shorter strings have their length in the type byte */

/* A map or an array that is open; its count is written when it ends. */
struct container {
	size_t head; /* offset of its type byte */
	uint32_t count;
	bool is_map;
};

struct fgt_builder {
	struct fgt_memory_sink memory;
	struct container open[FGT_PROTOCOL_DEPTH_MAX];
	size_t depth;
	int error; /* the first one */
};

static void fail(struct fgt_builder *builder, int error)
{
	if (builder->error == 0)
		builder->error = error;
}

/* Nothing after an error. */
static void put_bytes(struct fgt_builder *builder, const void *bytes,
		      size_t len)
{
	if (builder->error == 0)
		builder->error =
			fgt_sink_write(&builder->memory.sink, bytes, len);
}

/* A type byte and a big-endian number of width bytes behind it. */
static void put_head(struct fgt_builder *builder, uint8_t type, uint64_t value,
		     size_t width)
{
	uint64_t big_endian = htobe64(value);
	uint8_t head[1 + sizeof(value)] = { type };

	memcpy(head + 1, (const uint8_t *)&big_endian + sizeof(value) - width,
	       width);
	put_bytes(builder, head, 1 + width);
}

static void put_string(struct fgt_builder *builder, const char *text)
{
	size_t len = strlen(text);

	if (len < FIXSTR_LEN)
		put_head(builder, (uint8_t)(0xa0 | len), 0, 0);
	else
		put_head(builder, 0xdb, len, 4);
	put_bytes(builder, text, len);
}

static void put_uint(struct fgt_builder *builder, uint64_t value)
{
	unsigned int width_log2 = value > UINT32_MAX   ? 3
				  : value > UINT16_MAX ? 2
						       : value > UINT8_MAX;

	if (value < 0x80)
		put_head(builder, (uint8_t)value, 0, 0);
	else
		put_head(builder, (uint8_t)(0xcc + width_log2), value,
			 (size_t)1 << width_log2);
}

/* Opens a container with room for any count. */
static void begin(struct fgt_builder *builder, bool is_map)
{
	if (builder->error)
		return;
	if (builder->depth == FGT_PROTOCOL_DEPTH_MAX) {
		fail(builder, -EINVAL);
		return;
	}
	builder->open[builder->depth++] = (struct container){
		.head = builder->memory.len_bytes,
		.is_map = is_map,
	};
	put_head(builder, is_map ? 0xdf : 0xdd, 0, 4);
}

static void write_count(const struct fgt_builder *builder,
			const struct container *container)
{
	uint32_t count = htobe32(container->count);

	memcpy(builder->memory.bytes + container->head + 1, &count,
	       sizeof(count));
}

static void end(struct fgt_builder *builder, bool is_map)
{
	/* The outermost map is ended by fgt_builder_finish(). */
	if (builder->depth < 2 ||
	    builder->open[builder->depth - 1].is_map != is_map)
		fail(builder, -EINVAL);
	if (builder->error)
		return;
	write_count(builder, &builder->open[--builder->depth]);
}

/* Counts the value that comes next and writes its key. False: an error. */
static bool put_key(struct fgt_builder *builder, const char *key)
{
	struct container *container;

	if (builder->error)
		return false;
	container = &builder->open[builder->depth - 1];
	if (container->is_map != (key != NULL) ||
	    (container->is_map && container->count == FGT_PROTOCOL_KEYS_MAX)) {
		fail(builder, -EINVAL);
		return false;
	}
	container->count++;
	if (key)
		put_string(builder, key);
	return true;
}

int fgt_builder_new(struct fgt_builder **ret_builder)
{
	FGT_AUTO(fgt_builder_free)
	struct fgt_builder *builder = calloc(1, sizeof(*builder));
	/* Written by fgt_builder_finish(). */
	const uint8_t length[FGT_PROTOCOL_LENGTH_BYTES] = { 0 };

	if (!builder)
		return -ENOMEM;
	fgt_memory_sink_init(&builder->memory, FGT_PROTOCOL_LENGTH_BYTES +
						       FGT_PROTOCOL_REPLY_MAX);
	put_bytes(builder, length, sizeof(length));
	begin(builder, true);
	if (builder->error)
		return builder->error;
	*ret_builder = FGT_TAKE(builder);
	return 0;
}

static int new_with_version(struct fgt_builder **ret_builder)
{
	int r = fgt_builder_new(ret_builder);

	if (r == 0)
		fgt_builder_int(*ret_builder, "v", FGT_PROTOCOL_VERSION);
	return r;
}

int fgt_builder_new_request(const char *verb, struct fgt_builder **ret_builder)
{
	int r = new_with_version(ret_builder);

	if (r == 0)
		fgt_builder_string(*ret_builder, "verb", verb);
	return r;
}

int fgt_builder_new_reply(struct fgt_builder **ret_builder)
{
	int r = new_with_version(ret_builder);

	if (r == 0)
		fgt_builder_bool(*ret_builder, "ok", true);
	return r;
}

int fgt_builder_new_error(int error, const char *why,
			  struct fgt_builder **ret_builder)
{
	int r = new_with_version(ret_builder);

	if (r < 0)
		return r;
	fgt_builder_bool(*ret_builder, "ok", false);
	fgt_builder_int(*ret_builder, "error", error);
	fgt_builder_string(*ret_builder, "why", why);
	return 0;
}

/* v, ok, error -12 and why, whose length follows. */
#define NO_MEMORY_HEAD                                                         \
	"\x84\xa1v\x02\xa2ok\xc2\xa5"                                          \
	"error\xf4\xa3why\xd9"
#define NO_MEMORY_WHY "the agent is " FGT_NO_MEMORY
#define LENGTH(text)  (sizeof(text) - 1)

const uint8_t *fgt_builder_no_memory(size_t *ret_len)
{
	static const struct {
		uint8_t length[FGT_PROTOCOL_LENGTH_BYTES];
		char head[LENGTH(NO_MEMORY_HEAD)];
		uint8_t why_len;
		char why[LENGTH(NO_MEMORY_WHY)];
	} frame = {
		.length = { [3] = LENGTH(NO_MEMORY_HEAD) + 1 +
				  LENGTH(NO_MEMORY_WHY) },
		.head = NO_MEMORY_HEAD,
		.why_len = LENGTH(NO_MEMORY_WHY),
		.why = NO_MEMORY_WHY,
	};

	_Static_assert(FGT_PROTOCOL_VERSION == 2 && ENOMEM == 12 &&
			       sizeof(frame) < UINT8_MAX,
		       "the frame has them as they are");
	*ret_len = sizeof(frame);
	return (const uint8_t *)&frame;
}

void fgt_builder_free(struct fgt_builder *builder)
{
	if (!builder)
		return;
	fgt_memory_sink_done(&builder->memory);
	free(builder);
}

void fgt_builder_int(struct fgt_builder *builder, const char *key,
		     int64_t value)
{
	if (value >= 0)
		fgt_builder_uint(builder, key, (uint64_t)value);
	else if (put_key(builder, key))
		put_head(builder, 0xd3, (uint64_t)value, 8);
}

void fgt_builder_uint(struct fgt_builder *builder, const char *key,
		      uint64_t value)
{
	if (put_key(builder, key))
		put_uint(builder, value);
}

void fgt_builder_double(struct fgt_builder *builder, const char *key,
			double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	if (put_key(builder, key))
		put_head(builder, 0xcb, bits, sizeof(bits));
}

void fgt_builder_bool(struct fgt_builder *builder, const char *key, bool value)
{
	if (put_key(builder, key))
		put_head(builder, value ? 0xc3 : 0xc2, 0, 0);
}

void fgt_builder_string(struct fgt_builder *builder, const char *key,
			const char *value)
{
	if (value && put_key(builder, key))
		put_string(builder, value);
}

void fgt_builder_bin(struct fgt_builder *builder, const char *key,
		     const void *bytes, size_t len)
{
	if (!put_key(builder, key))
		return;
	put_head(builder, 0xc6, len, 4);
	put_bytes(builder, bytes, len);
}

void fgt_builder_array_begin(struct fgt_builder *builder, const char *key)
{
	if (put_key(builder, key))
		begin(builder, false);
}

void fgt_builder_array_end(struct fgt_builder *builder)
{
	end(builder, false);
}

void fgt_builder_map_begin(struct fgt_builder *builder, const char *key)
{
	if (put_key(builder, key))
		begin(builder, true);
}

void fgt_builder_map_end(struct fgt_builder *builder)
{
	end(builder, true);
}

int fgt_builder_finish(struct fgt_builder *builder, const uint8_t **ret_bytes,
		       size_t *ret_len)
{
	uint32_t len;

	if (builder->depth != 1)
		fail(builder, -EINVAL);
	if (builder->error)
		return builder->error;
	write_count(builder, &builder->open[0]);
	len = htobe32((uint32_t)(builder->memory.len_bytes -
				 FGT_PROTOCOL_LENGTH_BYTES));
	memcpy(builder->memory.bytes, &len, sizeof(len));
	*ret_bytes = builder->memory.bytes;
	*ret_len = builder->memory.len_bytes;
	return 0;
}
