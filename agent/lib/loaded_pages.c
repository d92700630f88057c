/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs in the program's threads, right after libfgtrace-embed.so was loaded;
 * must not touch memory of anything that the program has loaded itself, nor
 * pages that somebody has written to (a debugger's breakpoints).
 */
#include "agent/lib/loaded_pages.h"

#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of /proc/self/pagemap: one word a page. */
#define PAGE_IS_FILES (UINT64_C(1) << 61)
#define PAGE_IS_THERE (UINT64_C(3) << 62) /* present, or in swap */
#define PAGES_AT_ONCE 128u

#define PARTS_MAX 8 /* read-only ones of an object; linkers make three */

struct part {
	uintptr_t start;
	size_t len_bytes;
};

struct search {
	unsigned int passed, count; /* objects: seen so far, to be left alone */
	uintptr_t page_bytes;
	int pagemap_fd;
};

static int count_one(struct dl_phdr_info *info, size_t size, void *context)
{
	unsigned int *count = context;

	(void)info;
	(void)size;
	++*count;
	return 0;
}

unsigned int fgt_loaded_count(void)
{
	unsigned int count = 0;

	(void)dl_iterate_phdr(count_one, &count);
	return count;
}

/* Threads of the program may load their own at this moment, and unload them.
 * Ours never go: it asks for that, and the others are what it needs. */
static bool is_ours(const char *path)
{
	static const char *const names[] = {
		"libfgtrace-embed.",
		"libunwind.",
		"libunwind-",
		"libdw.",
		"libdw-",
		"libelf.",
		"libelf-",
		"liblzma.",
		"libbz2.",
		"libz.",
	};
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(name, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/* Also false where that cannot be known. */
static bool is_all_files(const struct search *search, const struct part *part)
{
	size_t left = part->len_bytes / search->page_bytes;
	uint64_t at = part->start / search->page_bytes;
	uint64_t words[PAGES_AT_ONCE];

	while (left > 0) {
		size_t count = left < PAGES_AT_ONCE ? left : PAGES_AT_ONCE;
		ssize_t len = (ssize_t)(count * sizeof(words[0]));

		if (pread(search->pagemap_fd, words, (size_t)len,
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

static int give_back_one(struct dl_phdr_info *info, size_t size, void *context)
{
	struct search *search = context;
	struct part parts[PARTS_MAX];
	unsigned int count = 0;

	(void)size;
	if (search->passed++ < search->count || !is_ours(info->dlpi_name))
		return 0;
	for (int i = 0; i < info->dlpi_phnum && count < PARTS_MAX; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + header->p_vaddr;
		uintptr_t end = start + header->p_filesz;

		if (header->p_type != PT_LOAD || header->p_flags & PF_W)
			continue;
		start -= start % search->page_bytes;
		end += search->page_bytes - 1;
		end -= end % search->page_bytes;
		parts[count++] = (struct part){ start, end - start };
	}
	/* The headers lie in one of them: to be read before. */
	while (count-- > 0)
		if (is_all_files(search, &parts[count]))
			(void)madvise((void *)parts[count].start,
				      parts[count].len_bytes, MADV_DONTNEED);
	return 0;
}

void fgt_loaded_give_back(unsigned int count)
{
	struct search search = {
		.count = count,
		.page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE),
		.pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
	};

	if (search.pagemap_fd < 0)
		return;
	(void)dl_iterate_phdr(give_back_one, &search);
	close(search.pagemap_fd);
}
