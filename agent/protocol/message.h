/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the map of a received frame: typed getters that never trust the
 * sender.
 *
 * MT-Safe for messages that are only read | AS-Unsafe unless a function has
 * another note
 */
#ifndef FGT_AGENT_PROTOCOL_MESSAGE_H
#define FGT_AGENT_PROTOCOL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/msgpack_cursor.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/base/why.h"

/*
 * A checked map, as msgpack whose strings end with a NUL that is part of them.
 * Filled in by fgt_message_decode(), fgt_message_get_map() and
 * fgt_message_next() only.
 */
struct fgt_message {
	const uint8_t *bytes;
	size_t len;
};

/*
 * bytes: a frame without its length. -ENOMEM; -EBADMSG: not one msgpack map,
 * deeper or wider than the limits in protocol.h, a key that is empty, no
 * string or there twice, a NUL in a string, an ext type.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_message_decode(const uint8_t *bytes, size_t len,
		       struct fgt_message **ret_message);
void fgt_message_free(struct fgt_message *message);
FGT_DEFINE_AUTO(struct fgt_message *, fgt_message_free);

/*
 * -ENOENT: no such key; -EINVAL: another type, or a number out of range.
 * What is returned by pointer lives as long as the decoded message.
 *
 * MT-Safe | AS-Safe
 */
int fgt_message_get_int(const struct fgt_message *message, const char *key,
			int64_t *ret_value);
int fgt_message_get_uint(const struct fgt_message *message, const char *key,
			 uint64_t *ret_value);
/* A float of either size, or an integer. */
int fgt_message_get_double(const struct fgt_message *message, const char *key,
			   double *ret_value);
int fgt_message_get_bool(const struct fgt_message *message, const char *key,
			 bool *ret_value);
int fgt_message_get_string(const struct fgt_message *message, const char *key,
			   const char **ret_value);
int fgt_message_get_bin(const struct fgt_message *message, const char *key,
			const uint8_t **ret_bytes, size_t *ret_len);
/* A map within it. */
int fgt_message_get_map(const struct fgt_message *message, const char *key,
			struct fgt_message *ret_map);

/* An array of maps, read from front to back. */
struct fgt_message_array {
	size_t count; /* elements left */
	struct fgt_msgpack_cursor cursor;
};
int fgt_message_get_array(const struct fgt_message *message, const char *key,
			  struct fgt_message_array *ret_array);
/* -ENOENT: no more; -EINVAL: the element is no map, the next may be one. */
int fgt_message_next(struct fgt_message_array *array,
		     struct fgt_message *ret_element);

/* 0, or an error with the older of the two and the remedy in why:
 * -EPROTONOSUPPORT, another version; -EBADMSG, no version. */
int fgt_message_check_request(const struct fgt_message *request,
			      struct fgt_why *why);

/*
 * What a reply means: 0; the negative errno and the reason of an agent that
 * refuses; -EPROTONOSUPPORT for another version; -EBADMSG: no reply. Any error
 * sets why.
 */
int fgt_message_check_reply(const struct fgt_message *reply,
			    struct fgt_why *why);

/* Writes JSON for --json: the whole map in one line; bin becomes base64. Errors
 * of the sink. */
int fgt_message_to_json(const struct fgt_message *message,
			const struct fgt_sink *sink);

#endif
