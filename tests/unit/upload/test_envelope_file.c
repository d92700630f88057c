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

#include "upload/deliver/envelope_file.h"

#define WALL_NS 1767225600123456789ull /* 2026-01-01T00:00:00.123Z */
#define STAMP	"-20260101T000000.123Z"

static char directory[64];

static int set_up(void **state)
{
	(void)state;
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

static int write_half(const void *context, const struct fgt_sink *sink)
{
	int r = fgt_sink_write(sink, "hel", 3);

	return r ? r : *(const int *)context;
}

static int put(const char *name)
{
	const struct fgt_envelope envelope = { write_hello, NULL };
	struct fgt_why why = { "" };
	size_t bytes = 0;
	int r = fgt_envelope_file_write(-1, directory, name, WALL_NS, &envelope,
					&bytes, &why);

	if (r == 0)
		assert_int_equal(bytes, 6);
	else
		assert_true(why.text[0]);
	return r;
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
	assert_int_equal(put("GET /cart"), 0);
	assert_is_there("GET_cart" STAMP "-2.envelope");
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
	size_t bytes;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct fgt_envelope envelope = { write_half, &errors[i] };

		assert_int_equal(fgt_envelope_file_write(-1, directory, "x",
							 WALL_NS, &envelope,
							 &bytes, &why),
				 errors[i]);
	}
	assert_int_equal(count_files(), 0);
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
	struct fgt_why why = { "" };
	size_t bytes;

	(void)state;
	assert_int_equal(fgt_envelope_file_write(-1, "/nonexistent/x", "x", 0,
						 &envelope, &bytes, &why),
			 -ENOENT);
	assert_non_null(strstr(why.text, "/nonexistent/x"));
	assert_int_equal(fgt_envelope_file_write(-1, "/dev/null", "x", 0,
						 &envelope, &bytes, &why),
			 -ENOTDIR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(file_is_named_after_name_and_time),
		TEST(names_stay_in_the_directory),
		TEST(a_link_in_the_way_is_not_followed),
		TEST(write_that_fails_leaves_no_file),
		TEST(temporary_file_of_a_killed_process_is_replaced),
		TEST(unusable_directories_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
