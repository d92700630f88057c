/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for things that are counted and found by hash.
 */
#include "ringbuf/ring/id_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ringbuf/base/hash.h"

#define CAPACITY 200000u
#define PAGE_IDS 1024u /* that a page holds */

struct fixture {
	struct fgt_id_table table;
	uint64_t *keys; /* by id */
	uint32_t *memory;
};

static uint64_t hash_of(const void *things, uint32_t id)
{
	const uint64_t *keys = things;

	return fgt_hash_number(keys[id]);
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_non_null(fixture);
	fixture->keys = calloc(CAPACITY, sizeof(*fixture->keys));
	fixture->memory = calloc(CAPACITY, FGT_ID_TABLE_BYTES);
	assert_true(fixture->keys && fixture->memory);
	fgt_id_table_init(&fixture->table, fixture->memory, CAPACITY, hash_of,
			  fixture->keys);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	free(fixture->keys);
	free(fixture->memory);
	free(fixture);
	return 0;
}

static uint32_t find(const struct fixture *fixture, uint64_t key)
{
	const struct fgt_id_table *table = &fixture->table;
	uint32_t id = fgt_id_table_first(table, fgt_hash_number(key));

	while (id != FGT_ID_NONE && fixture->keys[id] != key)
		id = fgt_id_table_next(table, id);
	return id;
}

static uint32_t add(struct fixture *fixture, uint64_t key)
{
	uint32_t id = fgt_id_table_take(&fixture->table);

	assert_int_not_equal(id, FGT_ID_NONE);
	fixture->keys[id] = key;
	fgt_id_table_link(&fixture->table, id, fgt_hash_number(key));
	return id;
}

static void drop(struct fixture *fixture, uint32_t id)
{
	fgt_id_table_unlink(&fixture->table, id, hash_of(fixture->keys, id));
	fgt_id_table_give(&fixture->table, id);
}

static void all_are_found_while_buckets_are_split(void **state)
{
	struct fixture *fixture = *state;

	for (uint32_t i = 0; i < CAPACITY; i++) {
		assert_int_equal(find(fixture, i), FGT_ID_NONE);
		assert_int_equal(add(fixture, i), i);
		assert_int_equal(find(fixture, i / 2), i / 2);
	}
	assert_int_equal(fgt_id_table_take(&fixture->table), FGT_ID_NONE);
	for (uint32_t i = 0; i < CAPACITY; i++)
		assert_int_equal(find(fixture, i), i);
}

static void freed_id_is_not_found(void **state)
{
	struct fixture *fixture = *state;

	for (uint32_t i = 0; i < CAPACITY; i++) {
		add(fixture, i);
		if (i % 3 == 2)
			drop(fixture, find(fixture, i - 1));
	}
	for (uint32_t i = 0; i < CAPACITY; i++)
		assert_int_equal(find(fixture, i) == FGT_ID_NONE,
				 i % 3 == 1 && i + 1 < CAPACITY);
}

/* A table that is made for many, and holds few. */
static void few_ids_touch_few_pages(void **state)
{
	struct fixture *fixture = *state;
	size_t touched = 0;

	for (uint32_t i = 0; i < PAGE_IDS / 2; i++)
		add(fixture, i);
	for (size_t page = 0; page < 3 * CAPACITY / PAGE_IDS; page++) {
		const uint32_t *words = fixture->memory + page * PAGE_IDS;
		size_t i = 0;

		while (i < PAGE_IDS && !words[i])
			i++;
		touched += i < PAGE_IDS;
	}
	/* One or two pages each of references, chains and buckets. */
	assert_in_range(touched, 3, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			all_are_found_while_buckets_are_split, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(freed_id_is_not_found, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(few_ids_touch_few_pages, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
