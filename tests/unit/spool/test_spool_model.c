/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random actions on a spool, ends of the process at any system call and losses
 * of power, against a list of numbers: what was accepted is there, once and
 * whole, until it is removed or reported as dropped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spool_kit.h"

#define ROUNDS	  4000
#define MAX_BYTES 30000
#define MAX_COUNT 12
#define AGE_NS	  UINT64_C(3600000000000)

enum fate {
	UNKNOWN, /* not begun, or its process ended meanwhile */
	ACCEPTED,
	REMOVED, /* and that is durable */
	DROPPED,
};

struct model {
	struct kit_disk disk;
	struct fgt_spool *spool;
	uint64_t random, now_ns, next_number;
	enum fate fates[ROUNDS + 1];
	struct fgt_spool_id ids[ROUNDS + 1];
	unsigned int counts[8]; /* of actions, so that none is left out */
};

static struct model model;

static void note_drop(void *context, const struct fgt_spool_entry *entry,
		      enum fgt_spool_drop reason)
{
	const struct kit_disk *disk = &model.disk;
	/* Its file is removed by the next call. */
	bool is_ending = disk->dies_at && disk->calls + 1 >= disk->dies_at;

	(void)context;
	/* What was synced is never damaged. */
	assert_int_not_equal(reason, FGT_SPOOL_DAMAGED);
	for (uint64_t i = 0; i < model.next_number; i++)
		if (memcmp(&model.ids[i], &entry->id, sizeof(entry->id)) == 0)
			model.fates[i] = is_ending ? UNKNOWN : DROPPED;
}

/* Each entry is whole, and there once; each accepted one is there. */
static void compare(bool has_lost_power)
{
	const struct fgt_spool_index *index = fgt_spool_index(model.spool);
	bool is_there[ROUNDS + 1] = { false };

	assert_true(index->count <= MAX_COUNT);
	assert_true(index->bytes <= MAX_BYTES);
	assert_int_equal(kit_count_bytes(&model.disk), index->bytes);
	for (size_t i = 0; i < index->count; i++) {
		const struct fgt_spool_id id = index->entries[i].id;
		uint64_t number = kit_read_number(model.spool, &id);

		assert_true(number < model.next_number);
		assert_false(is_there[number]);
		is_there[number] = true;
		assert_int_not_equal(model.fates[number], REMOVED);
		assert_true(has_lost_power || model.fates[number] != DROPPED);
		model.fates[number] = ACCEPTED;
		model.ids[number] = id;
	}
	for (uint64_t i = 0; i < model.next_number; i++)
		if (!is_there[i])
			assert_int_not_equal(model.fates[i], ACCEPTED);
}

static void open_spool(void)
{
	const struct fgt_spool_options options = {
		.path = model.disk.path,
		.max_bytes = MAX_BYTES,
		.max_entries = MAX_COUNT,
		.max_age_ns = AGE_NS,
		.disk = &model.disk.table,
		.dropped = note_drop,
	};

	assert_int_equal(
		fgt_spool_open(&options, model.now_ns, &model.spool, NULL), 0);
}

static void add(void)
{
	const struct kit_payload payload = {
		.number = model.next_number++,
		.len = kit_random(&model.random) % 7000,
	};
	struct fgt_spool_id id;

	if (kit_add(model.spool, &payload, model.now_ns, &id) < 0)
		return;
	model.fates[payload.number] = ACCEPTED;
	model.ids[payload.number] = id;
}

static void remove_one(void)
{
	const struct fgt_spool_index *index = fgt_spool_index(model.spool);
	struct fgt_spool_id id;
	int r;

	if (index->count == 0)
		return;
	id = index->entries[kit_random(&model.random) % index->count].id;
	r = fgt_spool_remove(model.spool, &id);
	for (uint64_t i = 0; i < model.next_number; i++)
		if (memcmp(&model.ids[i], &id, sizeof(id)) == 0)
			model.fates[i] = r == 0 ? REMOVED : UNKNOWN;
}

static void act(void)
{
	uint64_t action = kit_random(&model.random) % 10;

	model.now_ns += kit_random(&model.random) % (AGE_NS / 20);
	if (action < 6)
		add();
	else if (action < 9)
		remove_one();
	else
		fgt_spool_expire(model.spool, model.now_ns);
	model.counts[action < 6 ? 0 : action < 9 ? 1 : 2]++;
}

/* The process ends at one of the next calls, perhaps with the machine. */
static void crash(void)
{
	bool is_power = kit_random(&model.random) & 1;

	model.disk.dies_at =
		model.disk.calls + 1 + kit_random(&model.random) % 16;
	for (int i = 0; i < 4 && model.disk.calls < model.disk.dies_at; i++)
		act();
	fgt_spool_close(model.spool);
	if (is_power)
		kit_disk_lose_power(&model.disk, &model.random);
	else
		kit_disk_restart(&model.disk);
	model.counts[is_power ? 3 : 4]++;
	open_spool();
	compare(is_power);
}

static void play(uint64_t seed)
{
	memset(&model, 0, sizeof(model));
	kit_disk_init(&model.disk);
	model.random = seed;
	model.now_ns = KIT_NOW_NS;
	open_spool();
	while (model.next_number + 8 < ROUNDS) {
		if (kit_random(&model.random) % 8 == 0) {
			crash();
		} else {
			act();
			compare(false);
		}
	}
	fgt_spool_close(model.spool);
	kit_disk_done(&model.disk);
	for (int i = 0; i < 5; i++)
		assert_true(model.counts[i] > 50);
}

static void spool_agrees_with_a_list(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++)
		play(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spool_agrees_with_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
