/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs in a thread of the program that starts a recorder. Must hold the
 * loader's locks for microseconds only: a child of fork(2) in another thread
 * would never get them.
 */
#include "agent/embed/loaded_pages.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"

/* Bits of /proc/self/pagemap, which has one word a page. */
#define PAGE_IS_FILES (UINT64_C(1) << 61)
#define PAGE_IS_THERE (UINT64_C(3) << 62) /* present, or in swap */
#define PAGES_AT_ONCE 128u

#define PARTS_MAX 8 /* read-only ones of a library; linkers make 3 */

/* What this library needs, directly or not. */
static const char *const names[] = {
	"libunwind-x86_64.so.8", "libunwind-aarch64.so.8",
	"libunwind.so.8",	 "libdw.so.1",
	"libelf.so.1",		 "liblzma.so.5",
	"libbz2.so.1.0",	 "libz.so.1",
};
#define NAME_COUNT (sizeof(names) / sizeof(names[0]))

struct library_part {
	uintptr_t start;
	size_t len_bytes;
};

struct search {
	uintptr_t own; /* where this library lies */
	void *handles[NAME_COUNT]; /* NULL: not loaded */
	uintptr_t bases[NAME_COUNT]; /* 0: not loaded */
	bool is_own_passed;
	bool is_later[NAME_COUNT]; /* after this library in the loader's list */
};

/* A library that is loaded; it stays until its handle is closed. */
static void find(const char *name, void **ret_handle, uintptr_t *ret_base)
{
	struct link_map *map;

	*ret_handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
	if (*ret_handle && dlinfo(*ret_handle, RTLD_DI_LINKMAP, &map) == 0)
		*ret_base = map->l_addr;
	/* The program must not find this error with dlerror(). */
	(void)dlerror();
}

static int note_order(struct dl_phdr_info *info, size_t size, void *context)
{
	struct search *search = context;

	(void)size;
	if (info->dlpi_addr == search->own)
		search->is_own_passed = true;
	for (size_t i = 0; search->is_own_passed && i < NAME_COUNT; i++)
		if (info->dlpi_addr == search->bases[i])
			search->is_later[i] = true;
	return 0;
}

static bool is_all_files(int pagemap_fd, const struct library_part *part,
			 uintptr_t page_bytes)
{
	size_t left = part->len_bytes / page_bytes;
	uint64_t at = part->start / page_bytes;
	uint64_t words[PAGES_AT_ONCE];

	while (left > 0) {
		size_t count = left < PAGES_AT_ONCE ? left : PAGES_AT_ONCE;
		ssize_t len = (ssize_t)(count * sizeof(words[0]));

		if (pread(pagemap_fd, words, (size_t)len,
			  (off_t)(at * sizeof(words[0]))) != len)
			return false;
		for (size_t i = 0; i < count; i++)
			if (words[i] & PAGE_IS_THERE &&
			    !(words[i] & PAGE_IS_FILES))
				return false;
		left -= count;
		at += count;
	}
	return true;
}

/* In whole pages. Returns the number of parts. */
static size_t list_parts(uintptr_t base, uintptr_t page_bytes,
			 struct library_part parts[PARTS_MAX])
{
	const ElfW(Ehdr) *elf = (const void *)base;
	const ElfW(Phdr) * headers;
	size_t count = 0;

	if (memcmp(elf->e_ident, ELFMAG, SELFMAG) || elf->e_type != ET_DYN)
		return 0;
	headers = (const void *)(base + elf->e_phoff);
	for (size_t i = 0; i < elf->e_phnum && count < PARTS_MAX; i++) {
		uintptr_t start = base + headers[i].p_vaddr;
		uintptr_t end = start + headers[i].p_filesz;

		if (headers[i].p_type != PT_LOAD || headers[i].p_flags & PF_W)
			continue;
		start -= start % page_bytes;
		end += page_bytes - 1;
		end -= end % page_bytes;
		parts[count++] = (struct library_part){ start, end - start };
	}
	return count;
}

void fgt_loaded_pages_drop(uintptr_t base)
{
	uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	FGT_AUTO(fgt_fd_close)
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	struct library_part parts[PARTS_MAX];
	size_t count = list_parts(base, page_bytes, parts);

	if (fd < 0)
		return;
	for (size_t i = 0; i < count; i++)
		if (is_all_files(fd, &parts[i], page_bytes))
			(void)madvise((void *)parts[i].start,
				      parts[i].len_bytes, MADV_DONTNEED);
}

void fgt_loaded_pages_give_back(void)
{
	static atomic_flag has_been = ATOMIC_FLAG_INIT;
	struct search search = { .is_own_passed = false };
	Dl_info info;

	if (atomic_flag_test_and_set(&has_been) || !dladdr(names, &info))
		return;
	search.own = (uintptr_t)info.dli_fbase;
	for (size_t i = 0; i < NAME_COUNT; i++)
		find(names[i], &search.handles[i], &search.bases[i]);
	(void)dl_iterate_phdr(note_order, &search);
	for (size_t i = 0; i < NAME_COUNT; i++) {
		if (search.bases[i] && search.is_later[i])
			fgt_loaded_pages_drop(search.bases[i]);
		if (search.handles[i])
			dlclose(search.handles[i]);
	}
	fgt_loaded_pages_drop(search.own);
}
