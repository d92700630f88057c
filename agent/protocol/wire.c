/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writing half of msgpack, as far as requests need it. Runs in any thread.
 */
#include "agent/protocol/wire.h"

#include <errno.h>
#include <string.h>

#define LENGTH_BYTES 4
#define MAP_AT	     LENGTH_BYTES /* 0xdf and its u32 */
#define HEAD_BYTES   (LENGTH_BYTES + 5)
#define FIRST_BYTES  512
#define FRAME_MAX    ((size_t)16 << 20)

static uint8_t *make_room(struct fgt_wire *wire, size_t len)
{
	size_t capacity = wire->capacity ? wire->capacity : FIRST_BYTES;
	uint8_t *bytes;

	if (wire->error)
		return NULL;
	if (len > FRAME_MAX || wire->len + len > FRAME_MAX + LENGTH_BYTES) {
		wire->error = -EMSGSIZE;
		return NULL;
	}
	while (capacity < wire->len + len)
		capacity *= 2;
	if (capacity > wire->capacity) {
		bytes = realloc(wire->bytes, capacity);
		if (!bytes) {
			wire->error = -ENOMEM;
			return NULL;
		}
		wire->bytes = bytes;
		wire->capacity = capacity;
	}
	bytes = wire->bytes + wire->len;
	wire->len += len;
	return bytes;
}

static void write_big_endian(uint8_t *to, uint64_t value, size_t width)
{
	for (size_t i = width; i-- > 0; value >>= 8)
		to[i] = (uint8_t)value;
}

/* A type byte and a number of width bytes behind it. */
static void put_head(struct fgt_wire *wire, uint8_t type, uint64_t value,
		     size_t width)
{
	uint8_t *to = make_room(wire, 1 + width);

	if (!to)
		return;
	to[0] = type;
	write_big_endian(to + 1, value, width);
}

static void put_bytes(struct fgt_wire *wire, uint8_t type, const void *bytes,
		      size_t len)
{
	uint8_t *to;

	if (len > FRAME_MAX) {
		if (!wire->error)
			wire->error = -EMSGSIZE;
		return;
	}
	put_head(wire, type, len, 4);
	to = make_room(wire, len);
	if (to && len > 0)
		memcpy(to, bytes, len);
}

static void put_text(struct fgt_wire *wire, const char *text)
{
	size_t len = strlen(text);
	uint8_t *to;

	if (len >= 32) {
		put_bytes(wire, 0xdb, text, len);
		return;
	}
	to = make_room(wire, 1 + len);
	if (!to)
		return;
	to[0] = (uint8_t)(0xa0 | len);
	memcpy(to + 1, text, len);
}

/* Every pair begins here: it is counted. */
static void put_key(struct fgt_wire *wire, const char *key)
{
	if (wire->inner > 0)
		wire->inner--;
	else
		wire->pairs++;
	put_text(wire, key);
}

void fgt_wire_init(struct fgt_wire *wire, const char *verb)
{
	*wire = (struct fgt_wire){ 0 };
	(void)make_room(wire, HEAD_BYTES);
	fgt_wire_uint(wire, "v", 1);
	fgt_wire_text(wire, "verb", verb);
}

void fgt_wire_done(struct fgt_wire *wire)
{
	free(wire->bytes);
	*wire = (struct fgt_wire){ 0 };
}

void fgt_wire_text(struct fgt_wire *wire, const char *key, const char *text)
{
	if (!text)
		return;
	put_key(wire, key);
	put_text(wire, text);
}

void fgt_wire_uint(struct fgt_wire *wire, const char *key, uint64_t value)
{
	put_key(wire, key);
	if (value < 128)
		put_head(wire, (uint8_t)value, 0, 0);
	else
		put_head(wire, 0xcf, value, 8);
}

void fgt_wire_int(struct fgt_wire *wire, const char *key, int64_t value)
{
	if (value >= 0) {
		fgt_wire_uint(wire, key, (uint64_t)value);
		return;
	}
	put_key(wire, key);
	put_head(wire, 0xd3, (uint64_t)value, 8);
}

void fgt_wire_bool(struct fgt_wire *wire, const char *key, bool value)
{
	put_key(wire, key);
	put_head(wire, value ? 0xc3 : 0xc2, 0, 0);
}

void fgt_wire_bin(struct fgt_wire *wire, const char *key, const void *bytes,
		  size_t len)
{
	put_key(wire, key);
	put_bytes(wire, 0xc6, bytes, len);
}

void fgt_wire_array(struct fgt_wire *wire, const char *key, uint32_t count)
{
	put_key(wire, key);
	put_head(wire, 0xdd, count, 4);
}

void fgt_wire_map(struct fgt_wire *wire, uint32_t pairs)
{
	put_head(wire, 0xdf, pairs, 4);
	wire->inner = pairs;
}

int fgt_wire_finish(struct fgt_wire *wire, const uint8_t **ret_bytes,
		    size_t *ret_len)
{
	if (wire->error)
		return wire->error;
	write_big_endian(wire->bytes, wire->len - LENGTH_BYTES, LENGTH_BYTES);
	wire->bytes[MAP_AT] = 0xdf;
	write_big_endian(wire->bytes + MAP_AT + 1, wire->pairs, 4);
	*ret_bytes = wire->bytes;
	*ret_len = wire->len;
	return 0;
}
