/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool: what it accepts, its bounds, other processes that add and
 * remove.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ringbuf/base/hash.h"
#include "spool_kit.h"
#include "upload/deliver/spool/spool_bad.h"

/* ---- Entries ------------------------------------------------------------ */

static void sum_is_that_of_the_rfc(void **state)
{
	uint8_t bytes[32];

	(void)state;
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(fgt_crc32c(0, bytes, 32), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(fgt_crc32c(0, bytes, 32), 0x62a8ab43);
	for (uint8_t i = 0; i < 32; i++)
		bytes[i] = i;
	assert_int_equal(fgt_crc32c(0, bytes, 32), 0x46dd794e);
	assert_int_equal(fgt_crc32c(fgt_crc32c(0, bytes, 5), bytes + 5, 27),
			 0x46dd794e);
}

static void next_process_finds_what_was_accepted(void **state)
{
	struct fgt_spool *spool = kit_open();

	(void)state;
	kit_add_number(spool, 1, 0);
	kit_add_number(spool, 2, 100000);
	fgt_spool_close(spool);
	kit_disk_restart(&kit_disk);

	spool = kit_open();
	assert_int_equal(kit_count(spool), 2);
	for (uint64_t i = 0; i < 2; i++) {
		const struct fgt_spool_id id = kit_id_at(spool, i);

		assert_int_equal(kit_read_number(spool, &id), i + 1);
	}
	fgt_spool_close(spool);
}

static void entry_that_was_answered_is_gone(void **state)
{
	struct fgt_spool *spool = kit_open();
	const struct fgt_spool_id id = kit_add_number(spool, 1, 10);

	(void)state;
	assert_int_equal(fgt_spool_remove(spool, &id), 0);
	assert_int_equal(fgt_spool_remove(spool, &id), -ENOENT);
	assert_int_equal(kit_count(spool), 0);
	assert_int_equal(kit_count_files(&kit_disk, ".spool", false), 0);
	fgt_spool_close(spool);
}

/* Fault D6. */
static void files_are_readable_by_their_owner_only(void **state)
{
	struct fgt_spool *spool = kit_open();
	const struct fgt_spool_id id = kit_add_number(spool, 1, 10);
	struct stat status;
	int fd;

	(void)state;
	assert_int_equal(fgt_spool_hold(spool, &id, &fd), 0);
	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_int_equal(status.st_uid, geteuid());
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	fgt_spool_close(spool);
}

/* Fault D4. */
static void clock_that_is_set_back_keeps_the_order(void **state)
{
	struct fgt_spool *spool = kit_open();
	const struct kit_payload first = { 1, 10 }, second = { 2, 10 };
	struct fgt_spool_id id;

	(void)state;
	assert_int_equal(kit_add(spool, &first, KIT_NOW_NS, &id), 0);
	assert_int_equal(kit_add(spool, &second, KIT_NOW_NS - KIT_DAY_NS, &id),
			 0);
	id = kit_id_at(spool, 0);
	assert_int_equal(kit_read_number(spool, &id), 1);
	id = kit_id_at(spool, 1);
	assert_int_equal(kit_read_number(spool, &id), 2);
	fgt_spool_close(spool);
}

static void file_body_is_copied_whole(void **state)
{
	struct fgt_spool *spool = kit_open();
	char path[] = "/tmp/fgt-spool-body-XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);
	const struct fgt_spool_payload payload = {
		.head = "head",
		.head_len = 4,
		.write = fgt_spool_write_file,
		.context = &fd,
	};
	struct fgt_spool_id id;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 200001), 0);
	assert_int_equal(fgt_spool_add(spool, &payload, KIT_NOW_NS, &id), 0);
	assert_int_equal(fgt_spool_index(spool)->bytes,
			 FGT_SPOOL_FIXED + 4 + 200001);
	close(fd);
	unlink(path);
	fgt_spool_close(spool);
}

/* ---- Bounds ------------------------------------------------------------- */

static void full_spool_drops_the_oldest(void **state)
{
	struct fgt_spool_options options = kit_options();
	struct fgt_spool *spool;
	struct fgt_spool_id id;

	(void)state;
	options.max_bytes = 10000;
	spool = kit_open_with(&options, KIT_NOW_NS);
	for (uint64_t i = 1; i <= 20; i++) {
		kit_add_number(spool, i, 1000);
		assert_true(kit_count_bytes(&kit_disk) <= 10000);
	}
	assert_int_equal(kit_count(spool), 9);
	assert_int_equal(kit_dropped[FGT_SPOOL_FULL], 11);
	id = kit_id_at(spool, 0);
	assert_int_equal(kit_read_number(spool, &id), 12);
	fgt_spool_close(spool);
}

static void spool_holds_so_many_entries(void **state)
{
	struct fgt_spool_options options = kit_options();
	struct fgt_spool *spool;

	(void)state;
	options.max_entries = 3;
	spool = kit_open_with(&options, KIT_NOW_NS);
	for (uint64_t i = 1; i <= 5; i++)
		kit_add_number(spool, i, 10);
	assert_int_equal(kit_count(spool), 3);
	fgt_spool_close(spool);
	kit_disk_restart(&kit_disk);
	options.max_entries = 2;
	spool = kit_open_with(&options, KIT_NOW_NS);
	assert_int_equal(kit_count(spool), 2);
	assert_int_equal(kit_dropped[FGT_SPOOL_FULL], 3);
	fgt_spool_close(spool);
}

static void entry_that_is_sent_is_not_dropped(void **state)
{
	struct fgt_spool_options options = kit_options();
	const struct kit_payload payload = { 3, 10 };
	struct fgt_spool_id first, id;
	struct fgt_spool *spool;
	int fd;

	(void)state;
	options.max_entries = 1;
	spool = kit_open_with(&options, KIT_NOW_NS);
	first = kit_add_number(spool, 1, 10);
	assert_int_equal(fgt_spool_hold(spool, &first, &fd), 0);
	close(fd);
	assert_int_equal(kit_add(spool, &payload, KIT_NOW_NS, &id), -ENOSPC);
	assert_int_equal(kit_read_number(spool, &first), 1);
	assert_int_equal(kit_add(spool, &payload, KIT_NOW_NS, &id), 0);
	assert_int_equal(kit_count(spool), 1);
	fgt_spool_close(spool);
}

static void entry_too_large_is_refused(void **state)
{
	struct fgt_spool_options options = kit_options();
	const struct kit_payload payload = { 2, 5000 };
	struct fgt_spool *spool;
	struct fgt_spool_id id;

	(void)state;
	options.max_bytes = 4000;
	spool = kit_open_with(&options, KIT_NOW_NS);
	kit_add_number(spool, 1, 3000);
	assert_int_equal(kit_add(spool, &payload, KIT_NOW_NS, &id), -EMSGSIZE);
	assert_int_equal(kit_count(spool), 1); /* nothing went for it */
	assert_int_equal(kit_count_files(&kit_disk, ".tmp", false), 0);
	fgt_spool_close(spool);
}

static void old_entries_go(void **state)
{
	struct fgt_spool_options options = kit_options();
	struct fgt_spool *spool;

	(void)state;
	options.max_age_ns = KIT_DAY_NS;
	spool = kit_open_with(&options, KIT_NOW_NS);
	kit_add_number(spool, 1, 10);
	fgt_spool_expire(spool, KIT_NOW_NS + KIT_DAY_NS);
	assert_int_equal(kit_count(spool), 1);
	fgt_spool_expire(spool, KIT_NOW_NS + KIT_DAY_NS + 2);
	assert_int_equal(kit_count(spool), 0);
	assert_int_equal(kit_dropped[FGT_SPOOL_OLD], 1);
	kit_add_number(spool, 2, 10);
	fgt_spool_close(spool);
	kit_disk_restart(&kit_disk);
	spool = kit_open_with(&options, KIT_NOW_NS + 2 * KIT_DAY_NS);
	assert_int_equal(kit_count(spool), 0);
	fgt_spool_close(spool);
}

/* ---- Guests ------------------------------------------------------------- */

static uint64_t found_numbers, found_count;

static void note_found(void *context, const struct fgt_spool_entry *entry,
		       const uint8_t *head, size_t head_len)
{
	struct kit_payload payload;

	(void)context;
	assert_true(entry->bytes > FGT_SPOOL_FIXED);
	assert_int_equal(head_len, sizeof(payload));
	memcpy(&payload, head, sizeof(payload));
	found_numbers += payload.number;
	found_count++;
}

static struct fgt_spool *open_guest(void)
{
	struct fgt_spool_options options = kit_options();
	struct fgt_spool *guest;

	options.disk = NULL;
	options.found = note_found;
	found_numbers = found_count = 0;
	assert_int_equal(fgt_spool_open_as_guest(&options, &guest, NULL), 0);
	return guest;
}

static void entry_of_a_guest_is_found(void **state)
{
	struct fgt_spool_options options = kit_options();
	struct fgt_spool *spool, *guest = open_guest();
	struct fgt_spool_id id;

	(void)state;
	options.found = note_found;
	spool = kit_open_with(&options, KIT_NOW_NS);
	kit_add_number(spool, 1, 10);
	kit_add_number(guest, 20, 10);
	kit_add_number(guest, 300, 10);
	assert_int_equal(fgt_spool_look(spool, KIT_NOW_NS), 0);
	assert_int_equal(kit_count(spool), 3);
	assert_int_equal(found_numbers, 320);
	id = kit_id_at(spool, 1);
	assert_int_equal(kit_read_number(spool, &id), 20);
	assert_int_equal(fgt_spool_look(spool, KIT_NOW_NS), 0);
	assert_int_equal(found_count, 2);
	fgt_spool_close(guest);
	fgt_spool_close(spool);
}

static void entry_that_a_guest_removes_is_gone(void **state)
{
	struct fgt_spool *spool = kit_open(), *guest = open_guest();
	const struct fgt_spool_id first = kit_add_number(spool, 1, 10);
	int fd;

	(void)state;
	kit_add_number(spool, 20, 10);
	assert_int_equal(fgt_spool_look(guest, KIT_NOW_NS), 0);
	assert_int_equal(found_numbers, 21);
	assert_int_equal(fgt_spool_remove(guest, &first), 0);
	assert_int_equal(fgt_spool_hold(spool, &first, &fd), -ENOENT);
	assert_int_equal(fgt_spool_look(spool, KIT_NOW_NS), 0);
	assert_int_equal(kit_count(spool), 1);
	assert_int_equal(kit_dropped[FGT_SPOOL_TAKEN], 1);
	fgt_spool_close(guest);
	fgt_spool_close(spool);
}

static void guest_drops_nothing(void **state)
{
	struct fgt_spool_options options = kit_options();
	struct fgt_spool *spool = kit_open(), *guest;
	const struct fgt_spool_id id = kit_add_number(spool, 1, 10);
	const struct kit_payload payload = { 2, 10 };
	struct fgt_spool_id unused;
	char path[160];

	(void)state;
	kit_add_number(spool, 3, 10);
	kit_path_of(&id, path);
	assert_int_equal(truncate(path, 50), 0);
	options.max_entries = 1;
	assert_int_equal(fgt_spool_open_as_guest(&options, &guest, NULL), 0);
	assert_int_equal(fgt_spool_look(guest, KIT_NOW_NS + 100 * KIT_DAY_NS),
			 0);
	assert_int_equal(kit_add(guest, &payload, KIT_NOW_NS, &unused),
			 -ENOSPC);
	assert_int_equal(kit_count_files(&kit_disk, ".spool", false), 2);
	assert_int_equal(kit_count_files(&kit_disk, ".spool", true), 0);
	fgt_spool_close(guest);
	fgt_spool_close(spool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sum_is_that_of_the_rfc),
		KIT_TEST(next_process_finds_what_was_accepted),
		KIT_TEST(entry_that_was_answered_is_gone),
		KIT_TEST(files_are_readable_by_their_owner_only),
		KIT_TEST(clock_that_is_set_back_keeps_the_order),
		KIT_TEST(file_body_is_copied_whole),
		KIT_TEST(full_spool_drops_the_oldest),
		KIT_TEST(spool_holds_so_many_entries),
		KIT_TEST(entry_that_is_sent_is_not_dropped),
		KIT_TEST(entry_too_large_is_refused),
		KIT_TEST(old_entries_go),
		KIT_TEST(entry_of_a_guest_is_found),
		KIT_TEST(entry_that_a_guest_removes_is_gone),
		KIT_TEST(guest_drops_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
