/* SPDX-License-Identifier: Apache-2.0 */
/* The string table: distinct texts, stable numbers, bounded lengths. */
#include "ringbuf/base/strings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "ringbuf/base/hash.h"

static uint32_t intern(struct fgt_strings *strings, const char *text,
		       size_t len)
{
	uint32_t id = UINT32_MAX;

	assert_int_equal(fgt_strings_intern(strings, text, len, &id), 0);
	return id;
}

static void empty_string_is_number_zero(void **state)
{
	struct fgt_strings strings;

	(void)state;
	assert_int_equal(fgt_strings_init(&strings), 0);
	assert_int_equal(strings.count, 1);
	assert_string_equal(fgt_strings_get(&strings, 0), "");
	assert_int_equal(intern(&strings, "", 0), 0);
	assert_int_equal(intern(&strings, NULL, 0), 0);
	assert_int_equal(intern(&strings, "\0abc", 4), 0);
	assert_string_equal(fgt_strings_get(&strings, 99), "");
	fgt_strings_done(&strings);
}

static void equal_texts_get_one_number(void **state)
{
	struct fgt_strings strings;
	char text[32];
	uint32_t len;

	(void)state;
	assert_int_equal(fgt_strings_init(&strings), 0);
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 1; i <= 20000; i++) {
			len = (uint32_t)snprintf(text, sizeof(text), "f%u", i);
			assert_int_equal(intern(&strings, text, len), i);
		}
	assert_int_equal(strings.count, 20001);
	assert_string_equal(fgt_strings_get(&strings, 777), "f777");
	/* A prefix is another text. */
	assert_int_equal(intern(&strings, "f777", 3), 77);
	assert_int_equal(intern(&strings, "f777\0more", 9), 777);
	fgt_strings_done(&strings);
}

static void long_text_is_cut(void **state)
{
	struct fgt_strings strings;
	static char text[3 * FGT_STRING_MAX];
	uint32_t id;

	(void)state;
	memset(text, 'x', sizeof(text));
	assert_int_equal(fgt_strings_init(&strings), 0);
	id = intern(&strings, text, sizeof(text));
	assert_int_equal(strlen(fgt_strings_get(&strings, id)), FGT_STRING_MAX);
	assert_int_equal(intern(&strings, text, FGT_STRING_MAX), id);
	assert_int_equal(intern(&strings, text, FGT_STRING_MAX + 1), id);
	assert_int_not_equal(intern(&strings, text, FGT_STRING_MAX - 1), id);
	fgt_strings_done(&strings);
	fgt_strings_done(&strings);
}

/* As a hostile file may have them: without a secret one in 64 buckets would
 * take them all. */
static void chosen_texts_are_no_slower(void **state)
{
	struct fgt_strings strings;
	clock_t began = clock();
	char text[32];

	(void)state;
	assert_int_equal(fgt_strings_init(&strings), 0);
	for (uint32_t i = 0; strings.count < 60000; i++) {
		size_t len = (size_t)snprintf(text, sizeof(text), "%x", i);
		uint64_t hash = fgt_hash_bytes(text, len);

		if (((hash ^ hash >> 32) & 0x1ffff) < 0x800)
			intern(&strings, text, len);
	}
	assert_true(clock() - began < 2 * CLOCKS_PER_SEC);
	fgt_strings_done(&strings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_string_is_number_zero),
		cmocka_unit_test(equal_texts_get_one_number),
		cmocka_unit_test(long_text_is_cut),
		cmocka_unit_test(chosen_texts_are_no_slower),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
