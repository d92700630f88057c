/* SPDX-License-Identifier: Apache-2.0 */
#include "ringbuf/slice/service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void set(struct fgt_service *service, size_t i, const char *text)
{
	fgt_service_set(service, i, text, strlen(text));
}

static void
long_text_is_cut_before_the_character_that_does_not_fit(void **state)
{
	struct fgt_service service = { .name = "" };
	char text[300];

	(void)state;
	memset(text, 'a', sizeof(text));
	memcpy(text + 254, "\xe2\x82\xac", 3); /* the Euro sign */
	fgt_service_set(&service, 0, text, sizeof(text));
	assert_int_equal(strlen(service.name), 254);
	memcpy(text + 252, "\xe2\x82\xac", 3);
	fgt_service_set(&service, 0, text, sizeof(text));
	assert_int_equal(strlen(service.name), 255);
	memset(text, 0xff, sizeof(text));
	fgt_service_set(&service, 0, text, sizeof(text));
	assert_int_equal(strlen(service.name), 255);
}

static void text_ends_at_its_first_nul_and_leaves_nothing_behind(void **state)
{
	struct fgt_service service = { .name = "longer" };
	const char rest[FGT_SERVICE_TEXT_MAX - 2] = { 0 };

	(void)state;
	fgt_service_set(&service, 0, "ab\0cd", 5);
	assert_string_equal(service.name, "ab");
	assert_memory_equal(service.name + 2, rest, sizeof(rest));
}

static void adding_keeps_what_is_known(void **state)
{
	struct fgt_service service = { .name = "shop" };
	const struct fgt_service other = { .name = "other",
					   .environment = "staging" };

	(void)state;
	assert_int_equal(fgt_service_count(&service), 1);
	fgt_service_add(&service, &other);
	assert_string_equal(service.name, "shop");
	assert_string_equal(service.environment, "staging");
	assert_int_equal(fgt_service_count(&service), 2);
}

static void assert_name(const struct fgt_service *service, const char *expected)
{
	char name[FGT_SERVICE_TEXT_MAX];

	fgt_service_name(service, "comm", name);
	assert_string_equal(name, expected);
}

static void name_is_the_services_else_the_units_else_the_processs(void **state)
{
	struct fgt_service service = { .container = "0123456789ab" };

	(void)state;
	assert_name(&service, "comm");
	set(&service, 5, "postgresql@15-main.service");
	assert_name(&service, "postgresql@15-main");
	set(&service, 0, "shop");
	assert_name(&service, "shop");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			long_text_is_cut_before_the_character_that_does_not_fit),
		cmocka_unit_test(
			text_ends_at_its_first_nul_and_leaves_nothing_behind),
		cmocka_unit_test(adding_keeps_what_is_known),
		cmocka_unit_test(
			name_is_the_services_else_the_units_else_the_processs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
