/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes the maps of the control socket and hands out their values.
 * Runs in any thread. Must not unpack a byte that fgt_msgpack_check() has not
 * seen: msgpack-c reserves 4 GB for five bytes (FAULTS C1).
 */
#include "agent/protocol/protocol.h"

#include <assert.h>
#include <errno.h>
#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

#include "ringbuf/base/json.h"
#include "ringbuf/base/msgpack_check.h"

/*
 * A message is a msgpack map and nothing else, so that an element of an array
 * is a message where it lies, without a copy.
 */
struct fgt_message {
	msgpack_object object;
};

/* What fgt_message_decode() hands out: the outermost map and its memory. */
struct owned_message {
	struct fgt_message message; /* first: the two are cast */
	msgpack_zone *zone;
	char *bytes; /* [len + 1]; strings point into it */
};

static bool is_same_string(const msgpack_object_str *a,
			   const msgpack_object_str *b)
{
	return a->size == b->size && memcmp(a->ptr, b->ptr, a->size) == 0;
}

static bool is_plain_string(const msgpack_object *object)
{
	return object->type == MSGPACK_OBJECT_STR &&
	       (object->via.str.size == 0 ||
		!memchr(object->via.str.ptr, 0, object->via.str.size));
}

static bool is_acceptable(const msgpack_object *object);

static bool is_acceptable_map(const msgpack_object_map *map)
{
	if (map->size > FGT_PROTOCOL_KEYS_MAX)
		return false;
	for (uint32_t i = 0; i < map->size; i++) {
		const msgpack_object *key = &map->ptr[i].key;

		if (!is_plain_string(key) || key->via.str.size == 0 ||
		    !is_acceptable(&map->ptr[i].val))
			return false;
		for (uint32_t j = 0; j < i; j++)
			if (is_same_string(&map->ptr[j].key.via.str,
					   &key->via.str))
				return false;
	}
	return true;
}

/* Depth is bounded: fgt_msgpack_check() has refused more than 16 levels. */
static bool is_acceptable(const msgpack_object *object)
{
	switch (object->type) {
	case MSGPACK_OBJECT_MAP:
		return is_acceptable_map(&object->via.map);
	case MSGPACK_OBJECT_ARRAY:
		for (uint32_t i = 0; i < object->via.array.size; i++)
			if (!is_acceptable(&object->via.array.ptr[i]))
				return false;
		return true;
	case MSGPACK_OBJECT_STR:
		return is_plain_string(object);
	case MSGPACK_OBJECT_EXT:
		return false;
	default:
		return true;
	}
}

/*
 * Puts a NUL behind every string where it lies: the byte there is the tag of
 * the next object, which has been read already, or the spare last byte.
 * Strings without bytes have no place of their own: see string_of().
 */
static void terminate_strings(msgpack_object *object)
{
	switch (object->type) {
	case MSGPACK_OBJECT_MAP:
		for (uint32_t i = 0; i < object->via.map.size; i++) {
			terminate_strings(&object->via.map.ptr[i].key);
			terminate_strings(&object->via.map.ptr[i].val);
		}
		break;
	case MSGPACK_OBJECT_ARRAY:
		for (uint32_t i = 0; i < object->via.array.size; i++)
			terminate_strings(&object->via.array.ptr[i]);
		break;
	case MSGPACK_OBJECT_STR:
		if (object->via.str.size > 0)
			((char *)object->via.str.ptr)[object->via.str.size] = 0;
		break;
	default:
		break;
	}
}

static const char *string_of(const msgpack_object *object)
{
	return object->via.str.size > 0 ? object->via.str.ptr : "";
}

static int unpack(struct owned_message *owned, size_t len)
{
	msgpack_object *object = &owned->message.object;
	size_t offset = 0;

	if (msgpack_unpack(owned->bytes, len, &offset, owned->zone, object) !=
	    MSGPACK_UNPACK_SUCCESS)
		return -ENOMEM; /* the bytes have been checked */
	if (object->type != MSGPACK_OBJECT_MAP || !is_acceptable(object))
		return -EBADMSG;
	terminate_strings(object);
	return 0;
}

int fgt_message_decode(const uint8_t *bytes, size_t len,
		       struct fgt_message **ret_message)
{
	struct owned_message *owned;
	int r = fgt_msgpack_check(bytes, len, FGT_PROTOCOL_DEPTH_MAX);

	if (r < 0)
		return r;
	owned = calloc(1, sizeof(*owned));
	if (!owned)
		return -ENOMEM;
	owned->bytes = malloc(len + 1);
	owned->zone = msgpack_zone_new(4096);
	if (!owned->bytes || !owned->zone) {
		fgt_message_free(&owned->message);
		return -ENOMEM;
	}
	memcpy(owned->bytes, bytes, len);
	r = unpack(owned, len);
	if (r < 0) {
		fgt_message_free(&owned->message);
		return r;
	}
	*ret_message = &owned->message;
	return 0;
}

void fgt_message_free(struct fgt_message *message)
{
	struct owned_message *owned = (struct owned_message *)message;

	if (!owned)
		return;
	if (owned->zone)
		msgpack_zone_free(owned->zone);
	free(owned->bytes);
	free(owned);
}

static int find(const struct fgt_message *message, const char *key,
		const msgpack_object **ret_value)
{
	const msgpack_object_map *map = &message->object.via.map;
	size_t len = strlen(key);

	for (uint32_t i = 0; i < map->size; i++) {
		const msgpack_object_str *name = &map->ptr[i].key.via.str;

		if (name->size == len && memcmp(name->ptr, key, len) == 0) {
			*ret_value = &map->ptr[i].val;
			return 0;
		}
	}
	return -ENOENT;
}

static int find_type(const struct fgt_message *message, const char *key,
		     msgpack_object_type type, const msgpack_object **ret_value)
{
	const msgpack_object *value;
	int r = find(message, key, &value);

	if (r < 0)
		return r;
	if (value->type != type)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

int fgt_message_get_int(const struct fgt_message *message, const char *key,
			int64_t *ret_value)
{
	const msgpack_object *value;
	int r = find(message, key, &value);

	if (r < 0)
		return r;
	if (value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
		*ret_value = value->via.i64;
	else if (value->type == MSGPACK_OBJECT_POSITIVE_INTEGER &&
		 value->via.u64 <= INT64_MAX)
		*ret_value = (int64_t)value->via.u64;
	else
		return -EINVAL;
	return 0;
}

int fgt_message_get_uint(const struct fgt_message *message, const char *key,
			 uint64_t *ret_value)
{
	const msgpack_object *value;
	int r = find_type(message, key, MSGPACK_OBJECT_POSITIVE_INTEGER,
			  &value);

	if (r == 0)
		*ret_value = value->via.u64;
	return r;
}

int fgt_message_get_double(const struct fgt_message *message, const char *key,
			   double *ret_value)
{
	const msgpack_object *value;
	int r = find(message, key, &value);

	if (r < 0)
		return r;
	if (value->type == MSGPACK_OBJECT_FLOAT32 ||
	    value->type == MSGPACK_OBJECT_FLOAT64)
		*ret_value = value->via.f64;
	else if (value->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
		*ret_value = (double)value->via.u64;
	else if (value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
		*ret_value = (double)value->via.i64;
	else
		return -EINVAL;
	return 0;
}

int fgt_message_get_bool(const struct fgt_message *message, const char *key,
			 bool *ret_value)
{
	const msgpack_object *value;
	int r = find_type(message, key, MSGPACK_OBJECT_BOOLEAN, &value);

	if (r == 0)
		*ret_value = value->via.boolean;
	return r;
}

int fgt_message_get_string(const struct fgt_message *message, const char *key,
			   const char **ret_value)
{
	const msgpack_object *value;
	int r = find_type(message, key, MSGPACK_OBJECT_STR, &value);

	if (r == 0)
		*ret_value = string_of(value);
	return r;
}

int fgt_message_get_bin(const struct fgt_message *message, const char *key,
			const uint8_t **ret_bytes, size_t *ret_len)
{
	const msgpack_object *value;
	int r = find_type(message, key, MSGPACK_OBJECT_BIN, &value);

	if (r < 0)
		return r;
	*ret_bytes = (const uint8_t *)value->via.bin.ptr;
	*ret_len = value->via.bin.size;
	return 0;
}

int fgt_message_get_array(const struct fgt_message *message, const char *key,
			  size_t *ret_count)
{
	const msgpack_object *value;
	int r = find_type(message, key, MSGPACK_OBJECT_ARRAY, &value);

	if (r == 0)
		*ret_count = value->via.array.size;
	return r;
}

int fgt_message_get_array_map(const struct fgt_message *message,
			      const char *key, size_t index,
			      const struct fgt_message **ret_element)
{
	const msgpack_object *value;
	int r = find_type(message, key, MSGPACK_OBJECT_ARRAY, &value);

	if (r < 0)
		return r;
	if (index >= value->via.array.size)
		return -ENOENT;
	if (value->via.array.ptr[index].type != MSGPACK_OBJECT_MAP)
		return -EINVAL;
	*ret_element = (const struct fgt_message *)&value->via.array.ptr[index];
	return 0;
}

static void put_value(struct fgt_json *json, const char *key,
		      const msgpack_object *object);

static void put_map(struct fgt_json *json, const char *key,
		    const msgpack_object_map *map)
{
	fgt_json_begin_object(json, key);
	for (uint32_t i = 0; i < map->size; i++)
		put_value(json, string_of(&map->ptr[i].key), &map->ptr[i].val);
	fgt_json_end_object(json);
}

static void put_array(struct fgt_json *json, const char *key,
		      const msgpack_object_array *array)
{
	fgt_json_begin_array(json, key);
	for (uint32_t i = 0; i < array->size; i++)
		put_value(json, NULL, &array->ptr[i]);
	fgt_json_end_array(json);
}

static void put_value(struct fgt_json *json, const char *key,
		      const msgpack_object *object)
{
	switch (object->type) {
	case MSGPACK_OBJECT_BOOLEAN:
		fgt_json_put_bool(json, key, object->via.boolean);
		break;
	case MSGPACK_OBJECT_POSITIVE_INTEGER:
		fgt_json_put_uint(json, key, object->via.u64);
		break;
	case MSGPACK_OBJECT_NEGATIVE_INTEGER:
		fgt_json_put_int(json, key, object->via.i64);
		break;
	case MSGPACK_OBJECT_FLOAT32:
	case MSGPACK_OBJECT_FLOAT64:
		fgt_json_put_double(json, key, object->via.f64);
		break;
	case MSGPACK_OBJECT_STR:
		fgt_json_put_text(json, key, string_of(object),
				  object->via.str.size);
		break;
	case MSGPACK_OBJECT_BIN:
		fgt_json_put_base64(json, key,
				    (const uint8_t *)object->via.bin.ptr,
				    object->via.bin.size);
		break;
	case MSGPACK_OBJECT_ARRAY:
		put_array(json, key, &object->via.array);
		break;
	case MSGPACK_OBJECT_MAP:
		put_map(json, key, &object->via.map);
		break;
	default:
		fgt_json_put_string(json, key, NULL);
		break;
	}
}

/* Deep enough: a message nests FGT_PROTOCOL_DEPTH_MAX levels at most. */
static_assert(FGT_PROTOCOL_DEPTH_MAX < FGT_JSON_DEPTH_MAX,
	      "every message can be written");

int fgt_message_to_json(const struct fgt_message *message,
			const struct fgt_sink *sink)
{
	struct fgt_json json;

	fgt_json_init(&json, sink);
	put_value(&json, NULL, &message->object);
	return fgt_json_finish(&json);
}
