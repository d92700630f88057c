/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture/service/context.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "agent/context/payload.h"

#define HEADER	0x1000u
#define PAYLOAD 0x2000u

/* ProcessContext { resource { attributes { "service.name": "shop" } } } */
#define SHOP	 "\x0a\x18\x0a\x16\x0a\x0cservice.name\x12\x06\x0a\x04shop"
#define SHOP_LEN (sizeof(SHOP) - 1)

/* The memory of a program, and what it does to it at each read. */
struct program {
	struct {
		char signature[8];
		uint32_t version, bytes;
		uint64_t published_ns, payload;
	} header;
	char payload[256];
	unsigned int reads;
	unsigned int changes; /* so many times it publishes again */
};

static int read_program(void *context, uint64_t address, void *buffer,
			size_t len)
{
	struct program *program = context;

	program->reads++;
	if (address == HEADER && len == sizeof(program->header)) {
		memcpy(buffer, &program->header, len);
		return 0;
	}
	if (address != PAYLOAD || len > sizeof(program->payload))
		return -EFAULT;
	memcpy(buffer, program->payload, len);
	if (program->changes) {
		program->changes--;
		program->header.published_ns++;
	}
	return 0;
}

static struct program publish(const char *payload, size_t len)
{
	struct program program = {
		.header = { .version = 2,
			    .bytes = (uint32_t)len,
			    .published_ns = 7,
			    .payload = PAYLOAD },
	};

	memcpy(program.header.signature, "OTEL_CTX", 8);
	memcpy(program.payload, payload, len);
	return program;
}

static int read_context(struct program *program, uint64_t known_ns,
			uint64_t *ret_ns, struct fgt_service *ret_service)
{
	const struct fgt_context_memory memory = { read_program, program };
	static uint8_t buffer[FGT_CONTEXT_PAYLOAD_MAX];

	uint64_t ns;
	size_t len;
	int r = fgt_context_copy(&memory, HEADER, known_ns, buffer,
				 sizeof(buffer), &ns, &len);

	if (r <= 0)
		return r;
	r = fgt_context_payload_read(buffer, len, ret_service);
	if (r < 0)
		return r;
	*ret_ns = ns;
	return 1;
}

static void assert_refused(struct program *program, int error,
			   unsigned int reads_max)
{
	struct fgt_service service = { .name = "before" };
	uint64_t ns = 1;

	program->reads = 0;
	assert_int_equal(read_context(program, 0, &ns, &service), error);
	assert_string_equal(service.name, "before");
	assert_int_equal(ns, 1);
	assert_true(program->reads <= reads_max);
}

static void context_is_read_once_for_each_publication(void **state)
{
	struct program program = publish(SHOP, SHOP_LEN);
	struct fgt_service service;
	uint64_t ns = 0;

	(void)state;
	assert_int_equal(read_context(&program, ns, &ns, &service), 1);
	assert_string_equal(service.name, "shop");
	assert_int_equal(ns, 7);
	program.reads = 0;
	assert_int_equal(read_context(&program, ns, &ns, &service), 0);
	assert_int_equal(program.reads, 1);
	program.header.published_ns = 8;
	memcpy(program.payload + SHOP_LEN - 4, "barn", 4);
	assert_int_equal(read_context(&program, ns, &ns, &service), 1);
	assert_string_equal(service.name, "barn");
}

static void
context_that_changes_meanwhile_is_read_again_but_not_for_ever(void **state)
{
	struct program program = publish(SHOP, SHOP_LEN);
	struct fgt_service service;
	uint64_t ns = 0;

	(void)state;
	program.changes = 2;
	assert_int_equal(read_context(&program, ns, &ns, &service), 1);
	assert_int_equal(ns, 9);
	program.changes = 1000;
	assert_refused(&program, -EAGAIN, 9);
}

static void header_that_lies_is_refused(void **state)
{
	struct program program = publish(SHOP, SHOP_LEN);

	(void)state;
	program.header.published_ns = 0; /* being written, for ever */
	assert_refused(&program, -EAGAIN, 3);
	program.header.published_ns = 7;
	program.header.bytes = UINT32_MAX;
	assert_refused(&program, -EMSGSIZE, 1);
	program.header.bytes = FGT_CONTEXT_PAYLOAD_MAX;
	assert_refused(&program, -EFAULT, 3);
	program.header.bytes = SHOP_LEN - 1;
	assert_refused(&program, -EBADMSG, 3);
	program.header.bytes = SHOP_LEN;
	program.header.payload = 0;
	assert_refused(&program, -EFAULT, 3);
	program.header.payload = UINT64_MAX - 3;
	assert_refused(&program, -EFAULT, 3);
	program.header.payload = PAYLOAD;
	program.header.version = 1;
	assert_refused(&program, -EPROTO, 1);
	program.header.version = 2;
	program.header.signature[7] = 'Y';
	assert_refused(&program, -EPROTO, 1);
}

static int read_payload(const char *bytes, size_t len,
			struct fgt_service *ret_service)
{
	return fgt_context_payload_read((const uint8_t *)bytes, len,
					ret_service);
}

#define READ_PAYLOAD(bytes, service)                                           \
	read_payload(bytes, sizeof(bytes) - 1, service)

static void payload_may_be_a_context_or_a_resource(void **state)
{
	struct fgt_service service;

	(void)state;
	assert_int_equal(READ_PAYLOAD(SHOP, &service), 0);
	assert_string_equal(service.name, "shop");
	/* Without the outer message; and with dropped_attributes_count. */
	assert_int_equal(READ_PAYLOAD("\x0a\x16\x0a\x0cservice.name\x12\x06"
				      "\x0a\x04shop\x10\x05",
				      &service),
			 0);
	assert_string_equal(service.name, "shop");
	assert_int_equal(READ_PAYLOAD("", &service), 0);
	assert_string_equal(service.name, "");
}

static void payload_keeps_strings_of_known_attributes_only(void **state)
{
	struct fgt_service service;

	(void)state;
	/* A number, an unknown attribute, a unit, the environment's old
	 * name. */
	assert_int_equal(
		READ_PAYLOAD("\x0a\x59"
			     "\x0a\x12\x0a\x0cservice.name\x12\x02\x18\x01"
			     "\x0a\x09\x0a\x01x\x12\x04\x0a\x02yz"
			     "\x0a\x16\x0a\x0csystemd.unit\x12\x06\x0a\x04unit"
			     "\x0a\x20\x0a\x16"
			     "deployment.environment\x12\x06\x0a\x04prod",
			     &service),
		0);
	assert_string_equal(service.name, "");
	assert_string_equal(service.unit, "");
	assert_string_equal(service.environment, "prod");
}

static void damaged_payload_is_refused_at_every_byte(void **state)
{
	const char payload[] = SHOP;
	struct fgt_service service;

	(void)state;
	for (size_t len = 1; len < SHOP_LEN; len++)
		assert_int_equal(read_payload(payload, len, &service),
				 -EBADMSG);
	/* A varint without an end, a group, field 0. */
	assert_int_equal(READ_PAYLOAD("\xff\xff\xff\xff\xff\xff\xff\xff\xff"
				      "\xff\xff\x01",
				      &service),
			 -EBADMSG);
	assert_int_equal(READ_PAYLOAD("\x0b\x0c", &service), -EBADMSG);
	assert_int_equal(READ_PAYLOAD("\x02\x00", &service), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(context_is_read_once_for_each_publication),
		cmocka_unit_test(
			context_that_changes_meanwhile_is_read_again_but_not_for_ever),
		cmocka_unit_test(header_that_lies_is_refused),
		cmocka_unit_test(payload_may_be_a_context_or_a_resource),
		cmocka_unit_test(
			payload_keeps_strings_of_known_attributes_only),
		cmocka_unit_test(damaged_payload_is_refused_at_every_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
