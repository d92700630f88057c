/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of a library that were not used since it was loaded, and pages that
 * were written to.
 */
#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/embed/loaded_pages.h"

#define PAGE_BYTES 4096u
#define LIBRARY	   "libbz2.so.1.0" /* not needed by this program */

static uintptr_t load(void **ret_handle)
{
	struct link_map *map;

	*ret_handle = dlopen(LIBRARY, RTLD_NOW);
	assert_non_null(*ret_handle);
	assert_int_equal(dlinfo(*ret_handle, RTLD_DI_LINKMAP, &map), 0);
	return map->l_addr;
}

/* Resident part of the mapping that begins there; -1: there is none. */
static long resident_kib(uintptr_t start)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	bool is_it = false;
	char line[512];
	long kib = -1;

	assert_non_null(file);
	while (kib < 0 && fgets(line, sizeof(line), file)) {
		unsigned long from, to;

		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			is_it = from == start;
		else if (is_it)
			(void)sscanf(line, "Rss: %ld", &kib);
	}
	fclose(file);
	return kib;
}

static void drop_removes_pages_that_were_only_loaded(void **state)
{
	void *handle;
	uintptr_t base = load(&handle);
	int (*version)(void);

	(void)state;
	assert_true(resident_kib(base) > 0);
	fgt_loaded_pages_drop(base);
	assert_int_equal(resident_kib(base), 0);
	/* The kernel maps them again when they are used. */
	*(void **)&version = dlsym(handle, "BZ2_bzlibVersion");
	assert_non_null(version);
	assert_true(version());
	assert_true(resident_kib(base) > 0);
	dlclose(handle);
}

static void drop_keeps_pages_that_were_written_to(void **state)
{
	void *handle;
	uintptr_t base = load(&handle);
	char *padding = (char *)base + EI_NIDENT - 1;

	(void)state;
	assert_int_equal(
		mprotect((void *)base, PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
	*padding = 'x';
	assert_int_equal(mprotect((void *)base, PAGE_BYTES, PROT_READ), 0);
	fgt_loaded_pages_drop(base);
	assert_int_equal(*padding, 'x');
	dlclose(handle);
}

static void give_back_returns_without_a_library_to_drop(void **state)
{
	char line[] = "not ELF";
	void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(page, MAP_FAILED);
	memcpy(page, line, sizeof(line));
	fgt_loaded_pages_drop((uintptr_t)page);
	assert_string_equal(page, line);
	munmap(page, PAGE_BYTES);
	fgt_loaded_pages_give_back();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drop_removes_pages_that_were_only_loaded),
		cmocka_unit_test(drop_keeps_pages_that_were_written_to),
		cmocka_unit_test(give_back_returns_without_a_library_to_drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
