/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes the maps of the control socket and returns their values. Runs in any
 * thread, also in those of programs with the library: uses at most 12 KiB of
 * stack. Must not read a byte that fgt_msgpack_check() has not passed.
 */
#include "agent/protocol/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/protocol/protocol.h"
#include "ringbuf/base/msgpack_cursor.h"

#define FIXSTR_LEN 32
#define ERRNO_MAX  4095

/* ---- Decoding ---------------------------------------------------------- */

/* A copy in which strings end with a NUL, made object by object. */
struct message_copy {
	struct fgt_msgpack_cursor from;
	uint8_t *bytes;
	size_t len;
};

static bool copy_object(struct message_copy *copy);

/* The bytes of the source from offset at to where it has been read. */
static void copy_bytes(struct message_copy *copy, size_t at)
{
	size_t len = copy->from.at - at;

	memcpy(copy->bytes + copy->len, copy->from.bytes + at, len);
	copy->len += len;
}

static bool copy_scalar(struct message_copy *copy)
{
	size_t at = copy->from.at;

	fgt_msgpack_skip(&copy->from);
	copy_bytes(copy, at);
	return true;
}

static void put_string_head(struct message_copy *copy, size_t len)
{
	uint8_t *to = copy->bytes + copy->len;

	if (len < FIXSTR_LEN) {
		to[0] = (uint8_t)(0xa0 | len);
		copy->len++;
		return;
	}
	to[0] = 0xdb;
	for (int i = 4; i > 0; i--, len >>= 8)
		to[i] = (uint8_t)len;
	copy->len += 5;
}

static bool copy_string(struct message_copy *copy)
{
	struct fgt_msgpack_text text = fgt_msgpack_read_str(&copy->from);

	if (memchr(text.bytes, 0, text.len))
		return false;
	put_string_head(copy, text.len + 1);
	memcpy(copy->bytes + copy->len, text.bytes, text.len);
	copy->len += text.len;
	copy->bytes[copy->len++] = 0;
	return true;
}

static bool copy_array(struct message_copy *copy)
{
	size_t at = copy->from.at;
	uint32_t count = fgt_msgpack_read_array(&copy->from);

	copy_bytes(copy, at);
	for (uint32_t i = 0; i < count; i++)
		if (!copy_object(copy))
			return false;
	return true;
}

/* keys: offsets, in the copy, of the keys before this one. */
static bool copy_key(struct message_copy *copy, uint32_t *keys, uint32_t count)
{
	struct fgt_msgpack_cursor peek = copy->from;
	size_t len = fgt_msgpack_read_str(&peek).len;
	const char *key;

	if (len == 0 || !copy_string(copy)) /* 0 also for no string */
		return false;
	keys[count] = (uint32_t)(copy->len - len - 1);
	key = (const char *)copy->bytes + keys[count];
	for (uint32_t i = 0; i < count; i++)
		if (strcmp((const char *)copy->bytes + keys[i], key) == 0)
			return false;
	return true;
}

static bool copy_map(struct message_copy *copy)
{
	uint32_t keys[FGT_PROTOCOL_KEYS_MAX];
	size_t at = copy->from.at;
	uint32_t count = fgt_msgpack_read_map(&copy->from);

	if (count > FGT_PROTOCOL_KEYS_MAX)
		return false;
	copy_bytes(copy, at);
	for (uint32_t i = 0; i < count; i++)
		if (!copy_key(copy, keys, i) || !copy_object(copy))
			return false;
	return true;
}

/* Recurses at most FGT_PROTOCOL_DEPTH_MAX times: fgt_msgpack_check(). */
static bool copy_object(struct message_copy *copy)
{
	switch (fgt_msgpack_peek(&copy->from)) {
	case FGT_MSGPACK_STR:
		return copy_string(copy);
	case FGT_MSGPACK_ARRAY:
		return copy_array(copy);
	case FGT_MSGPACK_MAP:
		return copy_map(copy);
	case FGT_MSGPACK_OTHER:
		return false;
	default:
		return copy_scalar(copy);
	}
}

/* What fgt_message_decode() returns. */
struct owned_message {
	struct fgt_message message; /* first: the two are cast */
	uint8_t bytes[];
};

int fgt_message_decode(const uint8_t *bytes, size_t len,
		       struct fgt_message **ret_message)
{
	struct owned_message *owned;
	struct message_copy copy = { .len = 0 };

	if (fgt_msgpack_check(bytes, len, FGT_PROTOCOL_DEPTH_MAX) < 0)
		return -EBADMSG;
	/* Twice its length is enough: no string grows by more than its size. */
	owned = malloc(sizeof(*owned) + 2 * len);
	if (!owned)
		return -ENOMEM;
	copy.bytes = owned->bytes;
	fgt_msgpack_cursor_init(&copy.from, bytes, len);
	if (fgt_msgpack_peek(&copy.from) != FGT_MSGPACK_MAP ||
	    !copy_map(&copy)) {
		free(owned);
		return -EBADMSG;
	}
	owned->message.bytes = owned->bytes;
	owned->message.len = copy.len;
	*ret_message = &owned->message;
	return 0;
}

void fgt_message_free(struct fgt_message *message)
{
	free(message); /* the first member of what was allocated */
}

/* ---- Values ------------------------------------------------------------ */

/* The value of a key, unread. Its error is -ENOENT where there is none. */
static struct fgt_msgpack_cursor find(const struct fgt_message *message,
				      const char *key)
{
	struct fgt_msgpack_cursor cursor;
	uint32_t count;

	fgt_msgpack_cursor_init(&cursor, message->bytes, message->len);
	count = fgt_msgpack_read_map(&cursor);
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(fgt_msgpack_read_str(&cursor).bytes, key) == 0)
			return cursor;
		fgt_msgpack_skip(&cursor);
	}
	cursor.error = -ENOENT; /* every read from it yields zero */
	return cursor;
}

/* What a getter returns after it has read the value. */
static int result_of(const struct fgt_msgpack_cursor *cursor)
{
	return cursor->error && cursor->error != -ENOENT ? -EINVAL
							 : cursor->error;
}

int fgt_message_get_int(const struct fgt_message *message, const char *key,
			int64_t *ret_value)
{
	struct fgt_msgpack_cursor cursor = find(message, key);
	int64_t value = fgt_msgpack_read_int(&cursor, INT64_MIN, INT64_MAX);

	if (!cursor.error)
		*ret_value = value;
	return result_of(&cursor);
}

int fgt_message_get_uint(const struct fgt_message *message, const char *key,
			 uint64_t *ret_value)
{
	struct fgt_msgpack_cursor cursor = find(message, key);
	uint64_t value = fgt_msgpack_read_uint(&cursor, UINT64_MAX);

	if (!cursor.error)
		*ret_value = value;
	return result_of(&cursor);
}

int fgt_message_get_double(const struct fgt_message *message, const char *key,
			   double *ret_value)
{
	struct fgt_msgpack_cursor cursor = find(message, key);
	double value = fgt_msgpack_read_double(&cursor);
	uint64_t positive;
	int64_t negative;

	if (!cursor.error)
		*ret_value = value;
	else if (fgt_message_get_uint(message, key, &positive) == 0)
		*ret_value = (double)positive;
	else if (fgt_message_get_int(message, key, &negative) == 0)
		*ret_value = (double)negative;
	else
		return result_of(&cursor);
	return 0;
}

int fgt_message_get_bool(const struct fgt_message *message, const char *key,
			 bool *ret_value)
{
	struct fgt_msgpack_cursor cursor = find(message, key);
	bool value = fgt_msgpack_read_bool(&cursor);

	if (!cursor.error)
		*ret_value = value;
	return result_of(&cursor);
}

int fgt_message_get_string(const struct fgt_message *message, const char *key,
			   const char **ret_value)
{
	struct fgt_msgpack_cursor cursor = find(message, key);
	struct fgt_msgpack_text text = fgt_msgpack_read_str(&cursor);

	if (!cursor.error)
		*ret_value = text.bytes;
	return result_of(&cursor);
}

int fgt_message_get_bin(const struct fgt_message *message, const char *key,
			const uint8_t **ret_bytes, size_t *ret_len)
{
	struct fgt_msgpack_cursor cursor = find(message, key);
	struct fgt_msgpack_text bin = fgt_msgpack_read_bin(&cursor);

	if (!cursor.error) {
		*ret_bytes = (const uint8_t *)bin.bytes;
		*ret_len = bin.len;
	}
	return result_of(&cursor);
}

int fgt_message_get_array(const struct fgt_message *message, const char *key,
			  struct fgt_message_array *ret_array)
{
	struct fgt_msgpack_cursor cursor = find(message, key);
	uint32_t count = fgt_msgpack_read_array(&cursor);

	if (!cursor.error)
		*ret_array = (struct fgt_message_array){ count, cursor };
	return result_of(&cursor);
}

/* -EINVAL: it is no map. */
static int read_map(struct fgt_msgpack_cursor *cursor,
		    struct fgt_message *ret_map)
{
	size_t at = cursor->at;
	bool is_map = fgt_msgpack_peek(cursor) == FGT_MSGPACK_MAP;

	fgt_msgpack_skip(cursor);
	if (!is_map)
		return -EINVAL;
	ret_map->bytes = cursor->bytes + at;
	ret_map->len = cursor->at - at;
	return 0;
}

int fgt_message_get_map(const struct fgt_message *message, const char *key,
			struct fgt_message *ret_map)
{
	struct fgt_msgpack_cursor cursor = find(message, key);

	return cursor.error ? result_of(&cursor) : read_map(&cursor, ret_map);
}

int fgt_message_next(struct fgt_message_array *array,
		     struct fgt_message *ret_element)
{
	if (array->count == 0)
		return -ENOENT;
	array->count--;
	return read_map(&array->cursor, ret_element);
}

/* ---- Requests and replies ---------------------------------------------- */

/* program: the client's version. */
static int check_versions(int64_t agent, int64_t program, struct fgt_why *why)
{
	if (agent == program)
		return 0;
	return fgt_why_set(
		why, -EPROTONOSUPPORT,
		"the agent uses protocol %lld, this program %lld: %s",
		(long long)agent, (long long)program,
		agent < program ? "the agent is older; restart it with this "
				  "program's release"
				: "this program is older; update it (or its "
				  "libfgtrace) and restart it");
}

int fgt_message_check_request(const struct fgt_message *request,
			      struct fgt_why *why)
{
	int64_t version;

	if (fgt_message_get_int(request, "v", &version) < 0)
		return fgt_why_set(why, -EBADMSG,
				   "the request has no v (protocol version)");
	return check_versions(FGT_PROTOCOL_VERSION, version, why);
}

int fgt_message_check_reply(const struct fgt_message *reply,
			    struct fgt_why *why)
{
	const char *text = "the agent gave no reason; see its log";
	int64_t version, error;
	bool is_ok;
	int r;

	if (fgt_message_get_int(reply, "v", &version) < 0 ||
	    fgt_message_get_bool(reply, "ok", &is_ok) < 0)
		return fgt_why_set(why, -EBADMSG,
				   "the agent sent a reply without v and ok; "
				   "use an agent of this release");
	r = check_versions(version, FGT_PROTOCOL_VERSION, why);
	if (r < 0 || is_ok)
		return r;
	(void)fgt_message_get_string(reply, "why", &text);
	if (fgt_message_get_int(reply, "error", &error) < 0 || error >= 0 ||
	    error < -ERRNO_MAX)
		error = -EBADMSG;
	return fgt_why_set(why, (int)error, "%s", *text ? text : "no reason");
}
