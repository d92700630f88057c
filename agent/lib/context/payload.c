/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the few protobuf messages of a process context
 * (opentelemetry/proto/common/v1, resource/v1): all their fields are bytes.
 * Runs in fgt_start().
 */
#include "agent/lib/context/payload.h"

#include <string.h>

#include "agent/lib/context/thread_trace.h"
#include "agent/lib/settings.h"

#define WIRE_BYTES 2u
/* Numbers of fields. */
#define RESOURCE_ATTRIBUTES 1u
#define CONTEXT_RESOURCE    1u
#define CONTEXT_ATTRIBUTES  2u

struct message {
	uint8_t bytes[FGT_PAYLOAD_MAX];
	size_t len;
};

static void put_varint(struct message *message, size_t value)
{
	for (; value >= 0x80; value >>= 7)
		message->bytes[message->len++] = (uint8_t)(value | 0x80);
	message->bytes[message->len++] = (uint8_t)value;
}

/* What does not fit is left out: with texts of settings all fits. */
static void put_field(struct message *message, unsigned int number,
		      const void *bytes, size_t len)
{
	if (len + 8 > sizeof(message->bytes) - message->len)
		return;
	put_varint(message, number << 3 | WIRE_BYTES);
	put_varint(message, len);
	memcpy(message->bytes + message->len, bytes, len);
	message->len += len;
}

/* KeyValue { key, AnyValue { string_value } }, a field of that number. */
static void put_attribute(struct message *message, unsigned int number,
			  const char *key, const char *text)
{
	struct message value = { .len = 0 }, pair = { .len = 0 };

	if (!text || !*text)
		return;
	put_field(&value, 1, text, strlen(text));
	put_field(&pair, 1, key, strlen(key));
	put_field(&pair, 2, value.bytes, value.len);
	put_field(message, number, pair.bytes, pair.len);
}

size_t fgt_payload_write(const struct fgt_options *options,
			 uint8_t ret_bytes[FGT_PAYLOAD_MAX])
{
	struct message resource = { .len = 0 }, context = { .len = 0 };

	put_attribute(&resource, RESOURCE_ATTRIBUTES, "service.name",
		      options->service_name);
	put_attribute(&resource, RESOURCE_ATTRIBUTES, "service.namespace",
		      options->service_namespace);
	put_attribute(&resource, RESOURCE_ATTRIBUTES, "service.version",
		      options->service_version);
	put_attribute(&resource, RESOURCE_ATTRIBUTES, "service.instance.id",
		      options->service_instance);
	put_attribute(&resource, RESOURCE_ATTRIBUTES,
		      "deployment.environment.name", options->environment);
	put_field(&context, CONTEXT_RESOURCE, resource.bytes, resource.len);
	put_attribute(&context, CONTEXT_ATTRIBUTES,
		      "threadlocal.schema_version", FGT_THREAD_TRACE_SCHEMA);
	memcpy(ret_bytes, context.bytes, context.len);
	return context.len;
}
