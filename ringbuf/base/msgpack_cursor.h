/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads msgpack in place, object by object, without allocating. Meant for
 * bytes that fgt_msgpack_check() has passed; stays in bounds on any bytes.
 *
 * The first error sticks in cursor->error and every later read yields zero, so
 * a decoder may read a whole record and check once.
 *
 * MT-Unsafe for one cursor | AS-Safe
 */
#ifndef FGT_RINGBUF_BASE_MSGPACK_CURSOR_H
#define FGT_RINGBUF_BASE_MSGPACK_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fgt_msgpack_cursor {
	const uint8_t *bytes;
	size_t len, at;
	int error; /* 0, or -EBADMSG since a read that did not fit */
	size_t error_at; /* about where */
};

/* A str or bin, in place; not NUL-terminated. */
struct fgt_msgpack_text {
	const char *bytes;
	size_t len;
};

enum fgt_msgpack_type {
	FGT_MSGPACK_NIL,
	FGT_MSGPACK_BOOL,
	FGT_MSGPACK_INTEGER,
	FGT_MSGPACK_FLOAT,
	FGT_MSGPACK_STR,
	FGT_MSGPACK_BIN,
	FGT_MSGPACK_ARRAY,
	FGT_MSGPACK_MAP,
	FGT_MSGPACK_OTHER, /* an ext type, the byte 0xc1, nothing left */
};

void fgt_msgpack_cursor_init(struct fgt_msgpack_cursor *cursor,
			     const uint8_t *bytes, size_t len);
size_t fgt_msgpack_cursor_left(const struct fgt_msgpack_cursor *cursor);

/* The type of the next object, which stays unread. */
enum fgt_msgpack_type fgt_msgpack_peek(const struct fgt_msgpack_cursor *cursor);

/* Element (array) or pair (map) count, at most the bytes that are left. */
uint32_t fgt_msgpack_read_array(struct fgt_msgpack_cursor *cursor);
uint32_t fgt_msgpack_read_map(struct fgt_msgpack_cursor *cursor);

/* An integer in [0, max], in [min, max]; a float for _double only. */
uint64_t fgt_msgpack_read_uint(struct fgt_msgpack_cursor *cursor, uint64_t max);
int64_t fgt_msgpack_read_int(struct fgt_msgpack_cursor *cursor, int64_t min,
			     int64_t max);
double fgt_msgpack_read_double(struct fgt_msgpack_cursor *cursor);
bool fgt_msgpack_read_bool(struct fgt_msgpack_cursor *cursor);

static inline uint32_t fgt_msgpack_read_u32(struct fgt_msgpack_cursor *cursor)
{
	return (uint32_t)fgt_msgpack_read_uint(cursor, UINT32_MAX);
}

static inline uint64_t fgt_msgpack_read_u64(struct fgt_msgpack_cursor *cursor)
{
	return fgt_msgpack_read_uint(cursor, UINT64_MAX);
}

static inline int32_t fgt_msgpack_read_i32(struct fgt_msgpack_cursor *cursor)
{
	return (int32_t)fgt_msgpack_read_int(cursor, INT32_MIN, INT32_MAX);
}

struct fgt_msgpack_text fgt_msgpack_read_str(struct fgt_msgpack_cursor *cursor);
struct fgt_msgpack_text fgt_msgpack_read_bin(struct fgt_msgpack_cursor *cursor);
bool fgt_msgpack_text_is(struct fgt_msgpack_text text, const char *expected);

/* For errors that a decoder finds: sticks like the errors of a read. */
void fgt_msgpack_refuse(struct fgt_msgpack_cursor *cursor);

/* Steps over one whole object of any kind. */
void fgt_msgpack_skip(struct fgt_msgpack_cursor *cursor);

/*
 * One object that fills bytes[len] exactly, nested at most max_depth (at most
 * 64) deep; every count and length covered by bytes that are really there, no
 * 0xc1. 0, or -EBADMSG.
 *
 * MT-Safe | AS-Safe
 */
int fgt_msgpack_check(const uint8_t *bytes, size_t len, unsigned int max_depth);

#endif
