/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reading half of msgpack. Runs in any thread; must not allocate, recurse
 * or read past the end.
 */
#include "ringbuf/base/msgpack_cursor.h"

#include <errno.h>
#include <string.h>

/* Depth at which a check gives up; deeper than any form of this project. */
#define DEPTH_MAX 64

void fgt_msgpack_cursor_init(struct fgt_msgpack_cursor *cursor,
			     const uint8_t *bytes, size_t len)
{
	*cursor = (struct fgt_msgpack_cursor){ .bytes = bytes, .len = len };
}

size_t fgt_msgpack_cursor_left(const struct fgt_msgpack_cursor *cursor)
{
	return cursor->len - cursor->at;
}

/* Jumps to the end as well, so that nothing more can be read. */
void fgt_msgpack_refuse(struct fgt_msgpack_cursor *cursor)
{
	if (cursor->error)
		return;
	cursor->error = -EBADMSG;
	cursor->error_at = cursor->at;
	cursor->at = cursor->len;
}

static const uint8_t *take(struct fgt_msgpack_cursor *cursor, size_t len)
{
	const uint8_t *bytes = cursor->bytes + cursor->at;

	if (cursor->error || len > fgt_msgpack_cursor_left(cursor)) {
		fgt_msgpack_refuse(cursor);
		return NULL;
	}
	cursor->at += len;
	return bytes;
}

static uint64_t take_big_endian(struct fgt_msgpack_cursor *cursor, size_t width)
{
	const uint8_t *bytes = take(cursor, width);
	uint64_t value = 0;

	for (size_t i = 0; bytes && i < width; i++)
		value = value << 8 | bytes[i];
	return value;
}

/* 0xc1, the byte that is no object, when there is none left. */
static uint8_t take_type(struct fgt_msgpack_cursor *cursor)
{
	const uint8_t *byte = take(cursor, 1);

	return byte ? *byte : 0xc1;
}

static uint32_t checked_count(struct fgt_msgpack_cursor *cursor, uint64_t count)
{
	if (count > fgt_msgpack_cursor_left(cursor)) {
		fgt_msgpack_refuse(cursor);
		return 0;
	}
	return (uint32_t)count;
}

enum fgt_msgpack_type fgt_msgpack_peek(const struct fgt_msgpack_cursor *cursor)
{
	uint8_t type = fgt_msgpack_cursor_left(cursor)
			       ? cursor->bytes[cursor->at]
			       : 0xc1;

	if (type < 0x80 || type >= 0xe0 || (type >= 0xcc && type <= 0xd3))
		return FGT_MSGPACK_INTEGER;
	if (type < 0x90 || type == 0xde || type == 0xdf)
		return FGT_MSGPACK_MAP;
	if (type < 0xa0 || type == 0xdc || type == 0xdd)
		return FGT_MSGPACK_ARRAY;
	if (type < 0xc0 || (type >= 0xd9 && type <= 0xdb))
		return FGT_MSGPACK_STR;
	if (type >= 0xc4 && type <= 0xc6)
		return FGT_MSGPACK_BIN;
	if (type == 0xc2 || type == 0xc3)
		return FGT_MSGPACK_BOOL;
	if (type == 0xca || type == 0xcb)
		return FGT_MSGPACK_FLOAT;
	return type == 0xc0 ? FGT_MSGPACK_NIL : FGT_MSGPACK_OTHER;
}

uint32_t fgt_msgpack_read_array(struct fgt_msgpack_cursor *cursor)
{
	uint8_t type = take_type(cursor);

	if ((type & 0xf0) == 0x90)
		return checked_count(cursor, type & 0x0f);
	if (type == 0xdc || type == 0xdd)
		return checked_count(
			cursor, take_big_endian(cursor, type == 0xdc ? 2 : 4));
	fgt_msgpack_refuse(cursor);
	return 0;
}

uint32_t fgt_msgpack_read_map(struct fgt_msgpack_cursor *cursor)
{
	uint8_t type = take_type(cursor);
	uint64_t count;

	if ((type & 0xf0) == 0x80) {
		count = type & 0x0f;
	} else if (type == 0xde || type == 0xdf) {
		count = take_big_endian(cursor, type == 0xde ? 2 : 4);
	} else {
		fgt_msgpack_refuse(cursor);
		return 0;
	}
	return checked_count(cursor, count * 2) / 2;
}

/* Either sign: value holds the two's complement. False: not an integer. */
static bool read_integer(struct fgt_msgpack_cursor *cursor, uint64_t *ret_value,
			 bool *ret_is_negative)
{
	uint8_t type = take_type(cursor);
	uint64_t value = type;

	*ret_is_negative = false;
	if (type >= 0xcc && type <= 0xcf) {
		value = take_big_endian(cursor, (size_t)1 << (type - 0xcc));
	} else if (type >= 0xd0 && type <= 0xd3) {
		unsigned int width = 1u << (type - 0xd0);
		uint64_t sign = (uint64_t)1 << (width * 8 - 1);

		value = take_big_endian(cursor, width);
		value = (value ^ sign) - sign;
		*ret_is_negative = (int64_t)value < 0;
	} else if (type >= 0xe0) {
		value = (uint64_t)(int64_t)(int8_t)type;
		*ret_is_negative = true;
	} else if (type >= 0x80) {
		return false;
	}
	*ret_value = value;
	return !cursor->error;
}

uint64_t fgt_msgpack_read_uint(struct fgt_msgpack_cursor *cursor, uint64_t max)
{
	uint64_t value = 0;
	bool is_negative;

	if (read_integer(cursor, &value, &is_negative) && !is_negative &&
	    value <= max)
		return value;
	fgt_msgpack_refuse(cursor);
	return 0;
}

int64_t fgt_msgpack_read_int(struct fgt_msgpack_cursor *cursor, int64_t min,
			     int64_t max)
{
	uint64_t value = 0;
	bool is_negative;

	if (read_integer(cursor, &value, &is_negative) &&
	    (is_negative || value <= INT64_MAX) && (int64_t)value >= min &&
	    (int64_t)value <= max)
		return (int64_t)value;
	fgt_msgpack_refuse(cursor);
	return 0;
}

double fgt_msgpack_read_double(struct fgt_msgpack_cursor *cursor)
{
	uint8_t type = take_type(cursor);
	double wide;
	float narrow;

	if (type == 0xcb) {
		uint64_t bits = take_big_endian(cursor, sizeof(bits));

		memcpy(&wide, &bits, sizeof(wide));
		return wide;
	}
	if (type == 0xca) {
		uint32_t bits = (uint32_t)take_big_endian(cursor, sizeof(bits));

		memcpy(&narrow, &bits, sizeof(narrow));
		return narrow;
	}
	fgt_msgpack_refuse(cursor);
	return 0;
}

bool fgt_msgpack_read_bool(struct fgt_msgpack_cursor *cursor)
{
	uint8_t type = take_type(cursor);

	if (type != 0xc2 && type != 0xc3)
		fgt_msgpack_refuse(cursor);
	return type == 0xc3;
}

static struct fgt_msgpack_text take_text(struct fgt_msgpack_cursor *cursor,
					 size_t len)
{
	const char *bytes = (const char *)take(cursor, len);

	if (!bytes)
		return (struct fgt_msgpack_text){ "", 0 };
	return (struct fgt_msgpack_text){ bytes, len };
}

struct fgt_msgpack_text fgt_msgpack_read_str(struct fgt_msgpack_cursor *cursor)
{
	uint8_t type = take_type(cursor);

	if ((type & 0xe0) == 0xa0)
		return take_text(cursor, type & 0x1f);
	if (type >= 0xd9 && type <= 0xdb)
		return take_text(
			cursor,
			take_big_endian(cursor, (size_t)1 << (type - 0xd9)));
	fgt_msgpack_refuse(cursor);
	return (struct fgt_msgpack_text){ "", 0 };
}

struct fgt_msgpack_text fgt_msgpack_read_bin(struct fgt_msgpack_cursor *cursor)
{
	uint8_t type = take_type(cursor);

	if (type >= 0xc4 && type <= 0xc6)
		return take_text(
			cursor,
			take_big_endian(cursor, (size_t)1 << (type - 0xc4)));
	fgt_msgpack_refuse(cursor);
	return (struct fgt_msgpack_text){ "", 0 };
}

bool fgt_msgpack_text_is(struct fgt_msgpack_text text, const char *expected)
{
	return text.len == strlen(expected) &&
	       !memcmp(text.bytes, expected, text.len);
}

/* Reads the type byte and a length field; returns the bytes of the payload. */
static uint64_t scalar_len(struct fgt_msgpack_cursor *cursor)
{
	uint8_t type = take_type(cursor);

	if (type < 0x80 || type >= 0xe0 || type == 0xc0 || type == 0xc2 ||
	    type == 0xc3)
		return 0;
	if ((type & 0xe0) == 0xa0)
		return type & 0x1f;
	if (type >= 0xc4 && type <= 0xc6)
		return take_big_endian(cursor, (size_t)1 << (type - 0xc4));
	if (type >= 0xc7 && type <= 0xc9)
		return take_big_endian(cursor, (size_t)1 << (type - 0xc7)) + 1;
	if (type == 0xca || type == 0xcb)
		return (uint64_t)4 << (type - 0xca);
	if (type >= 0xcc && type <= 0xcf)
		return (uint64_t)1 << (type - 0xcc);
	if (type >= 0xd0 && type <= 0xd3)
		return (uint64_t)1 << (type - 0xd0);
	if (type >= 0xd4 && type <= 0xd8)
		return ((uint64_t)1 << (type - 0xd4)) + 1;
	if (type >= 0xd9 && type <= 0xdb)
		return take_big_endian(cursor, (size_t)1 << (type - 0xd9));
	fgt_msgpack_refuse(cursor);
	return 0;
}

/* Steps over the head of an object, and over its payload unless that is of
 * objects: returns how many there are. */
static uint64_t step(struct fgt_msgpack_cursor *cursor, bool *ret_is_container)
{
	enum fgt_msgpack_type type;

	*ret_is_container = false;
	/* Most objects of a slice are numbers of one byte. */
	if (cursor->at < cursor->len && cursor->bytes[cursor->at] < 0x80) {
		cursor->at++;
		return 0;
	}
	type = fgt_msgpack_peek(cursor);
	*ret_is_container = true;
	if (type == FGT_MSGPACK_ARRAY)
		return fgt_msgpack_read_array(cursor);
	if (type == FGT_MSGPACK_MAP)
		return (uint64_t)fgt_msgpack_read_map(cursor) * 2;
	*ret_is_container = false;
	take(cursor, scalar_len(cursor));
	return 0;
}

void fgt_msgpack_skip(struct fgt_msgpack_cursor *cursor)
{
	bool is_container;
	uint64_t owed = 1;

	while (owed && !cursor->error)
		owed += step(cursor, &is_container) - 1;
}

int fgt_msgpack_check(const uint8_t *bytes, size_t len, unsigned int max_depth)
{
	/* Objects that are left, in each open container and in all. */
	uint64_t open[DEPTH_MAX], owed = 1;
	struct fgt_msgpack_cursor cursor;
	unsigned int depth = 0;

	if (max_depth > DEPTH_MAX)
		max_depth = DEPTH_MAX;
	fgt_msgpack_cursor_init(&cursor, bytes, len);
	while (owed) {
		bool is_container;
		uint64_t children = step(&cursor, &is_container);

		owed += children - 1;
		/* Each takes a byte at least. */
		if (cursor.error || owed > fgt_msgpack_cursor_left(&cursor) ||
		    (is_container && depth == max_depth))
			return -EBADMSG;
		if (depth)
			open[depth - 1]--;
		if (is_container)
			open[depth++] = children;
		while (depth && !open[depth - 1])
			depth--;
	}
	return fgt_msgpack_cursor_left(&cursor) ? -EBADMSG : 0;
}
