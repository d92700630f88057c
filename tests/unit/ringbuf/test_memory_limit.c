/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of memory groups, of both versions, in a folder that stands for the
 * kernel's files.
 */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ringbuf/base/memory_limit.h"

static char directory[PATH_MAX];

static const char *path_of(const char *name)
{
	static char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static void write_file(const char *name, const char *text)
{
	char *path = strdup(path_of(name));
	FILE *file;

	assert_non_null(path);
	for (char *at = path + strlen(directory) + 1;
	     (at = strchr(at, '/')) != NULL; *at++ = '/') {
		*at = '\0';
		(void)mkdir(path, 0700);
	}
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	free(path);
}

static uint64_t limit_of(const char *groups)
{
	char path[PATH_MAX + 64];

	write_file("groups", groups);
	snprintf(path, sizeof(path), "%s", path_of("groups"));
	return fgt_memory_limit_read(path, directory);
}

static int begin(void **state)
{
	(void)state;
	strcpy(directory, "/tmp/fgt-memory-limit-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int end(void **state)
{
	char command[PATH_MAX + 16];

	(void)state;
	snprintf(command, sizeof(command), "rm -r '%s'", directory);
	return system(command);
}

static void version_2_has_the_least_of_the_path(void **state)
{
	(void)state;
	write_file("a/b/memory.max", "max\n");
	assert_int_equal(limit_of("0::/a/b\n"), UINT64_MAX);
	write_file("a/memory.max", "25165824\n");
	assert_int_equal(limit_of("0::/a/b\n"), 25165824);
	write_file("a/b/memory.max", "1048576\n");
	assert_int_equal(limit_of("0::/a/b\n"), 1048576);
	assert_int_equal(limit_of("0::/\n"), UINT64_MAX);
}

static void version_1_has_the_least_of_the_path(void **state)
{
	static const char *const groups = "9:name=systemd:/x\n"
					  "4:cpu,memory:/a/b\n0::/\n";

	(void)state;
	write_file("memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(limit_of(groups), 9223372036854771712u);
	write_file("memory/a/memory.limit_in_bytes", "25165824\n");
	assert_int_equal(limit_of(groups), 25165824);
	assert_int_equal(limit_of("4:cpuset:/a\n"), UINT64_MAX);
}

static void path_that_only_the_host_sees_means_the_top(void **state)
{
	(void)state;
	write_file("memory.max", "25165824\n");
	assert_int_equal(limit_of("0::/docker/0123\n"), 25165824);
}

static void malformed_groups_are_no_limit(void **state)
{
	(void)state;
	assert_int_equal(limit_of(""), UINT64_MAX);
	assert_int_equal(limit_of("::\n\n4:memory\n0::\n:::::"), UINT64_MAX);
	assert_int_equal(fgt_memory_limit_read(path_of("none"), directory),
			 UINT64_MAX);
	assert_in_range(fgt_memory_limit(), 1, UINT64_MAX - 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(version_2_has_the_least_of_the_path),
		TEST(version_1_has_the_least_of_the_path),
		TEST(path_that_only_the_host_sees_means_the_top),
		TEST(malformed_groups_are_no_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
