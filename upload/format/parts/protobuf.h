/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one protobuf writer: streams messages into a sink. A field of the
 * outermost message is kept until its length is known, so memory is that of the
 * largest such field. Errors stick until the end.
 *
 *	fgt_protobuf_init(&protobuf, sink);
 *	fgt_protobuf_begin(&protobuf, 2);
 *	fgt_protobuf_put_uint(&protobuf, 1, 150);
 *	fgt_protobuf_end(&protobuf);
 *	r = fgt_protobuf_finish(&protobuf);
 *	fgt_protobuf_done(&protobuf);
 *
 * MT-Unsafe for one writer | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_PROTOBUF_H
#define FGT_UPLOAD_FORMAT_PARTS_PROTOBUF_H

#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/base/sink.h"

#define FGT_PROTOBUF_DEPTH_MAX 8

/* A field that has begun. */
struct fgt_protobuf_field {
	uint32_t number;
	uint8_t *bytes;
	size_t len, capacity;
};

struct fgt_protobuf {
	struct fgt_sink_buffer out;
	struct fgt_protobuf_field open[FGT_PROTOBUF_DEPTH_MAX];
	unsigned int depth;
	int error; /* the first one: -ENOMEM, -EINVAL wrong nesting */
};

void fgt_protobuf_init(struct fgt_protobuf *protobuf,
		       const struct fgt_sink *sink);
/* Flushes. 0, or the first error, also of the sink. */
int fgt_protobuf_finish(struct fgt_protobuf *protobuf);
void fgt_protobuf_done(struct fgt_protobuf *protobuf);

/* A field that is a message, or packed numbers. */
void fgt_protobuf_begin(struct fgt_protobuf *protobuf, uint32_t field);
void fgt_protobuf_end(struct fgt_protobuf *protobuf);

/* Left out if it is 0, the default. */
void fgt_protobuf_put_uint(struct fgt_protobuf *protobuf, uint32_t field,
			   uint64_t value);
/* One of packed numbers: a varint, or eight bytes. */
void fgt_protobuf_put_packed(struct fgt_protobuf *protobuf, uint64_t value);
void fgt_protobuf_put_packed64(struct fgt_protobuf *protobuf, uint64_t value);
/* The beginning of a field of len bytes, which the next fields are: nothing of
 * it is kept. */
void fgt_protobuf_put_head(struct fgt_protobuf *protobuf, uint32_t field,
			   uint64_t len);
/* These are written even if they are 0 or empty. */
void fgt_protobuf_put_fixed64(struct fgt_protobuf *protobuf, uint32_t field,
			      uint64_t value);
void fgt_protobuf_put_double(struct fgt_protobuf *protobuf, uint32_t field,
			     double value);
void fgt_protobuf_put_bytes(struct fgt_protobuf *protobuf, uint32_t field,
			    const void *bytes, size_t len);
/* Text of any origin: what is not UTF-8 becomes U+FFFD. Written even if empty.
 */
void fgt_protobuf_put_string(struct fgt_protobuf *protobuf, uint32_t field,
			     const char *text);

#endif
