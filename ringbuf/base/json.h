/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one JSON writer: streams strict, compact JSON into a sink through a
 * small fixed buffer. Commas come by themselves, errors stick until the end.
 *
 * Every value takes its key first: a string inside objects, NULL in arrays and
 * at the top.
 *
 *	fgt_json_init(&json, sink);
 *	fgt_json_begin_object(&json, NULL);
 *	fgt_json_put_string(&json, "name", name);
 *	fgt_json_end_object(&json);
 *	return fgt_json_finish(&json);
 *
 * MT-Unsafe for one writer | AS-Unsafe
 */
#ifndef FGT_RINGBUF_BASE_JSON_H
#define FGT_RINGBUF_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/base/sink.h"

#define FGT_JSON_DEPTH_MAX 32

struct fgt_json {
	struct fgt_sink_buffer out;
	unsigned int depth;
	uint32_t has_members; /* a bit per depth: the next value needs a ',' */
	uint32_t is_object; /* a bit per depth: '}' closes it, not ']' */
	bool is_misused; /* wrong nesting, key missing or out of place */
	bool has_newline; /* one is due before what comes next */
};

void fgt_json_init(struct fgt_json *json, const struct fgt_sink *sink);

/*
 * Flushes. 0; the sink's first error; -EINVAL when brackets were left open or
 * keys were misplaced. One writer may write several top-level values, one
 * after another, and finish once.
 */
int fgt_json_finish(struct fgt_json *json);

void fgt_json_begin_object(struct fgt_json *json, const char *key);
void fgt_json_end_object(struct fgt_json *json);
void fgt_json_begin_array(struct fgt_json *json, const char *key);
void fgt_json_end_array(struct fgt_json *json);

/*
 * Text of any origin: what is not UTF-8 becomes U+FFFD, control characters
 * become \u00xx, '<' becomes \u003c (pages embed this output), the rest stays
 * raw. NULL is written as null.
 */
void fgt_json_put_string(struct fgt_json *json, const char *key,
			 const char *text);
void fgt_json_put_text(struct fgt_json *json, const char *key, const char *text,
		       size_t len);

void fgt_json_put_uint(struct fgt_json *json, const char *key, uint64_t value);
void fgt_json_put_int(struct fgt_json *json, const char *key, int64_t value);
void fgt_json_put_bool(struct fgt_json *json, const char *key, bool value);
/* The shortest digits that read back as value; null unless finite. */
void fgt_json_put_double(struct fgt_json *json, const char *key, double value);
/* value / 10^decimals without rounding, decimals ≤ 9: ns as µs is 3. */
void fgt_json_put_decimal(struct fgt_json *json, const char *key,
			  uint64_t value, unsigned int decimals);
/* A string of digits: for readers that lose integers above 2^53. */
void fgt_json_put_uint_string(struct fgt_json *json, const char *key,
			      uint64_t value);
/* "0x1f" */
void fgt_json_put_hex_string(struct fgt_json *json, const char *key,
			     uint64_t value);
/* "t-3": a handle of what one answer names in several places. */
void fgt_json_put_handle(struct fgt_json *json, const char *key, char kind,
			 uint32_t number);
/* A string of base64, RFC 4648 section 4. */
void fgt_json_put_base64(struct fgt_json *json, const char *key,
			 const uint8_t *bytes, size_t len);
/* "2026-01-01T00:00:00.000000000Z", from ns since the epoch. */
void fgt_json_put_time(struct fgt_json *json, const char *key,
		       uint64_t wall_ns);
/* A whole value that the caller made; must be JSON. */
void fgt_json_put_raw(struct fgt_json *json, const char *key, const char *bytes,
		      size_t len);

/*
 * A newline before what comes next: the next value (after its comma), a
 * closing bracket, or the end.
 */
void fgt_json_newline(struct fgt_json *json);

/* Digits of value, not NUL-terminated; at most 20. Returns how many. */
size_t fgt_json_format_uint(char *digits, uint64_t value);

#endif
