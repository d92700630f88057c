/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streaming protobuf: varints, eight bytes, and length-delimited fields.
 * Runs in any thread; must not keep bytes that the sink has.
 */
#include "upload/format/parts/protobuf.h"

#include <errno.h>
#include <stdlib.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/utf8.h"

#define WIRE_VARINT  0
#define WIRE_FIXED64 1
#define WIRE_LEN     2
#define VARINT_MAX   10 /* bytes */

void fgt_protobuf_init(struct fgt_protobuf *protobuf,
		       const struct fgt_sink *sink)
{
	fgt_sink_buffer_init(&protobuf->out, sink);
	memset(protobuf->open, 0, sizeof(protobuf->open));
	protobuf->depth = 0;
	protobuf->error = 0;
}

int fgt_protobuf_finish(struct fgt_protobuf *protobuf)
{
	if (!protobuf->error && protobuf->depth)
		protobuf->error = -EINVAL;
	if (!protobuf->error)
		protobuf->error = fgt_sink_buffer_flush(&protobuf->out);
	return protobuf->error;
}

void fgt_protobuf_done(struct fgt_protobuf *protobuf)
{
	for (unsigned int i = 0; i < FGT_PROTOBUF_DEPTH_MAX; i++)
		free(protobuf->open[i].bytes);
	memset(protobuf->open, 0, sizeof(protobuf->open));
}

/* Into the innermost field that is open, else out. */
static void put(struct fgt_protobuf *protobuf, const void *bytes, size_t len)
{
	struct fgt_protobuf_field *field;

	if (protobuf->error || !len)
		return;
	if (!protobuf->depth) {
		fgt_sink_buffer_put(&protobuf->out, bytes, len);
		return;
	}
	field = &protobuf->open[protobuf->depth - 1];
	protobuf->error = FGT_ARRAY_RESERVE(field->bytes, field->len + len,
					    field->capacity);
	if (protobuf->error)
		return;
	memcpy(field->bytes + field->len, bytes, len);
	field->len += len;
}

void fgt_protobuf_put_packed(struct fgt_protobuf *protobuf, uint64_t value)
{
	uint8_t bytes[VARINT_MAX];
	size_t len = 0;

	for (; value >= 0x80; value >>= 7)
		bytes[len++] = (uint8_t)(value | 0x80);
	bytes[len++] = (uint8_t)value;
	put(protobuf, bytes, len);
}

static void put_tag(struct fgt_protobuf *protobuf, uint32_t field,
		    unsigned int wire)
{
	fgt_protobuf_put_packed(protobuf, (uint64_t)field << 3 | wire);
}

void fgt_protobuf_begin(struct fgt_protobuf *protobuf, uint32_t field)
{
	if (protobuf->depth == FGT_PROTOBUF_DEPTH_MAX)
		protobuf->error = -EINVAL;
	if (protobuf->error)
		return;
	protobuf->open[protobuf->depth].number = field;
	protobuf->open[protobuf->depth].len = 0;
	protobuf->depth++;
}

void fgt_protobuf_end(struct fgt_protobuf *protobuf)
{
	const struct fgt_protobuf_field *field;

	if (!protobuf->error && !protobuf->depth)
		protobuf->error = -EINVAL;
	if (protobuf->error)
		return;
	field = &protobuf->open[--protobuf->depth];
	fgt_protobuf_put_bytes(protobuf, field->number, field->bytes,
			       field->len);
}

void fgt_protobuf_put_uint(struct fgt_protobuf *protobuf, uint32_t field,
			   uint64_t value)
{
	if (!value)
		return;
	put_tag(protobuf, field, WIRE_VARINT);
	fgt_protobuf_put_packed(protobuf, value);
}

void fgt_protobuf_put_packed64(struct fgt_protobuf *protobuf, uint64_t value)
{
	uint8_t bytes[sizeof(value)];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(value >> (8 * i));
	put(protobuf, bytes, sizeof(bytes));
}

void fgt_protobuf_put_fixed64(struct fgt_protobuf *protobuf, uint32_t field,
			      uint64_t value)
{
	put_tag(protobuf, field, WIRE_FIXED64);
	fgt_protobuf_put_packed64(protobuf, value);
}

void fgt_protobuf_put_double(struct fgt_protobuf *protobuf, uint32_t field,
			     double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	fgt_protobuf_put_fixed64(protobuf, field, bits);
}

void fgt_protobuf_put_head(struct fgt_protobuf *protobuf, uint32_t field,
			   uint64_t len)
{
	put_tag(protobuf, field, WIRE_LEN);
	fgt_protobuf_put_packed(protobuf, len);
}

void fgt_protobuf_put_bytes(struct fgt_protobuf *protobuf, uint32_t field,
			    const void *bytes, size_t len)
{
	fgt_protobuf_put_head(protobuf, field, len);
	put(protobuf, bytes, len);
}

void fgt_protobuf_put_string(struct fgt_protobuf *protobuf, uint32_t field,
			     const char *text)
{
	size_t len = strlen(text), at = 0;

	fgt_protobuf_begin(protobuf, field);
	while (at < len) {
		size_t wide = fgt_utf8_len(text + at, len - at);

		if (wide)
			put(protobuf, text + at, wide);
		else
			put(protobuf, FGT_UTF8_REPLACEMENT, 3);
		at += wide ? wide : 1;
	}
	fgt_protobuf_end(protobuf);
}
