/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one frame: open, put keys in any order, finish. Errors stick and are
 * returned by fgt_builder_finish().
 *
 * MT-Unsafe for one builder | AS-Unsafe
 */
#ifndef FGT_AGENT_PROTOCOL_BUILDER_H
#define FGT_AGENT_PROTOCOL_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/owner.h"

struct fgt_builder;

/* -ENOMEM. */
int fgt_builder_new(struct fgt_builder **ret_builder);
/* A request: holds "v" and "verb". -ENOMEM. */
int fgt_builder_new_request(const char *verb, struct fgt_builder **ret_builder);
/* A reply: holds "v" and "ok": true. -ENOMEM. */
int fgt_builder_new_reply(struct fgt_builder **ret_builder);
/* A whole error reply; keys may be added. -ENOMEM. */
int fgt_builder_new_error(int error, const char *why,
			  struct fgt_builder **ret_builder);
/* A whole frame, the error -ENOMEM, for those who have no memory to build one.
 *
 * MT-Safe | AS-Safe
 */
const uint8_t *fgt_builder_no_memory(size_t *ret_len);
void fgt_builder_free(struct fgt_builder *builder);
FGT_DEFINE_AUTO(struct fgt_builder *, fgt_builder_free);

/* In a map the key is a string; in an array it is NULL. */
void fgt_builder_int(struct fgt_builder *builder, const char *key,
		     int64_t value);
void fgt_builder_uint(struct fgt_builder *builder, const char *key,
		      uint64_t value);
void fgt_builder_double(struct fgt_builder *builder, const char *key,
			double value);
void fgt_builder_bool(struct fgt_builder *builder, const char *key, bool value);
/* A value of NULL is left out, with its key. */
void fgt_builder_string(struct fgt_builder *builder, const char *key,
			const char *value);
void fgt_builder_bin(struct fgt_builder *builder, const char *key,
		     const void *bytes, size_t len);
/* What is put between begin and end belongs to that array or map. */
void fgt_builder_array_begin(struct fgt_builder *builder, const char *key);
void fgt_builder_array_end(struct fgt_builder *builder);
void fgt_builder_map_begin(struct fgt_builder *builder, const char *key);
void fgt_builder_map_end(struct fgt_builder *builder);

/*
 * The frame with its length in front, until the builder changes or is freed.
 * -ENOMEM; -EMSGSIZE: a body above FGT_PROTOCOL_REPLY_MAX; -EINVAL: begin and
 * end do not match, a key is missing or out of place, too deep, too many keys.
 */
int fgt_builder_finish(struct fgt_builder *builder, const uint8_t **ret_bytes,
		       size_t *ret_len);

#endif
