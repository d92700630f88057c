/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes messages as JSON. Runs in the command line's main thread. Apart from
 * message.c, so that the library links no JSON writer.
 */
#include "agent/protocol/message.h"

#include <assert.h>

#include "agent/protocol/protocol.h"
#include "ringbuf/base/json.h"

static_assert(FGT_PROTOCOL_DEPTH_MAX < FGT_JSON_DEPTH_MAX,
	      "every message can be written");

static void put_value(struct fgt_json *json, const char *key,
		      struct fgt_msgpack_cursor *cursor);

static void put_map(struct fgt_json *json, const char *key,
		    struct fgt_msgpack_cursor *cursor)
{
	uint32_t count = fgt_msgpack_read_map(cursor);

	fgt_json_begin_object(json, key);
	for (uint32_t i = 0; i < count; i++) {
		const char *name = fgt_msgpack_read_str(cursor).bytes;

		put_value(json, name, cursor);
	}
	fgt_json_end_object(json);
}

static void put_array(struct fgt_json *json, const char *key,
		      struct fgt_msgpack_cursor *cursor)
{
	uint32_t count = fgt_msgpack_read_array(cursor);

	fgt_json_begin_array(json, key);
	for (uint32_t i = 0; i < count; i++)
		put_value(json, NULL, cursor);
	fgt_json_end_array(json);
}

static void put_integer(struct fgt_json *json, const char *key,
			struct fgt_msgpack_cursor *cursor)
{
	struct fgt_msgpack_cursor copy = *cursor;
	int64_t value = fgt_msgpack_read_int(&copy, INT64_MIN, INT64_MAX);

	if (copy.error) {
		fgt_json_put_uint(json, key,
				  fgt_msgpack_read_uint(cursor, UINT64_MAX));
		return;
	}
	fgt_json_put_int(json, key, value);
	*cursor = copy;
}

static void put_value(struct fgt_json *json, const char *key,
		      struct fgt_msgpack_cursor *cursor)
{
	struct fgt_msgpack_text bin;

	switch (fgt_msgpack_peek(cursor)) {
	case FGT_MSGPACK_BOOL:
		fgt_json_put_bool(json, key, fgt_msgpack_read_bool(cursor));
		break;
	case FGT_MSGPACK_INTEGER:
		put_integer(json, key, cursor);
		break;
	case FGT_MSGPACK_FLOAT:
		fgt_json_put_double(json, key, fgt_msgpack_read_double(cursor));
		break;
	case FGT_MSGPACK_STR:
		fgt_json_put_string(json, key,
				    fgt_msgpack_read_str(cursor).bytes);
		break;
	case FGT_MSGPACK_BIN:
		bin = fgt_msgpack_read_bin(cursor);
		fgt_json_put_base64(json, key, (const uint8_t *)bin.bytes,
				    bin.len);
		break;
	case FGT_MSGPACK_ARRAY:
		put_array(json, key, cursor);
		break;
	case FGT_MSGPACK_MAP:
		put_map(json, key, cursor);
		break;
	default: /* nil */
		fgt_msgpack_skip(cursor);
		fgt_json_put_string(json, key, NULL);
		break;
	}
}

int fgt_message_to_json(const struct fgt_message *message,
			const struct fgt_sink *sink)
{
	struct fgt_msgpack_cursor cursor;
	struct fgt_json json;

	fgt_msgpack_cursor_init(&cursor, message->bytes, message->len);
	fgt_json_init(&json, sink);
	put_value(&json, NULL, &cursor);
	return fgt_json_finish(&json);
}
