/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads of process contexts are read by row servers: with the answer that
 * this process would give, and never here. This program is its own server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <time.h>

#include "agent/context/payload.h"
#include "agent/unwind/maps/image_file.h"
#include "agent/unwind/maps/image_server.h"
#include "agent/unwind/rows/rows.h"

/* A Resource whose service.name is "shop". */
#define SHOP  "\x0a\x16\x0a\x0cservice.name\x12\x06\x0a\x04shop"
#define TRIES 2000 /* of 5 ms: the server starts when it is first asked */

/* glibc hands the arguments of main() to constructors. */
static void __attribute__((constructor)) serve_if_asked(int argc, char **argv)
{
	fgt_rows_serve_if_asked(argc, argv);
}

static unsigned int parsed;

int __real_fgt_context_payload_read(const uint8_t *bytes, size_t len,
				    struct fgt_service *ret_service);
int __wrap_fgt_context_payload_read(const uint8_t *bytes, size_t len,
				    struct fgt_service *ret_service);
int __wrap_fgt_context_payload_read(const uint8_t *bytes, size_t len,
				    struct fgt_service *ret_service)
{
	parsed++;
	return __real_fgt_context_payload_read(bytes, len, ret_service);
}

static int ask(struct fgt_image_cache *cache, const char *bytes, size_t len,
	       uint64_t serial, struct fgt_service *ret_service)
{
	const struct fgt_elf_source source = {
		.fd = -1,
		.bytes = (const uint8_t *)bytes,
		.len = len,
	};
	struct fgt_image_served file = { .user = 1000,
					 .serial = UINT64_C(1) << 63 | serial,
					 .source = &source };
	const struct timespec pause = { .tv_nsec = 5000000 };
	int r = -EAGAIN;

	for (int i = 0; i < TRIES && r == -EAGAIN; i++) {
		r = fgt_image_cache_get_service(cache, &file, ret_service);
		if (r == -EAGAIN)
			nanosleep(&pause, NULL);
	}
	fgt_image_cache_forget_service(cache, &file);
	return r;
}

static void payload_is_read_by_the_server(void **state)
{
	FGT_AUTO(fgt_image_cache_free) struct fgt_image_cache *cache = NULL;
	struct fgt_service here = { .name = "" }, there;

	(void)state;
	assert_int_equal(fgt_image_cache_new(&cache), 0);
	assert_int_equal(fgt_rows_serve_cache(cache, NULL), 0);
	assert_int_equal(ask(cache, SHOP, sizeof(SHOP) - 1, 1, &there), 0);
	assert_string_equal(there.name, "shop");
	assert_int_equal(parsed, 0);
	memset(&here, 0, sizeof(here));
	assert_int_equal(fgt_context_payload_read((const uint8_t *)SHOP,
						  sizeof(SHOP) - 1, &here),
			 0);
	assert_memory_equal(&here, &there, sizeof(here));
}

static void malformed_payload_is_refused(void **state)
{
	FGT_AUTO(fgt_image_cache_free) struct fgt_image_cache *cache = NULL;
	struct fgt_service service = { .name = "before" };

	(void)state;
	assert_int_equal(fgt_image_cache_new(&cache), 0);
	assert_int_equal(fgt_rows_serve_cache(cache, NULL), 0);
	assert_int_equal(ask(cache, SHOP, sizeof(SHOP) - 2, 1, &service),
			 -EBADMSG);
	assert_string_equal(service.name, "before");
	/* The server goes on. */
	assert_int_equal(ask(cache, SHOP, sizeof(SHOP) - 1, 2, &service), 0);
	assert_string_equal(service.name, "shop");
	assert_int_equal(ask(cache, "", 0, 3, &service), 0);
	assert_string_equal(service.name, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(payload_is_read_by_the_server),
		cmocka_unit_test(malformed_payload_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
