/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds frames of the control socket (the builder of protocol.h).
 * Runs in any thread, one builder per thread; must not build a frame that
 * fgt_message_decode() would refuse for its depth or size.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <msgpack.h>
#include <string.h>

#include "agent/protocol/protocol.h"

#define LENGTH_BYTES 4

/* A map or an array that is open; its count is written when it ends. */
struct container {
	size_t header; /* offset of its tag */
	uint32_t count;
	bool is_map;
};

struct fgt_builder {
	msgpack_sbuffer buffer;
	msgpack_packer packer;
	struct container open[FGT_PROTOCOL_DEPTH_MAX];
	size_t depth;
	int error; /* the first one */
};

static void fail(struct fgt_builder *builder, int error)
{
	if (builder->error == 0)
		builder->error = error;
}

static void check_size(struct fgt_builder *builder, int packed)
{
	if (packed != 0)
		fail(builder, -ENOMEM);
	else if (builder->buffer.size > FGT_PROTOCOL_REPLY_MAX)
		fail(builder, -EMSGSIZE);
}

/* Opens a container with room for any count. */
static void begin(struct fgt_builder *builder, bool is_map)
{
	char header[5] = { is_map ? (char)0xdf : (char)0xdd, 0, 0, 0, 0 };

	if (builder->error)
		return;
	if (builder->depth == FGT_PROTOCOL_DEPTH_MAX) {
		fail(builder, -EINVAL);
		return;
	}
	builder->open[builder->depth++] = (struct container){
		.header = builder->buffer.size,
		.is_map = is_map,
	};
	check_size(builder, msgpack_sbuffer_write(&builder->buffer, header,
						  sizeof(header)));
}

static void end(struct fgt_builder *builder, bool is_map)
{
	struct container *container;
	uint32_t count;

	if (builder->error)
		return;
	if (builder->depth == 0 ||
	    builder->open[builder->depth - 1].is_map != is_map) {
		fail(builder, -EINVAL);
		return;
	}
	container = &builder->open[--builder->depth];
	count = htonl(container->count);
	memcpy(builder->buffer.data + container->header + 1, &count,
	       sizeof(count));
}

/* Counts the value that comes next and writes its key. */
static bool put_key(struct fgt_builder *builder, const char *key)
{
	struct container *container;

	if (builder->error)
		return false;
	container = builder->depth > 0 ? &builder->open[builder->depth - 1]
				       : NULL;
	if (!container || container->is_map != (key != NULL) ||
	    (container->is_map && container->count == FGT_PROTOCOL_KEYS_MAX)) {
		fail(builder, -EINVAL);
		return false;
	}
	container->count++;
	if (key)
		check_size(builder,
			   msgpack_pack_str_with_body(&builder->packer, key,
						      strlen(key)));
	return builder->error == 0;
}

int fgt_builder_new(struct fgt_builder **ret_builder)
{
	struct fgt_builder *builder = calloc(1, sizeof(*builder));
	char length[LENGTH_BYTES] = { 0 };

	if (!builder)
		return -ENOMEM;
	msgpack_sbuffer_init(&builder->buffer);
	msgpack_packer_init(&builder->packer, &builder->buffer,
			    msgpack_sbuffer_write);
	if (msgpack_sbuffer_write(&builder->buffer, length, sizeof(length))) {
		fgt_builder_free(builder);
		return -ENOMEM;
	}
	begin(builder, true);
	*ret_builder = builder;
	return 0;
}

void fgt_builder_free(struct fgt_builder *builder)
{
	if (!builder)
		return;
	msgpack_sbuffer_destroy(&builder->buffer);
	free(builder);
}

void fgt_builder_int(struct fgt_builder *builder, const char *key,
		     int64_t value)
{
	if (put_key(builder, key))
		check_size(builder,
			   msgpack_pack_int64(&builder->packer, value));
}

void fgt_builder_uint(struct fgt_builder *builder, const char *key,
		      uint64_t value)
{
	if (put_key(builder, key))
		check_size(builder,
			   msgpack_pack_uint64(&builder->packer, value));
}

void fgt_builder_double(struct fgt_builder *builder, const char *key,
			double value)
{
	if (put_key(builder, key))
		check_size(builder,
			   msgpack_pack_double(&builder->packer, value));
}

void fgt_builder_bool(struct fgt_builder *builder, const char *key, bool value)
{
	if (put_key(builder, key))
		check_size(builder,
			   value ? msgpack_pack_true(&builder->packer)
				 : msgpack_pack_false(&builder->packer));
}

void fgt_builder_string(struct fgt_builder *builder, const char *key,
			const char *value)
{
	if (put_key(builder, key))
		check_size(builder,
			   msgpack_pack_str_with_body(&builder->packer, value,
						      strlen(value)));
}

void fgt_builder_bin(struct fgt_builder *builder, const char *key,
		     const void *bytes, size_t len)
{
	if (len > FGT_PROTOCOL_REPLY_MAX)
		fail(builder, -EMSGSIZE);
	else if (put_key(builder, key))
		check_size(builder, msgpack_pack_bin_with_body(&builder->packer,
							       bytes, len));
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
	/* The outermost map is ended by fgt_builder_finish(). */
	if (builder->depth == 1)
		fail(builder, -EINVAL);
	end(builder, true);
}

int fgt_builder_finish(struct fgt_builder *builder, const uint8_t **ret_bytes,
		       size_t *ret_len)
{
	uint32_t len;

	if (builder->error == 0 && builder->depth != 1)
		fail(builder, -EINVAL);
	end(builder, true);
	if (builder->error)
		return builder->error;
	len = htonl((uint32_t)(builder->buffer.size - LENGTH_BYTES));
	memcpy(builder->buffer.data, &len, sizeof(len));
	*ret_bytes = (const uint8_t *)builder->buffer.data;
	*ret_len = builder->buffer.size;
	return 0;
}
