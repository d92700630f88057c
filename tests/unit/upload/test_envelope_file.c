/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envelopes in a directory: names stay in the directory, files are whole or
 * absent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "upload/deliver/directory/envelope_file.h"

#define WALL_NS 1767225600123456789ull /* 2026-01-01T00:00:00.123Z */
#define STAMP	"-20260101T000000.123Z"

static char directory[64];

static unsigned int syncs;
static int sync_error;

/* Replaces that of libc. */
int fsync(int fd)
{
	(void)fd;
	syncs++;
	errno = sync_error;
	return sync_error ? -1 : 0;
}

static int set_up(void **state)
{
	(void)state;
	syncs = 0;
	sync_error = 0;
	strcpy(directory, "/tmp/fgt-envelope-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
	char path[400];
	struct dirent *entry;
	DIR *open_directory = opendir(directory);

	(void)state;
	assert_non_null(open_directory);
	while ((entry = readdir(open_directory))) {
		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		(void)unlink(path);
	}
	closedir(open_directory);
	return rmdir(directory);
}

static unsigned int count_files(void)
{
	struct dirent *entry;
	DIR *open_directory = opendir(directory);
	unsigned int count = 0;

	assert_non_null(open_directory);
	while ((entry = readdir(open_directory)))
		count += strcmp(entry->d_name, ".") &&
			 strcmp(entry->d_name, "..");
	closedir(open_directory);
	return count;
}

static int write_hello(const void *context, const struct fgt_sink *sink)
{
	(void)context;
	return fgt_sink_write(sink, "hello\n", 6);
}

static int write_world(const void *context, const struct fgt_sink *sink)
{
	(void)context;
	return fgt_sink_write(sink, "world\n", 6);
}

static int write_half(const void *context, const struct fgt_sink *sink)
{
	int r = fgt_sink_write(sink, "hel", 3);

	return r ? r : *(const int *)context;
}

static struct fgt_envelope_place place_of(const char *path, const char *name)
{
	return (struct fgt_envelope_place){ .root_fd = -1,
					    .directory = path,
					    .name = name,
					    .ending = ".envelope",
					    .wall_ns = WALL_NS };
}

static int put_bytes(const char *name,
		     int (*write)(const void *, const struct fgt_sink *))
{
	const struct fgt_envelope envelope = { write, NULL };
	struct fgt_why why = { "" };
	struct fgt_envelope_written written = { .bytes = 0 };
	const struct fgt_envelope_place place = place_of(directory, name);
	int r = fgt_envelope_file_write(&place, &envelope, &written, &why);

	if (r == 0)
		assert_int_equal(written.bytes, 6);
	else
		assert_true(why.text[0]);
	return r;
}

static int put(const char *name)
{
	return put_bytes(name, write_hello);
}

static void assert_is_there(const char *name)
{
	char path[400];
	struct stat status;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (lstat(path, &status) < 0)
		fail_msg("there is no %s", path);
	assert_true(S_ISREG(status.st_mode));
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_int_equal(status.st_size, 6);
}

static void file_is_named_after_name_and_time(void **state)
{
	(void)state;
	assert_int_equal(put("GET /cart"), 0);
	assert_is_there("GET_cart" STAMP ".envelope");
	assert_int_equal(put_bytes("GET /cart", write_world), 0);
	assert_is_there("GET_cart" STAMP "-2.envelope");
	assert_int_equal(count_files(), 2);
}

/* A delivery whose process was killed after the rename is tried again. */
static void the_same_file_is_not_written_twice(void **state)
{
	(void)state;
	assert_int_equal(put("x"), 0);
	assert_int_equal(put("x"), 0);
	assert_int_equal(put_bytes("x", write_world), 0);
	assert_int_equal(put_bytes("x", write_world), 0);
	assert_is_there("x" STAMP "-2.envelope");
	assert_int_equal(count_files(), 2);
}

/* Fault Z5. */
static void names_stay_in_the_directory(void **state)
{
	char long_name[201];

	(void)state;
	assert_int_equal(put("../../etc/passwd"), 0);
	assert_is_there("_._.._etc_passwd" STAMP ".envelope");
	assert_int_equal(put(""), 0);
	assert_is_there("_" STAMP ".envelope");
	assert_int_equal(put("a\nb\xc3\xa4"), 0);
	assert_is_there("a_b_" STAMP ".envelope");
	memset(long_name, 'x', 200);
	long_name[200] = '\0';
	assert_int_equal(put(long_name), 0);
	long_name[FGT_ENVELOPE_NAME_MAX] = '\0';
	strcat(long_name, STAMP ".envelope");
	assert_is_there(long_name);
	assert_int_equal(count_files(), 4);
}

static void a_link_in_the_way_is_not_followed(void **state)
{
	char path[400];

	(void)state;
	snprintf(path, sizeof(path), "%s/x" STAMP ".envelope", directory);
	assert_int_equal(symlink("/dev/null", path), 0);
	assert_int_equal(put("x"), 0);
	assert_is_there("x" STAMP "-2.envelope");
}

static void write_that_fails_leaves_no_file(void **state)
{
	const int errors[] = { -ENODATA, -ENOMEM };
	struct fgt_why why;
	struct fgt_envelope_written written;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct fgt_envelope envelope = { write_half, &errors[i] };

		const struct fgt_envelope_place place =
			place_of(directory, "x");

		assert_int_equal(fgt_envelope_file_write(&place, &envelope,
							 &written, &why),
				 errors[i]);
	}
	assert_int_equal(count_files(), 0);
}

/* The file and its name; a disk that cannot keep it has none of it. */
static void a_file_is_kept_by_the_disk(void **state)
{
	(void)state;
	assert_int_equal(put("kept"), 0);
	assert_int_equal(syncs, 2);
	sync_error = EIO;
	assert_int_equal(put("lost"), -EIO);
	assert_int_equal(count_files(), 1);
	sync_error = EINVAL; /* a file system that does not know it */
	assert_int_equal(put("elsewhere"), 0);
}

static void temporary_file_of_a_killed_process_is_replaced(void **state)
{
	char path[400];
	FILE *file;

	(void)state;
	snprintf(path, sizeof(path), "%s/.x" STAMP ".%d.tmp", directory,
		 (int)getpid());
	file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	assert_int_equal(put("x"), 0);
	assert_is_there("x" STAMP ".envelope");
	assert_int_equal(count_files(), 1);
}

static void unusable_directories_are_named(void **state)
{
	const struct fgt_envelope envelope = { write_hello, NULL };
	const struct fgt_envelope_place absent =
		place_of("/nonexistent/x", "x");
	const struct fgt_envelope_place device = place_of("/dev/null", "x");
	struct fgt_why why = { "" };
	struct fgt_envelope_written written;

	(void)state;
	assert_int_equal(
		fgt_envelope_file_write(&absent, &envelope, &written, &why),
		-ENOENT);
	assert_non_null(strstr(why.text, "/nonexistent/x"));
	assert_int_equal(
		fgt_envelope_file_write(&device, &envelope, &written, &why),
		-ENOTDIR);
}

/* The file of the second in which the last digit is n. */
static void put_at(struct fgt_envelope_place *place, unsigned int n)
{
	const struct fgt_envelope envelope = { write_hello, NULL };
	struct fgt_envelope_written written;

	place->wall_ns = WALL_NS + n * UINT64_C(1000000000);
	assert_int_equal(
		fgt_envelope_file_write(place, &envelope, &written, NULL), 0);
}

static void oldest_files_go_beyond_a_cap(void **state)
{
	struct fgt_envelope_place place = place_of(directory, "x");
	char path[400];

	(void)state;
	put_at(&place, 1);
	put_at(&place, 0); /* older, though it was written later */
	place.max_files = 2;
	put_at(&place, 2);
	assert_int_equal(count_files(), 2);
	assert_is_there("x-20260101T000001.123Z.envelope");
	assert_is_there("x-20260101T000002.123Z.envelope");
	place.max_files = 0;
	place.max_bytes = 12; /* two files */
	put_at(&place, 3);
	assert_int_equal(count_files(), 2);
	assert_is_there("x-20260101T000003.123Z.envelope");
	place.max_bytes = 1; /* less than the newest one, which stays */
	put_at(&place, 4);
	assert_int_equal(count_files(), 1);
	snprintf(path, sizeof(path), "%s/x-20260101T000004.123Z.envelope",
		 directory);
	assert_int_equal(access(path, F_OK), 0);
}

static void files_of_another_pattern_stay(void **state)
{
	static const char *const names[] = {
		"notes.envelope",
		"x-20260101T000000.123Z.trace.json",
		"x-20260101T000000.12xZ.envelope",
		"-2.envelope",
		"20260101T000000.123Z.envelope",
	};
	struct fgt_envelope_place place = place_of(directory, "x");
	char path[400];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		fclose(fopen(path, "w"));
	}
	place.max_files = 1;
	put_at(&place, 1);
	put_at(&place, 1); /* gets a number */
	put_at(&place, 2);
	assert_int_equal(count_files(), 6);
	assert_is_there("x-20260101T000002.123Z.envelope");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(file_is_named_after_name_and_time),
		TEST(the_same_file_is_not_written_twice),
		TEST(names_stay_in_the_directory),
		TEST(a_link_in_the_way_is_not_followed),
		TEST(write_that_fails_leaves_no_file),
		TEST(a_file_is_kept_by_the_disk),
		TEST(temporary_file_of_a_killed_process_is_replaced),
		TEST(unusable_directories_are_named),
		TEST(oldest_files_go_beyond_a_cap),
		TEST(files_of_another_pattern_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
