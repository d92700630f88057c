/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes over the control socket: frames of [u32 big-endian length][one
 * msgpack map]. One request per connection, then one or more reply frames.
 *
 * Request:  {"v":1, "verb":"slice", …arguments}
 * Reply:    {"v":1, "ok":true, …results} or
 *           {"v":1, "ok":false, "error":-errno, "why":"one line"}
 * A slice reply is followed by frames {"data":bin} and ended by
 * {"end":true, "len":total}; the concatenated data is a .fgt file.
 *
 * verb      arguments                                   results
 * attach    pid | name, children                        targets: [{pid,name}]
 * detach    pid | name                                  targets: [{pid,name}]
 * slice     pid | name | nothing (the only target),     pid, name, from_ns,
 *           from_ns, to_ns (monotonic; to may lie in     to_ns
 *           the future: the daemon waits), tid
 * status                                                see fgt_daemon status
 * targets                                               targets: [status map]
 */
#ifndef FGT_AGENT_DAEMON_PROTOCOL_H
#define FGT_AGENT_DAEMON_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/owner.h"
#include "ringbuf/sink.h"
#include "ringbuf/why.h"

#define FGT_PROTOCOL_VERSION	 1
#define FGT_PROTOCOL_REQUEST_MAX (1024 * 1024)
#define FGT_PROTOCOL_DATA_MAX	 (256 * 1024)
#define FGT_PROTOCOL_DEPTH_MAX	 16

/*
 * A decoded map: typed getters that never trust the sender. Checked with
 * fgt_msgpack_check() before a byte is unpacked; duplicate keys, strings with
 * a NUL and non-string keys are refused.
 */
struct fgt_message;

/* -EBADMSG. */
int fgt_message_decode(const uint8_t *bytes, size_t len,
		       struct fgt_message **ret_message);
void fgt_message_free(struct fgt_message *message);
FGT_DEFINE_AUTO(struct fgt_message *, fgt_message_free);

/* -ENOENT: no such key; -EINVAL: another type. */
int fgt_message_get_int(const struct fgt_message *message, const char *key,
			int64_t *ret_value);
int fgt_message_get_uint(const struct fgt_message *message, const char *key,
			 uint64_t *ret_value);
int fgt_message_get_double(const struct fgt_message *message, const char *key,
			   double *ret_value);
int fgt_message_get_bool(const struct fgt_message *message, const char *key,
			 bool *ret_value);
/* The string lives as long as the message. */
int fgt_message_get_string(const struct fgt_message *message, const char *key,
			   const char **ret_value);
int fgt_message_get_bin(const struct fgt_message *message, const char *key,
			const uint8_t **ret_bytes, size_t *ret_len);
/* Arrays of maps; the element is owned by the message. */
int fgt_message_get_array(const struct fgt_message *message, const char *key,
			  size_t *ret_count);
int fgt_message_get_array_map(const struct fgt_message *message,
			      const char *key, size_t index,
			      const struct fgt_message **ret_element);
/* The whole message as JSON, for --json. */
int fgt_message_to_json(const struct fgt_message *message,
			const struct fgt_sink *sink);

/*
 * Builds one frame: open, put keys in any order, close. Errors stick and come
 * back from fgt_builder_finish().
 */
struct fgt_builder;
int fgt_builder_new(struct fgt_builder **ret_builder);
void fgt_builder_free(struct fgt_builder *builder);
FGT_DEFINE_AUTO(struct fgt_builder *, fgt_builder_free);
void fgt_builder_int(struct fgt_builder *builder, const char *key,
		     int64_t value);
void fgt_builder_uint(struct fgt_builder *builder, const char *key,
		      uint64_t value);
void fgt_builder_double(struct fgt_builder *builder, const char *key,
			double value);
void fgt_builder_bool(struct fgt_builder *builder, const char *key, bool value);
void fgt_builder_string(struct fgt_builder *builder, const char *key,
			const char *value);
void fgt_builder_bin(struct fgt_builder *builder, const char *key,
		     const void *bytes, size_t len);
/* Between begin and end of an array: one map per element. Maps nest: a key
 * put between map_begin and map_end belongs to that map. */
void fgt_builder_array_begin(struct fgt_builder *builder, const char *key);
void fgt_builder_array_end(struct fgt_builder *builder);
void fgt_builder_map_begin(struct fgt_builder *builder, const char *key);
void fgt_builder_map_end(struct fgt_builder *builder);
/* key is NULL inside an array. */

/* The frame with its length in front; valid until the builder is freed. */
int fgt_builder_finish(struct fgt_builder *builder, const uint8_t **ret_bytes,
		       size_t *ret_len);

#endif
