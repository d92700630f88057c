/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How users share the memory of rings and the places of the sampler.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/daemon/targets/target_table.h"
#include "ringbuf/ring/ring.h"

#define MIB    (UINT64_C(1) << 20)
#define SECOND UINT64_C(1000000000)
#define USER   1000u
#define OTHER  2000u

struct fixture {
	struct fgt_config config;
	struct fgt_targets targets;
	int32_t last_pid;
};

static int begin(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	if (!fixture)
		return -1;
	fixture->config.ring.memory_mb = 64;
	fixture->config.ring.per_user = 16;
	fixture->targets.config = &fixture->config;
	fixture->targets.kept_ns = 90 * SECOND;
	fixture->targets.memory_limit = 32768 * MIB;
	pthread_mutex_init(&fixture->targets.lock, NULL);
	*state = fixture;
	return 0;
}

static int end(void **state)
{
	struct fixture *fixture = *state;

	fgt_target_table_done(&fixture->targets.table);
	pthread_mutex_destroy(&fixture->targets.lock);
	free(fixture);
	return 0;
}

/* A target with the smallest ring, whose entry has another size. */
static struct fgt_target_entry *add(struct fixture *fixture, uint32_t uid,
				    uint64_t ring_bytes)
{
	const struct fgt_ring_options options = { .size_bytes = MIB };
	const struct fgt_target_status status = { .pid = 1 };
	const struct fgt_owner owner = { .uid = 0 };
	struct fgt_target_entry *entry = fgt_target_table_add(
		&fixture->targets.table, ++fixture->last_pid, 1);
	struct fgt_ring *ring;

	assert_non_null(entry);
	assert_int_equal(fgt_ring_new(&options, &ring), 0);
	assert_int_equal(fgt_target_new(ring, &status, &owner, &entry->target),
			 0);
	entry->charged_uid = uid;
	entry->ring_bytes = ring_bytes;
	return entry;
}

static void add_ended(struct fixture *fixture, uint32_t uid, uint64_t ended_ns)
{
	add(fixture, uid, 64 * MIB)->ended_ns = ended_ns;
}

/* Bytes of a new ring of that user, or a negative errno. */
static int64_t take(struct fixture *fixture, uint32_t uid)
{
	const struct fgt_attach_cause cause = { .charged_uid = uid };
	struct fgt_why why = { "" };
	size_t bytes = 0;
	int r = fgt_target_room_take(&fixture->targets, 1, 1, &cause, &bytes,
				     &why);

	if (r < 0)
		assert_string_not_equal(why.text, "");
	return r < 0 ? r : (int64_t)bytes;
}

static size_t count(const struct fixture *fixture, uint32_t uid, bool has_ended)
{
	const struct fgt_target_table *table = &fixture->targets.table;
	size_t found = 0;

	for (size_t i = 0; i < table->count; i++)
		found += table->entries[i].charged_uid == uid &&
			 (table->entries[i].ended_ns != 0) == has_ended;
	return found;
}

/* As many as there is room for; how many. */
static size_t fill(struct fixture *fixture, uint32_t uid)
{
	size_t filled = 0;

	for (int64_t bytes; (bytes = take(fixture, uid)) > 0; filled++)
		add(fixture, uid, (uint64_t)bytes);
	return filled;
}

static void sixteen_users_leave_root_places_and_memory(void **state)
{
	struct fixture *fixture = *state;

	for (uint32_t uid = 1; uid <= 16; uid++)
		fill(fixture, uid);
	assert_int_equal(fixture->targets.table.count, FGT_TARGETS_OF_USERS);
	assert_int_equal(take(fixture, 17), -ENOSPC);
	assert_int_equal(take(fixture, 0), 64 * MIB);
	assert_true(fill(fixture, 0) >= 32);
}

static void rings_shrink_to_what_the_memory_group_has(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_targets_room room;

	fixture->targets.memory_limit = 24 * MIB;
	assert_int_equal(take(fixture, 0), 3 * MIB);
	assert_true(fill(fixture, USER) >= 3); /* of 1 MiB */
	assert_true(fill(fixture, OTHER) >= 3);
	assert_true(fill(fixture, 0) >= 3);
	fgt_targets_get_room(&fixture->targets, &fixture->config, &room);
	assert_int_equal(room.total_bytes, 12 * MIB);
	assert_true(room.used_bytes <= room.total_bytes);
}

static void configured_total_is_at_most_half_of_the_limit(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_config *config = &fixture->config;

	config->ring.total_mb = 100;
	assert_int_equal(fgt_target_room_total(config, UINT64_MAX), 100 * MIB);
	assert_int_equal(fgt_target_room_total(config, 24 * MIB), 12 * MIB);
	config->ring.total_mb = 0;
	assert_int_equal(fgt_target_room_total(config, 24 * MIB), 12 * MIB);
}

static void one_user_gets_a_quarter_and_all_three_quarters(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_targets_room room;

	fixture->config.ring.total_mb = 512;
	for (uint32_t uid = 1; uid <= 8; uid++)
		fill(fixture, uid);
	fgt_targets_get_room(&fixture->targets, &fixture->config, &room);
	assert_in_range(room.used_bytes, 380 * MIB, 384 * MIB);
	assert_true(take(fixture, 0) >= (int64_t)(15 * MIB));
}

static void ended_rings_of_the_user_go_first(void **state)
{
	struct fixture *fixture = *state;

	fixture->config.ring.total_mb = 1024;
	for (int i = 0; i < 4; i++)
		add_ended(fixture, USER, SECOND);
	for (int i = 0; i < 4; i++)
		add_ended(fixture, OTHER, SECOND);
	for (int i = 0; i < 4; i++)
		add_ended(fixture, 0, SECOND);
	/* The user's quarter is used up, by its own ended ones. */
	assert_true(take(fixture, USER) >= (int64_t)(8 * MIB));
	assert_int_equal(count(fixture, USER, true), 2);
	assert_int_equal(count(fixture, OTHER, true), 4);
	assert_int_equal(count(fixture, 0, true), 4);
}

static void ended_rings_of_root_stay_whatever_users_do(void **state)
{
	struct fixture *fixture = *state;

	fixture->config.ring.total_mb = 512;
	add_ended(fixture, 0, 1); /* the oldest of all */
	for (uint32_t uid = 1; uid <= 6; uid++) {
		add_ended(fixture, uid, SECOND);
		fill(fixture, uid);
	}
	assert_int_equal(count(fixture, 0, true), 1);
	for (uint32_t uid = 1; uid <= 90; uid++)
		add_ended(fixture, uid % 3 ? 7 : 8, SECOND + uid);
	fgt_target_room_drop_ended(&fixture->targets, 2 * SECOND);
	assert_int_equal(count(fixture, 0, true), 1);
	/* The user with more of them loses its oldest. */
	assert_int_equal(count(fixture, 8, true), 30);
	assert_true(count(fixture, 7, true) <= 34);
	fgt_target_room_drop_ended(&fixture->targets, 200 * SECOND);
	assert_int_equal(count(fixture, 0, true), 0);
}

static void user_at_its_limit_loses_its_own_ended_rings(void **state)
{
	struct fixture *fixture = *state;

	for (int i = 0; i < 15; i++)
		add(fixture, USER, MIB);
	add_ended(fixture, USER, SECOND);
	add_ended(fixture, OTHER, SECOND);
	assert_true(take(fixture, USER) > 0);
	assert_int_equal(count(fixture, USER, true), 0);
	add(fixture, USER, MIB);
	assert_int_equal(take(fixture, USER), -ENOSPC);
	assert_int_equal(count(fixture, OTHER, true), 1);
}

static void processes_without_rings_leave_entries_for_rings(void **state)
{
	struct fixture *fixture = *state;
	struct fgt_target_table *table = &fixture->targets.table;

	while (fgt_target_table_has_place(table))
		assert_non_null(
			fgt_target_table_add(table, ++fixture->last_pid, 1));
	for (int i = 0;
	     i < 256 + FGT_TARGETS_ENDED_MAX + FGT_TARGETS_ENDED_USERS; i++)
		assert_non_null(
			fgt_target_table_add(table, ++fixture->last_pid, 1));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sixteen_users_leave_root_places_and_memory),
		TEST(rings_shrink_to_what_the_memory_group_has),
		TEST(configured_total_is_at_most_half_of_the_limit),
		TEST(one_user_gets_a_quarter_and_all_three_quarters),
		TEST(ended_rings_of_the_user_go_first),
		TEST(ended_rings_of_root_stay_whatever_users_do),
		TEST(user_at_its_limit_loses_its_own_ended_rings),
		TEST(processes_without_rings_leave_entries_for_rings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
