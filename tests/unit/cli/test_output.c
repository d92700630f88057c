/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files appear whole or not at all. Runs in one thread, in a folder that it
 * creates below $TMPDIR.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "agent/cli/output/output.h"

static char folder[256];

static int make_folder(void **state)
{
	const char *base = getenv("TMPDIR");

	(void)state;
	snprintf(folder, sizeof(folder), "%s/fgt-output-XXXXXX",
		 base ? base : "/tmp");
	return mkdtemp(folder) ? chdir(folder) : -errno;
}

static int count_files(void)
{
	DIR *dir = opendir(folder);
	int count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

static int remove_folder(void **state)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	(void)state;
	while ((entry = readdir(dir)))
		(void)unlink(entry->d_name);
	closedir(dir);
	return rmdir(folder);
}

static int write_to(const char *path, bool is_gzip, const char *text,
		    int encode_error, struct fgt_why *why)
{
	FGT_AUTO(fgt_output_free) struct fgt_output *output = NULL;
	uint64_t bytes;
	int r = fgt_output_open(path, is_gzip, &output, why);

	if (r < 0)
		return r;
	r = fgt_sink_write(fgt_output_sink(output), text, strlen(text));
	if (r == 0)
		r = encode_error;
	return fgt_output_commit(output, r, &bytes, why);
}

static void assert_file(const char *path, const char *text)
{
	char content[256] = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_true(read(fd, content, sizeof(content) - 1) >= 0);
	close(fd);
	assert_string_equal(content, text);
}

static void file_is_private_and_replaces_the_old_one(void **state)
{
	struct stat status;

	(void)state;
	assert_int_equal(write_to("a", false, "old", 0, NULL), 0);
	assert_int_equal(chmod("a", 0644), 0);
	assert_int_equal(write_to("a", false, "new", 0, NULL), 0);
	assert_file("a", "new");
	assert_int_equal(stat("a", &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_int_equal(count_files(), 1);
}

static void failed_encoding_leaves_the_old_file(void **state)
{
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(write_to("a", false, "old", 0, NULL), 0);
	assert_int_equal(write_to("a", false, "half", -ENODATA, &why),
			 -ENODATA);
	assert_file("a", "old");
	assert_int_equal(count_files(), 1);
	assert_string_equal(why.text, "");
}

static void file_without_a_commit_never_was(void **state)
{
	struct fgt_output *output = NULL;

	(void)state;
	assert_int_equal(fgt_output_open("a", false, &output, NULL), 0);
	fgt_sink_write(fgt_output_sink(output), "x", 1);
	fgt_output_free(output);
	assert_int_equal(count_files(), 0);
}

static void full_device_is_reported(void **state)
{
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(write_to("/dev/full", false, "x", 0, &why), -ENOSPC);
	assert_non_null(strstr(why.text, "no space left"));
}

static void device_is_written_not_replaced(void **state)
{
	struct stat status;

	(void)state;
	assert_int_equal(write_to("/dev/null", false, "x", 0, NULL), 0);
	assert_int_equal(stat("/dev/null", &status), 0);
	assert_true(S_ISCHR(status.st_mode));
}

static void own_link_is_followed(void **state)
{
	struct stat status;

	(void)state;
	assert_int_equal(write_to("real", false, "old", 0, NULL), 0);
	assert_int_equal(symlink("real", "link"), 0);
	assert_int_equal(write_to("link", false, "new", 0, NULL), 0);
	assert_file("real", "new");
	assert_int_equal(lstat("link", &status), 0);
	assert_true(S_ISLNK(status.st_mode));
}

static void foreign_link_is_not_followed(void **state)
{
	struct fgt_why why = { "" };

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(write_to("real", false, "old", 0, NULL), 0);
	assert_int_equal(symlink("real", "link"), 0);
	assert_int_equal(lchown("link", 65534, 65534), 0);
	assert_int_equal(write_to("link", false, "new", 0, &why), -ELOOP);
	assert_non_null(strstr(why.text, "another user"));
	assert_file("real", "old");
}

static void impossible_place_is_reported(void **state)
{
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(write_to(".", false, "x", 0, &why), -EISDIR);
	assert_non_null(strstr(why.text, "add a file name"));
	assert_int_equal(write_to("sub/", false, "x", 0, &why), -EISDIR);
	assert_int_equal(write_to("none/x", false, "x", 0, &why), -ENOENT);
	assert_non_null(strstr(why.text, "does not exist"));
	assert_int_equal(write_to("/proc/x", false, "x", 0, &why), -ENOENT);
	assert_int_equal(count_files(), 0);
}

static void check_leaves_no_trace(void **state)
{
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(fgt_output_check("a", NULL, NULL), 0);
	assert_int_equal(fgt_output_check("-", NULL, NULL), 0);
	assert_int_equal(fgt_output_check("/dev/full", NULL, NULL), 0);
	assert_int_equal(fgt_output_check(".", NULL, NULL), -EISDIR);
	assert_int_equal(fgt_output_check("none/a", NULL, NULL), -ENOENT);
	assert_int_equal(fgt_output_check(NULL, "", NULL), 0);
	assert_int_equal(fgt_output_check(NULL, ".", NULL), 0);
	assert_int_equal(fgt_output_check(NULL, "none/", &why), -ENOENT);
	assert_string_equal(why.text,
			    "cannot write none/: the directory does not "
			    "exist; create it or choose another with "
			    "-o");
	assert_int_equal(count_files(), 0);
	assert_int_equal(write_to("a", false, "old", 0, NULL), 0);
	assert_int_equal(fgt_output_check("a", NULL, NULL), 0);
	assert_file("a", "old");
	assert_int_equal(count_files(), 1);
}

static void gzip_is_complete(void **state)
{
	char text[64] = { 0 };
	gzFile file;

	(void)state;
	assert_int_equal(write_to("a.gz", true, "hello", 0, NULL), 0);
	file = gzopen("a.gz", "r");
	assert_int_equal(gzread(file, text, sizeof(text)), 5);
	assert_int_equal(gzclose(file), Z_OK);
	assert_string_equal(text, "hello");
}

static void much_passes_through_the_buffer(void **state)
{
	FGT_AUTO(fgt_output_free) struct fgt_output *output = NULL;
	char block[1000];
	struct stat status;
	uint64_t bytes = 0;

	(void)state;
	memset(block, 'x', sizeof(block));
	assert_int_equal(fgt_output_open("a", false, &output, NULL), 0);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(fgt_sink_write(fgt_output_sink(output), block,
						sizeof(block)),
				 0);
	assert_int_equal(fgt_output_commit(output, 0, &bytes, NULL), 0);
	assert_int_equal(bytes, 1000000);
	assert_int_equal(stat("a", &status), 0);
	assert_int_equal(status.st_size, 1000000);
}

static void format_follows_the_file_name(void **state)
{
	struct fgt_output_choice choice;
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(
		fgt_output_choose("a.folded.gz", NULL, false, &choice, NULL),
		0);
	assert_int_equal(choice.format, FGT_KIND_FOLDED);
	assert_true(choice.is_gzip);
	assert_int_equal(
		fgt_output_choose("a.out", "sentry", false, &choice, NULL), 0);
	assert_int_equal(choice.format, FGT_KIND_SENTRY);
	assert_false(choice.is_gzip);
	assert_int_equal(fgt_output_choose(NULL, NULL, true, &choice, NULL), 0);
	assert_int_equal(choice.format, FGT_KIND_CHROME);
	assert_int_equal(fgt_output_choose("-", NULL, false, &choice, NULL), 0);
	assert_int_equal(choice.format, FGT_KIND_FGT);
	/* A format that compresses by itself is not compressed twice. */
	assert_int_equal(
		fgt_output_choose("a.gz", "pprof", false, &choice, NULL), 0);
	assert_int_equal(choice.format, FGT_KIND_PPROF);
	assert_false(choice.is_gzip);
	assert_int_equal(fgt_output_choose("a.xyz", NULL, false, &choice, &why),
			 -EINVAL);
	assert_int_equal(
		fgt_output_choose("a.x", "chrom", false, &choice, &why),
		-EINVAL);
	assert_int_equal(fgt_output_choose("a.gz", "fgt", false, &choice, &why),
			 -EINVAL);
}

static enum fgt_format_kind misnamed(const char *path, const char *format)
{
	struct fgt_output_choice choice;

	assert_int_equal(fgt_output_choose(path, format, false, &choice, NULL),
			 0);
	return fgt_output_misnamed(&choice);
}

static void name_that_contradicts_the_format_is_found(void **state)
{
	(void)state;
	assert_int_equal(misnamed("a.trace.json", "folded"), FGT_KIND_CHROME);
	assert_int_equal(misnamed("a.folded.gz", "chrome"), FGT_KIND_FOLDED);
	assert_int_equal(misnamed("a.envelope", "sentry-chunk"),
			 FGT_KIND_SENTRY);
	assert_int_equal(misnamed("a.pb.gz", "folded"), FGT_KIND_PPROF);
	assert_int_equal(misnamed("a.FOLDED", "folded"), FGT_KIND_COUNT);
	assert_int_equal(misnamed("a.folded.gz", NULL), FGT_KIND_COUNT);
	assert_int_equal(misnamed("a.txt", "folded"), FGT_KIND_COUNT);
	assert_int_equal(misnamed("-", "folded"), FGT_KIND_COUNT);
	assert_int_equal(misnamed("sub/", "folded"), FGT_KIND_COUNT);
	assert_int_equal(misnamed(NULL, "folded"), FGT_KIND_COUNT);
}

static void directory_gets_the_automatic_name(void **state)
{
	struct fgt_output_choice choice;
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(fgt_output_choose("sub/", NULL, false, &choice, NULL),
			 0);
	assert_null(choice.path);
	assert_string_equal(choice.directory, "sub/");
	assert_int_equal(choice.format, FGT_KIND_CHROME);
	assert_int_equal(fgt_output_choose(".", "fgt", true, &choice, NULL), 0);
	assert_null(choice.path);
	assert_string_equal(choice.directory, ".");
	assert_int_equal(choice.format, FGT_KIND_FGT);
	assert_int_equal(fgt_output_choose("", NULL, true, &choice, &why),
			 -EINVAL);
}

static void binary_does_not_go_to_a_terminal(void **state)
{
	struct fgt_output_choice choice;
	struct fgt_why why = { "" };

	(void)state;
	assert_int_equal(fgt_output_choose("-", NULL, true, &choice, &why),
			 -EINVAL);
	assert_non_null(strstr(why.text, "terminal"));
	assert_int_equal(fgt_output_choose("-", "pprof", true, &choice, &why),
			 -EINVAL);
	assert_non_null(strstr(why.text, "pprof is binary"));
	assert_int_equal(fgt_output_choose("-", "folded", true, &choice, &why),
			 0);
}

/* Fault Z5. */
static void hostile_name_makes_a_harmless_file_name(void **state)
{
	uint64_t ticks[] = { 1 };
	struct fgt_anchor anchors[] = { { .mono_ns = 1,
					  .wall_ns = 1763200800512000000 } };
	struct fgt_ring_slice slice = { .process = { .pid = 7,
						     .name = "../$(x) %n\n" },
					.anchors = anchors,
					.anchor_count = 1,
					.tick_ns = ticks,
					.tick_count = 1 };
	struct fgt_output_choice choice = { .directory = "",
					    .format = FGT_KIND_CHROME };
	char name[128];

	(void)state;
	setenv("TZ", "UTC", 1);
	fgt_output_default_name(&slice, &choice, name, sizeof(name));
	assert_string_equal(name, "_.___x___n_-7-20251115-100000-512.trace."
				  "json");
	choice.directory = "a";
	fgt_output_default_name(&slice, &choice, name, sizeof(name));
	assert_string_equal(name, "a/_.___x___n_-7-20251115-100000-512.trace."
				  "json");
	choice.directory = "a/";
	fgt_output_default_name(&slice, &choice, name, sizeof(name));
	assert_string_equal(name, "a/_.___x___n_-7-20251115-100000-512.trace."
				  "json");
}

#define TEST(name)                                                             \
	cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(file_is_private_and_replaces_the_old_one),
		TEST(failed_encoding_leaves_the_old_file),
		TEST(file_without_a_commit_never_was),
		TEST(full_device_is_reported),
		TEST(device_is_written_not_replaced),
		TEST(own_link_is_followed),
		TEST(foreign_link_is_not_followed),
		TEST(impossible_place_is_reported),
		TEST(check_leaves_no_trace),
		TEST(gzip_is_complete),
		TEST(much_passes_through_the_buffer),
		TEST(format_follows_the_file_name),
		TEST(name_that_contradicts_the_format_is_found),
		TEST(directory_gets_the_automatic_name),
		TEST(binary_does_not_go_to_a_terminal),
		TEST(hostile_name_makes_a_harmless_file_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
