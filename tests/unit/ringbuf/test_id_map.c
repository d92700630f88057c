/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for keys. */
#include "ringbuf/base/id_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "ringbuf/base/hash.h"

static void keys_are_numbered_as_they_appear(void **state)
{
	struct fgt_id_map map = { 0 };
	const uint32_t count = 100000;
	uint32_t id;

	(void)state;
	assert_int_equal(fgt_id_map_find(&map, 0), FGT_ID_NONE);
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < count; i++) {
			/* Keys as encoders make them: low bits often equal. */
			assert_int_equal(fgt_id_map_add(&map,
							(uint64_t)i << 32 | 7,
							&id),
					 0);
			assert_int_equal(id, i);
		}
	assert_int_equal(map.count, count);
	assert_int_equal(fgt_id_map_find(&map, (uint64_t)5 << 32 | 7), 5);
	assert_int_equal(fgt_id_map_find(&map, 5), FGT_ID_NONE);
	assert_true(map.keys[9] == ((uint64_t)9 << 32 | 7));
	fgt_id_map_done(&map);
	fgt_id_map_done(&map);
}

/* The number with that hash. */
static uint64_t unhash(uint64_t hash)
{
	hash = (hash ^ hash >> 31 ^ hash >> 62) * 0x319642b2d24d8ec3u;
	hash = (hash ^ hash >> 27 ^ hash >> 54) * 0x96de1b173f119089u;
	return hash ^ hash >> 30 ^ hash >> 60;
}

/* As a hostile file may have them: the low halves of all hashes are equal. */
static void chosen_keys_are_no_slower(void **state)
{
	struct fgt_id_map map = { 0 };
	clock_t began = clock();
	uint32_t id;

	(void)state;
	for (uint64_t i = 0; i < 100000; i++) {
		uint64_t key = unhash(i << 32);

		assert_true(fgt_hash_number(key) == i << 32);
		assert_int_equal(fgt_id_map_add(&map, key, &id), 0);
		assert_int_equal(id, i);
	}
	assert_true(clock() - began < CLOCKS_PER_SEC);
	fgt_id_map_done(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_numbered_as_they_appear),
		cmocka_unit_test(chosen_keys_are_no_slower),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
