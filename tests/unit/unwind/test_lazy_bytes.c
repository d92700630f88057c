/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of files that are read when they are needed: what is there, what it
 * costs, and what happens when the file is not what it was.
 */
#include "agent/unwind/elf/elf_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/unwind/cfi/cfi_table.h"
#include "tests/unit/unwind/copy_file.h"

#define PAGE	 4096u
#define FILE_LEN (64u * PAGE)
#define OFFSET	 100u
#define LEN	 (FILE_LEN - OFFSET - 50)

static uint8_t expected[FILE_LEN];

static uint8_t byte_at(size_t at)
{
	return (uint8_t)(at * 131 + at / 251);
}

static struct fgt_elf_source make_file(void)
{
	struct fgt_elf_source source = { .len = FILE_LEN };
	FILE *file = tmpfile();

	assert_non_null(file);
	for (size_t i = 0; i < FILE_LEN; i++)
		expected[i] = byte_at(i);
	assert_int_equal(fwrite(expected, 1, FILE_LEN, file), FILE_LEN);
	assert_int_equal(fflush(file), 0);
	source.fd = dup(fileno(file));
	fclose(file);
	return source;
}

static void check(struct fgt_lazy_bytes *lazy, size_t at, size_t len)
{
	assert_memory_equal(fgt_lazy_bytes_get(lazy) + at,
			    expected + OFFSET + at, len);
}

static size_t count_resident(struct fgt_lazy_bytes *lazy)
{
	unsigned char pages[LEN / PAGE + 1];
	size_t count = 0;

	assert_int_equal(mincore(fgt_lazy_bytes_get(lazy), LEN, pages), 0);
	for (size_t i = 0; i < sizeof(pages); i++)
		count += pages[i] & 1;
	return count;
}

static void only_needed_pages_are_read(void **state)
{
	FGT_AUTO(fgt_lazy_bytes_free) struct fgt_lazy_bytes *lazy = NULL;
	struct fgt_elf_source source = make_file();

	(void)state;
	if (sysconf(_SC_PAGESIZE) != PAGE)
		skip();
	assert_int_equal(fgt_lazy_bytes_new(&source, OFFSET, LEN, &lazy), 0);
	assert_int_equal(count_resident(lazy), 0);
	assert_true(fgt_lazy_bytes_need(lazy, 5 * PAGE - 2, 4));
	check(lazy, 5 * PAGE - 2, 4);
	assert_int_equal(count_resident(lazy), 2);
	/* Around what is there already. */
	assert_true(fgt_lazy_bytes_need(lazy, 3 * PAGE, 4 * PAGE));
	check(lazy, 3 * PAGE, 4 * PAGE);
	assert_int_equal(count_resident(lazy), 4);
	/* A need past the end is met as far as the bytes reach. */
	assert_true(fgt_lazy_bytes_need(lazy, LEN - 1, UINT64_MAX));
	assert_true(fgt_lazy_bytes_need(lazy, LEN, 1));
	assert_true(fgt_lazy_bytes_need(lazy, UINT64_MAX, UINT64_MAX));
	check(lazy, LEN - 1, 1);
	assert_int_equal(count_resident(lazy), 5);
	assert_true(fgt_lazy_bytes_need(lazy, 0, LEN));
	check(lazy, 0, LEN);
	close(source.fd);
}

/* A mapping would end the process here. */
static void truncated_file_is_reported(void **state)
{
	FGT_AUTO(fgt_lazy_bytes_free) struct fgt_lazy_bytes *lazy = NULL;
	struct fgt_elf_source source = make_file();

	(void)state;
	assert_int_equal(fgt_lazy_bytes_new(&source, OFFSET, LEN, &lazy), 0);
	assert_true(fgt_lazy_bytes_need(lazy, 0, PAGE));
	assert_int_equal(ftruncate(source.fd, 3 * PAGE), 0);
	assert_false(fgt_lazy_bytes_need(lazy, 8 * PAGE, 1));
	assert_false(fgt_lazy_bytes_need(lazy, 0, LEN));
	/* What was read stays. */
	assert_true(fgt_lazy_bytes_need(lazy, 0, PAGE));
	check(lazy, 0, PAGE);
	close(source.fd);
}

static void other_file_with_that_descriptor_is_refused(void **state)
{
	FGT_AUTO(fgt_lazy_bytes_free) struct fgt_lazy_bytes *lazy = NULL;
	struct fgt_elf_source source = make_file(), other;

	(void)state;
	assert_int_equal(fgt_lazy_bytes_new(&source, OFFSET, LEN, &lazy), 0);
	assert_true(fgt_lazy_bytes_need(lazy, 0, PAGE));
	other = make_file();
	assert_int_equal(dup2(other.fd, source.fd), source.fd);
	assert_false(fgt_lazy_bytes_need(lazy, 8 * PAGE, 1));
	close(source.fd);
	assert_false(fgt_lazy_bytes_need(lazy, 8 * PAGE, 1));
	check(lazy, 0, PAGE);
	close(other.fd);
}

static void *need_all(void *context)
{
	struct fgt_lazy_bytes *lazy = context;

	for (size_t at = 0; at < LEN; at += 1000) {
		size_t len = LEN - at < 3000 ? LEN - at : 3000;

		if (!fgt_lazy_bytes_need(lazy, at, len) ||
		    memcmp(fgt_lazy_bytes_get(lazy) + at,
			   expected + OFFSET + at, len) != 0)
			return lazy;
	}
	return NULL;
}

static void threads_may_need_the_same_page(void **state)
{
	FGT_AUTO(fgt_lazy_bytes_free) struct fgt_lazy_bytes *lazy = NULL;
	struct fgt_elf_source source = make_file();
	pthread_t threads[4];
	void *wrong;

	(void)state;
	assert_int_equal(fgt_lazy_bytes_new(&source, OFFSET, LEN, &lazy), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, need_all, lazy), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
	close(source.fd);
}

/* ---- Unwind sections --------------------------------------------------- */

#define STEP_BYTES 20011u

/* Rules of addresses all over a library. */
static void expect_rules(const struct fgt_cfi_table *table, uint64_t end,
			 int result)
{
	struct fgt_cfi_rule rule;
	unsigned int found = 0;
	int rc;

	for (uint64_t address = 0; address < end; address += STEP_BYTES) {
		rc = fgt_cfi_table_find(table, address, &rule);
		if (rc == -ENOENT)
			continue;
		assert_int_equal(rc, result);
		found++;
	}
	assert_in_range(found, 10, UINT_MAX);
}

/* A library that is being overwritten has no rules, and that is not remembered.
 * */
static void truncated_file_has_no_rules(void **state)
{
	FGT_AUTO(fgt_cfi_table_free) struct fgt_cfi_table *table = NULL;
	char path[] = "/tmp/fgt-lazy-XXXXXX";
	struct fgt_elf_source source = { .fd = mkstemp(path) };
	struct fgt_elf elf;
	struct stat status;
	uint64_t end = 0;
	Dl_info libc;

	(void)state;
	assert_true(source.fd >= 0 && dladdr(printf, &libc));
	assert_int_equal(copy_file(libc.dli_fname, path), 0);
	assert_int_equal(fstat(source.fd, &status), 0);
	source.len = (uint64_t)status.st_size;
	assert_int_equal(fgt_elf_parse(&source, &elf), 0);
	assert_int_equal(fgt_cfi_table_load(&elf, &source, SIZE_MAX, &table),
			 0);
	for (uint32_t i = 0; i < elf.load_count; i++)
		if (elf.loads[i].is_executable)
			end = elf.loads[i].address + elf.loads[i].file_size;
	assert_int_equal(ftruncate(source.fd, 100000), 0);
	expect_rules(table, end, -EIO);
	assert_int_equal(copy_file(libc.dli_fname, path), 0);
	expect_rules(table, end, 0);
	close(source.fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_needed_pages_are_read),
		cmocka_unit_test(truncated_file_is_reported),
		cmocka_unit_test(other_file_with_that_descriptor_is_refused),
		cmocka_unit_test(threads_may_need_the_same_page),
		cmocka_unit_test(truncated_file_has_no_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
