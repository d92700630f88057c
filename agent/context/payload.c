/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the protobuf messages of a process context
 * (opentelemetry/proto/resource/v1, common/v1). Any thread; must not trust a
 * byte. Fields that are not known are skipped; nothing nests deeper than the
 * four messages that are read here.
 */
#include "agent/context/payload.h"

#include <errno.h>
#include <string.h>

enum wire {
	WIRE_VARINT = 0,
	WIRE_FIXED64 = 1,
	WIRE_BYTES = 2,
	WIRE_FIXED32 = 5
};

struct bytes {
	const uint8_t *at, *end;
};

struct field {
	uint64_t number;
	enum wire wire;
	struct bytes value; /* of WIRE_BYTES */
};

static int read_varint(struct bytes *bytes, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; shift < 64; shift += 7) {
		if (bytes->at == bytes->end)
			return -EBADMSG;
		value |= (uint64_t)(*bytes->at & 0x7f) << shift;
		if (*bytes->at++ < 0x80) {
			*ret_value = value;
			return 0;
		}
	}
	return -EBADMSG;
}

static int take(struct bytes *bytes, uint64_t len, struct bytes *ret_taken)
{
	if (len > (uint64_t)(bytes->end - bytes->at))
		return -EBADMSG;
	*ret_taken = (struct bytes){ bytes->at, bytes->at + len };
	bytes->at += len;
	return 0;
}

/* 1 a field, 0 the message has ended, -EBADMSG. */
static int next_field(struct bytes *message, struct field *ret_field)
{
	uint64_t tag, number;
	int r;

	if (message->at == message->end)
		return 0;
	r = read_varint(message, &tag);
	if (r < 0)
		return r;
	*ret_field = (struct field){ .number = tag >> 3, .wire = tag & 7 };
	switch (ret_field->wire) {
	case WIRE_VARINT:
		r = read_varint(message, &number);
		break;
	case WIRE_FIXED64:
		r = take(message, 8, &ret_field->value);
		break;
	case WIRE_FIXED32:
		r = take(message, 4, &ret_field->value);
		break;
	case WIRE_BYTES:
		r = read_varint(message, &number);
		if (r == 0)
			r = take(message, number, &ret_field->value);
		break;
	default: /* groups ended with protobuf 2 */
		r = -EBADMSG;
	}
	return r < 0 || !ret_field->number ? -EBADMSG : 1;
}

/* Reads fields until one is of that number and of bytes; as next_field(). */
static int find_field(struct bytes *message, uint64_t number,
		      struct field *ret_field)
{
	int r;

	do
		r = next_field(message, ret_field);
	while (r > 0 &&
	       (ret_field->number != number || ret_field->wire != WIRE_BYTES));
	return r;
}

static bool is_text(struct bytes bytes, const char *text)
{
	size_t len = (size_t)(bytes.end - bytes.at);

	return strlen(text) == len && !memcmp(bytes.at, text, len);
}

/* AnyValue: its string_value, field 1. *ret_text is empty if it has none. */
static int read_value(struct bytes value, struct bytes *ret_text)
{
	struct field field;
	int r = find_field(&value, 1, &field);

	*ret_text = r > 0 ? field.value
			  : (struct bytes){ value.end, value.end };
	return r < 0 ? r : 0;
}

static void keep(struct fgt_service *service, struct bytes key,
		 struct bytes text)
{
	size_t len = (size_t)(text.end - text.at);

	if (!len)
		return;
	for (size_t i = 0; i < FGT_SERVICE_PUBLISHED; i++)
		if (is_text(key, fgt_service_texts[i].attribute))
			fgt_service_set(service, i, (const char *)text.at, len);
	/* The attribute's name until 2024. */
	if (is_text(key, "deployment.environment") && !service->environment[0])
		fgt_service_set(service, FGT_SERVICE_ENVIRONMENT,
				(const char *)text.at, len);
}

/* KeyValue: key 1, value 2. */
static int read_attribute(struct bytes message, struct fgt_service *service)
{
	struct bytes key = { NULL, NULL }, text = { NULL, NULL };
	struct field field;
	int r;

	while ((r = next_field(&message, &field)) > 0) {
		if (field.wire != WIRE_BYTES)
			continue;
		if (field.number == 1)
			key = field.value;
		else if (field.number == 2)
			r = read_value(field.value, &text);
		if (r < 0)
			return r;
	}
	if (r < 0 || !key.at)
		return -EBADMSG;
	keep(service, key, text);
	return 0;
}

/* Resource: attributes 1, dropped_attributes_count 2. */
static int read_resource(struct bytes message, struct fgt_service *service)
{
	struct field field;
	int r;

	while ((r = next_field(&message, &field)) > 0) {
		/* So a KeyValue looks, where a Resource is expected. */
		if (field.number == 2 && field.wire != WIRE_VARINT)
			return -EBADMSG;
		if (field.number == 1 && field.wire == WIRE_BYTES)
			r = read_attribute(field.value, service);
		if (r < 0)
			return r;
	}
	return r;
}

/* ProcessContext: resource 1, attributes 2. */
static int read_context(struct bytes message, struct fgt_service *service)
{
	struct field field;
	int r;

	while ((r = find_field(&message, 1, &field)) > 0) {
		r = read_resource(field.value, service);
		if (r < 0)
			return r;
	}
	return r;
}

int fgt_context_payload_read(const uint8_t *bytes, size_t len,
			     struct fgt_service *ret_service)
{
	const struct bytes message = { bytes, bytes + len };
	struct fgt_service service = { .name = "" };
	int r = read_context(message, &service);

	if (r < 0) {
		memset(&service, 0, sizeof(service));
		r = read_resource(message, &service);
	}
	if (r == 0)
		*ret_service = service;
	return r;
}
