/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool on disks that fail, with damaged files, in directories that another
 * user may change.
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

#include "spool_kit.h"
#include "upload/deliver/spool/spool_bad.h"

/* ---- Disks that fail ---------------------------------------------------- */

static void full_disk_takes_the_newest(void **state)
{
	struct fgt_spool *spool = kit_open();

	(void)state;
	kit_disk.capacity = 65536;
	for (uint64_t i = 1; i <= 100; i++) {
		struct fgt_spool_id id =
			kit_add_number(spool, i, 900 * (i % 17 + 1));

		assert_int_equal(kit_read_number(spool, &id), i);
	}
	assert_true(kit_dropped[FGT_SPOOL_DISK_FULL] > 0);
	assert_int_equal(kit_dropped[FGT_SPOOL_DISK_FULL] + kit_count(spool),
			 100);
	assert_int_equal(kit_count_files(&kit_disk, ".tmp", false), 0);
	fgt_spool_close(spool);
}

static void disk_without_room_refuses(void **state)
{
	const struct kit_payload payload = { 1, 10000 };
	struct fgt_spool *spool = kit_open();
	struct fgt_spool_id id;

	(void)state;
	kit_disk.capacity = 5000;
	assert_int_equal(kit_add(spool, &payload, KIT_NOW_NS, &id), -ENOSPC);
	assert_int_equal(kit_count(spool), 0);
	assert_int_equal(kit_count_bytes(&kit_disk), 0);
	kit_disk.capacity = 0;
	assert_int_equal(kit_add(spool, &payload, KIT_NOW_NS, &id), 0);
	fgt_spool_close(spool);
}

/* Every call in turn fails once: the entry is accepted, or not there, and what
 * was there before is. */
static void call_that_fails_loses_nothing(void **state)
{
	static const int errors[] = { -EIO, -EROFS, -EDQUOT, -ENOSPC };
	const struct kit_payload payload = { 2, 2000 };
	struct fgt_spool *spool = kit_open();
	struct fgt_spool_id first = kit_add_number(spool, 1, 10), id;
	bool has_failed = true;

	(void)state;
	for (size_t i = 0; i < 4 * 12; i++) {
		int r;

		kit_disk.error = errors[i % 4];
		kit_disk.fails_at = kit_disk.calls + 1 + i / 4;
		r = kit_add(spool, &payload, KIT_NOW_NS, &id);
		has_failed = kit_disk.calls >= kit_disk.fails_at;
		kit_disk.fails_at = 0;
		if (r == 0)
			assert_int_equal(kit_read_number(spool, &id), 2);
		if (r == 0)
			assert_int_equal(fgt_spool_remove(spool, &id), 0);
		if (!fgt_spool_index_find(
			    (void *)(uintptr_t)fgt_spool_index(spool), &first))
			first = kit_add_number(spool, 1, 10); /* made room */
		assert_int_equal(kit_read_number(spool, &first), 1);
		assert_int_equal(kit_count_files(&kit_disk, ".spool", false),
				 1);
	}
	assert_false(has_failed); /* the last attempts went through */
	fgt_spool_close(spool);
}

/* Its payload fails when all of it is there but the end. */
static int write_and_fail(void *context, const struct fgt_sink *sink)
{
	static const uint8_t bytes[3500];
	int r = fgt_sink_write(sink, bytes, sizeof(bytes));

	return r < 0 ? r : *(int *)context;
}

static void entry_that_cannot_be_written_costs_no_other(void **state)
{
	struct fgt_spool_options options = kit_options();
	int error = -EIO;
	const struct fgt_spool_payload payload = {
		.head = "head",
		.head_len = 4,
		.write = write_and_fail,
		.context = &error,
	};
	struct fgt_spool *spool;
	struct fgt_spool_id id;

	(void)state;
	options.max_bytes = 4000;
	spool = kit_open_with(&options, KIT_NOW_NS);
	kit_add_number(spool, 1, 3000);
	assert_int_equal(fgt_spool_add(spool, &payload, KIT_NOW_NS, &id), -EIO);
	assert_int_equal(kit_count(spool), 1);
	error = 0;
	assert_int_equal(fgt_spool_add(spool, &payload, KIT_NOW_NS, &id), 0);
	assert_int_equal(kit_count(spool), 1);
	assert_int_equal(kit_dropped[FGT_SPOOL_FULL], 1);
	fgt_spool_close(spool);
}

static void note_found(void *context, const struct fgt_spool_entry *entry,
		       const uint8_t *head, size_t head_len)
{
	(void)entry;
	(void)head;
	(void)head_len;
	++*(unsigned int *)context;
}

/* It was answered: it must not be sent again and again. */
static void entry_that_cannot_be_removed_is_not_found_again(void **state)
{
	struct fgt_spool_options options = kit_options();
	unsigned int found = 0;
	struct fgt_spool *spool;
	struct fgt_spool_id id;

	(void)state;
	options.found = note_found;
	options.context = &found;
	spool = kit_open_with(&options, KIT_NOW_NS);
	id = kit_add_number(spool, 1, 10);
	kit_disk.error = -EPERM;
	kit_disk.fails_at = kit_disk.calls + 1;
	assert_int_equal(fgt_spool_remove(spool, &id), -EPERM);
	kit_disk.fails_at = 0;
	kit_add_number(spool, 2, 10); /* the directory changes */
	assert_int_equal(fgt_spool_look(spool, KIT_NOW_NS), 0);
	assert_int_equal(found, 0);
	assert_int_equal(kit_count(spool), 1);
	fgt_spool_close(spool);
}

/* kill -9 before each system call. */
static void process_that_ends_at_any_call_loses_nothing(void **state)
{
	const struct kit_payload payload = { 2, 2000 };
	uint64_t call = 0;
	int r = -EIO;

	(void)state;
	while (r < 0) {
		struct fgt_spool *spool = kit_open();
		struct fgt_spool_id id;

		if (kit_count(spool) == 0)
			kit_add_number(spool, 1, 10);
		kit_disk.dies_at = kit_disk.calls + 1 + call++;
		r = kit_add(spool, &payload, KIT_NOW_NS, &id);
		fgt_spool_close(spool);
		kit_disk_restart(&kit_disk);

		spool = kit_open();
		assert_int_equal(kit_count_files(&kit_disk, ".tmp", false), 0);
		assert_int_equal(kit_dropped[FGT_SPOOL_DAMAGED], 0);
		id = kit_id_at(spool, 0);
		assert_int_equal(kit_read_number(spool, &id), 1);
		assert_true(r < 0 || kit_count(spool) == 2);
		if (kit_count(spool) == 2) {
			id = kit_id_at(spool, 1);
			assert_int_equal(kit_read_number(spool, &id), 2);
			assert_int_equal(fgt_spool_remove(spool, &id), 0);
		}
		fgt_spool_close(spool);
	}
	assert_true(call > 6);
}

/* ---- Damaged files ------------------------------------------------------ */

/* Fault D2. */
static void entry_cut_at_any_byte_is_put_aside(void **state)
{
	struct fgt_spool *spool = kit_open();
	struct fgt_spool_id id = kit_add_number(spool, 1, 40);
	size_t len = (size_t)fgt_spool_index(spool)->bytes;
	char path[160];

	(void)state;
	fgt_spool_close(spool);
	for (size_t i = 0; i < len; i++) {
		kit_path_of(&id, path);
		assert_int_equal(truncate(path, (off_t)(len - 1 - i)), 0);
		kit_disk_restart(&kit_disk);
		spool = kit_open();
		assert_int_equal(kit_count(spool), 0);
		assert_int_equal(kit_dropped[FGT_SPOOL_DAMAGED], i + 1);
		id = kit_add_number(spool, 1, 40);
		fgt_spool_close(spool);
	}
	assert_int_equal(kit_count_files(&kit_disk, ".spool", true),
			 FGT_SPOOL_BAD_MAX);
}

static void entry_with_any_wrong_bit_is_not_read(void **state)
{
	struct fgt_spool *spool = kit_open();
	const struct fgt_spool_id id = kit_add_number(spool, 1, 40);
	size_t len = (size_t)fgt_spool_index(spool)->bytes;
	static uint8_t head[FGT_SPOOL_HEAD_MAX];
	struct fgt_spool_parts parts;
	uint8_t byte, wrong, *body;
	char path[160];
	int fd;

	(void)state;
	kit_path_of(&id, path);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	for (size_t bit = 0; bit < 8 * len; bit++) {
		off_t at = (off_t)(bit / 8);

		assert_int_equal(pread(fd, &byte, 1, at), 1);
		wrong = (uint8_t)(byte ^ 1u << bit % 8);
		assert_int_equal(pwrite(fd, &wrong, 1, at), 1);
		assert_int_equal(fgt_spool_file_read(fd, head, &parts, &body),
				 -EBADMSG);
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	}
	close(fd);
	assert_int_equal(kit_read_number(spool, &id), 1);
	fgt_spool_condemn(spool, &id);
	assert_int_equal(kit_count(spool), 0);
	assert_int_equal(kit_count_files(&kit_disk, ".spool", true), 1);
	fgt_spool_close(spool);
}

static void files_of_other_names_are_left_alone(void **state)
{
	static const char *const names[] = {
		"notes.txt",
		".spool",
		"0000000000000001-00000000000000AB.spool",
		"0000000000000001-00000000000000ab.spool.bak",
		"8000000000000001-00000000000000ab.spool",
		"a.tmp",
	};
	const size_t names_count = sizeof(names) / sizeof(*names);
	char path[160];
	struct fgt_spool *spool;

	(void)state;
	for (size_t i = 0; i < names_count; i++) {
		snprintf(path, sizeof(path), "%s/%s", kit_disk.path, names[i]);
		close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	}
	spool = kit_open();
	assert_int_equal(kit_count(spool), 0);
	fgt_spool_close(spool);
	for (size_t i = 0; i < names_count; i++) {
		snprintf(path, sizeof(path), "%s/%s", kit_disk.path, names[i]);
		assert_int_equal(access(path, F_OK), 0);
		assert_int_equal(unlink(path), 0);
	}
}

/* Another process of the user put links and devices there. */
static void names_that_are_no_files_are_put_aside(void **state)
{
	const struct fgt_spool_id link_id = { 1, 2 }, fifo_id = { 3, 4 };
	char path[160], outside[] = "/tmp/fgt-spool-outside-XXXXXX";
	int fd = mkostemp(outside, O_CLOEXEC);
	struct fgt_spool *spool;
	struct stat status;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "outside", 7), 7);
	kit_path_of(&link_id, path);
	assert_int_equal(symlink(outside, path), 0);
	kit_path_of(&fifo_id, path);
	assert_int_equal(mkfifo(path, 0600), 0);
	spool = kit_open();
	assert_int_equal(kit_count(spool), 0);
	assert_int_equal(kit_dropped[FGT_SPOOL_DAMAGED], 2);
	fgt_spool_close(spool);
	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(status.st_size, 7);
	close(fd);
	unlink(outside);
}

/* ---- Directories -------------------------------------------------------- */

static int try_open(const char *path, struct fgt_why *why)
{
	const struct fgt_spool_options options = { .path = path };
	struct fgt_spool *spool = NULL;
	int r = fgt_spool_open(&options, KIT_NOW_NS, &spool, why);

	fgt_spool_close(spool);
	return r;
}

static void directory_that_others_may_write_is_refused(void **state)
{
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(chmod(kit_disk.path, 01777), 0);
	assert_int_equal(try_open(kit_disk.path, &why), -EACCES);
	assert_non_null(strstr(why.text, "chmod it to 0700"));
	assert_int_equal(chmod(kit_disk.path, 0700), 0);
	assert_int_equal(try_open(kit_disk.path, &why), 0);
}

static void directory_behind_a_link_is_refused(void **state)
{
	struct fgt_why why = { "" };
	char path[80];

	(void)state;
	snprintf(path, sizeof(path), "%s-link", kit_disk.path);
	assert_int_equal(symlink(kit_disk.path, path), 0);
	assert_int_equal(try_open(path, &why), -ENOTDIR);
	assert_non_null(strstr(why.text, "not a link"));
	assert_int_equal(unlink(path), 0);
}

static void missing_directory_is_made(void **state)
{
	struct fgt_why why = { "" };
	struct stat status;
	char path[80];

	(void)state;
	snprintf(path, sizeof(path), "%s/new", kit_disk.path);
	assert_int_equal(try_open(path, &why), 0);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0700);
	snprintf(path, sizeof(path), "%s/new/lock", kit_disk.path);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/no/new", kit_disk.path);
	assert_int_equal(try_open(path, &why), -ENOENT);
	assert_non_null(strstr(why.text, "make the directory above it"));
}

static void second_process_is_refused(void **state)
{
	struct fgt_spool *spool = kit_open();
	pid_t child = fork();
	int status;

	(void)state;
	if (child == 0) {
		struct fgt_why why = { "" };
		char text[60];

		snprintf(text, sizeof(text), "used by process %d:", getppid());
		_exit(try_open(kit_disk.path, &why) == -EBUSY &&
				      strstr(why.text, text)
			      ? 0
			      : 1);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	fgt_spool_close(spool);
	child = fork();
	if (child == 0)
		_exit(-try_open(kit_disk.path, NULL));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(full_disk_takes_the_newest),
		KIT_TEST(disk_without_room_refuses),
		KIT_TEST(call_that_fails_loses_nothing),
		KIT_TEST(entry_that_cannot_be_written_costs_no_other),
		KIT_TEST(entry_that_cannot_be_removed_is_not_found_again),
		KIT_TEST(process_that_ends_at_any_call_loses_nothing),
		KIT_TEST(entry_cut_at_any_byte_is_put_aside),
		KIT_TEST(entry_with_any_wrong_bit_is_not_read),
		KIT_TEST(files_of_other_names_are_left_alone),
		KIT_TEST(names_that_are_no_files_are_put_aside),
		KIT_TEST(directory_that_others_may_write_is_refused),
		KIT_TEST(directory_behind_a_link_is_refused),
		KIT_TEST(missing_directory_is_made),
		KIT_TEST(second_process_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
