/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of agent/symbols/perfmap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/symbols/perfmap.h"

static char root[] = "/tmp/fgt-perfmap-XXXXXX";
static int root_fd = -1;

static void write_map(int32_t pid, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/tmp/perf-%d.map", root, pid);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static struct fgt_perfmap *parse(const char *text)
{
	struct fgt_perfmap *map = NULL;

	write_map(99, text);
	assert_int_equal(fgt_perfmap_refresh(root_fd, 99, getuid(), &map), 0);
	return map;
}

static void addresses_are_found_within_their_entry(void **state)
{
	struct fgt_perfmap *map = parse("1000 20 first\n"
					"0x2000 0x10 second name\n"
					"3000 8 third");

	(void)state;
	assert_string_equal(fgt_perfmap_find(map, 0x1000), "first");
	assert_string_equal(fgt_perfmap_find(map, 0x101f), "first");
	assert_null(fgt_perfmap_find(map, 0x1020));
	assert_null(fgt_perfmap_find(map, 0xfff));
	assert_string_equal(fgt_perfmap_find(map, 0x2008), "second name");
	assert_string_equal(fgt_perfmap_find(map, 0x3007), "third");
	fgt_perfmap_free(map);
}

static void later_entries_win_where_they_overlap(void **state)
{
	struct fgt_perfmap *map = parse("1000 100 old\n1040 20 new\n"
					"2000 20 young\n1ff0 100 younger\n");

	(void)state;
	assert_string_equal(fgt_perfmap_find(map, 0x1000), "old");
	assert_string_equal(fgt_perfmap_find(map, 0x1050), "new");
	assert_string_equal(fgt_perfmap_find(map, 0x2010), "younger");
	fgt_perfmap_free(map);
}

static void bad_lines_are_skipped(void **state)
{
	struct fgt_perfmap *map =
		parse("\nnot hex\n-1 5 x\n10 zz x\n10 5\n10 5 \n 10 5 x\n"
		      "ffffffffffffffff 5 wraps\n11111111111111111 1 long\n"
		      "10 0 empty\n40 8 good\n");

	(void)state;
	assert_string_equal(fgt_perfmap_find(map, 0x44), "good");
	assert_null(fgt_perfmap_find(map, 0x10));
	assert_null(fgt_perfmap_find(map, UINT64_MAX));
	fgt_perfmap_free(map);
}

/* Fault X8. */
static void only_plain_files_of_the_target_are_read(void **state)
{
	struct fgt_perfmap *map = NULL;
	char path[128], other[128];

	(void)state;
	write_map(1, "10 10 jitted\n");
	assert_int_equal(fgt_perfmap_refresh(root_fd, 1, getuid(), &map), 0);
	assert_string_equal(fgt_perfmap_find(map, 0x18), "jitted");
	fgt_perfmap_free(FGT_TAKE(map));
	assert_int_equal(fgt_perfmap_refresh(root_fd, 2, getuid(), &map),
			 -ENOENT);
	snprintf(path, sizeof(path), "%s/tmp/perf-3.map", root);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(fgt_perfmap_refresh(root_fd, 3, getuid(), &map),
			 -EINVAL);
	snprintf(other, sizeof(other), "%s/tmp/perf-1.map", root);
	snprintf(path, sizeof(path), "%s/tmp/perf-4.map", root);
	assert_int_equal(symlink(other, path), 0);
	assert_int_equal(fgt_perfmap_refresh(root_fd, 4, getuid(), &map),
			 -ELOOP);
	snprintf(path, sizeof(path), "%s/tmp/perf-5.map", root);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(fgt_perfmap_refresh(root_fd, 5, getuid(), &map),
			 -EINVAL);
	write_map(6, "");
	snprintf(path, sizeof(path), "%s/tmp/perf-6.map", root);
	assert_int_equal(truncate(path, 100ll << 30), 0);
	assert_int_equal(fgt_perfmap_refresh(root_fd, 6, getuid(), &map),
			 -EFBIG);
}

/* Fault X8. */
static void foreign_files_are_refused(void **state)
{
	struct fgt_perfmap *map = NULL;
	char path[128];

	(void)state;
	if (getuid() != 0)
		skip();
	write_map(7, "10 10 planted\n");
	snprintf(path, sizeof(path), "%s/tmp/perf-7.map", root);
	assert_int_equal(chown(path, 1234, 1234), 0);
	assert_int_equal(fgt_perfmap_refresh(root_fd, 7, 5678, &map), -EPERM);
	assert_int_equal(fgt_perfmap_refresh(root_fd, 7, 1234, &map), 0);
	fgt_perfmap_free(map);
}

static int make_root(void **state)
{
	char path[128];

	(void)state;
	if (!mkdtemp(root))
		return 1;
	snprintf(path, sizeof(path), "%s/tmp", root);
	if (mkdir(path, 0777) < 0)
		return 1;
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root_fd < 0;
}

static int remove_root(void **state)
{
	static const char *const kinds = "1234567";
	char path[128];

	(void)state;
	for (const char *kind = kinds; *kind; kind++) {
		snprintf(path, sizeof(path), "%s/tmp/perf-%c.map", root, *kind);
		if (unlink(path) < 0)
			rmdir(path);
	}
	snprintf(path, sizeof(path), "%s/tmp", root);
	rmdir(path);
	rmdir(root);
	fgt_fd_close(root_fd);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_found_within_their_entry),
		cmocka_unit_test(later_entries_win_where_they_overlap),
		cmocka_unit_test(bad_lines_are_skipped),
		cmocka_unit_test(only_plain_files_of_the_target_are_read),
		cmocka_unit_test(foreign_files_are_refused),
	};

	return cmocka_run_group_tests(tests, make_root, remove_root);
}
