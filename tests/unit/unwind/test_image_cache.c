/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of open files gives back what is not used: unwind rules within a
 * budget of bytes, descriptors after a minute.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/unwind/arch/arch.h"
#include "agent/unwind/cfi/cfi_table.h"
#include "agent/unwind/maps/image_file.h"
#include "ringbuf/base/clock.h"

#define BUDGET	 ((uint64_t)256 << 20)
#define MINUTE	 UINT64_C(60000000000)
#define KEPT_NS	 (MINUTE + MINUTE / 2)
#define CODE	 0x1000u /* ELF address of the one function */
#define CODE_LEN 0x100u
#define LARGE	 8
#define TURNS	 10
#define MIB	 ((size_t)1 << 20)

static char directory[] = "/tmp/fgt-image-cache-XXXXXX";

static const char *path_of(int number)
{
	static char path[64];

	snprintf(path, sizeof(path), "%s/%d", directory, number);
	return path;
}

/* A CIE, the FDE of the function, a CIE up to the end. */
static void write_eh_frame(int fd, off_t at, uint32_t len)
{
	struct {
		uint32_t len, id;
		uint8_t text[16];
		uint32_t fde_len, cie_distance;
		uint64_t start, range;
		uint32_t rest_len, rest_id;
		uint8_t rest[8];
	} __attribute__((packed)) bytes = {
		.len = 20,
		/* version, "", code and data alignment, return column; the CFA
		 * is rsp + 8, the return address at the CFA - 8 */
		.text = { 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1 },
		.fde_len = 20,
		.cie_distance = 28,
		.start = CODE,
		.range = CODE_LEN,
		.rest_len = len - 48 - 4,
		.rest = { 1, 0, 1, 0x78, 16 },
	};

	assert_int_equal(pwrite(fd, &bytes, sizeof(bytes), at), sizeof(bytes));
}

/* An ELF file with that much .eh_frame and no table to search it by. */
static void write_elf(int number, size_t eh_frame_len)
{
	static const char names[] = "\0.eh_frame\0.shstrtab";
	struct {
		Elf64_Ehdr header;
		Elf64_Phdr load;
		Elf64_Shdr sections[3];
		char names[sizeof(names)];
	} elf = {
		.header = {
			.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64,
				     ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_DYN,
			.e_machine = fgt_arch_host.elf_machine,
			.e_version = EV_CURRENT,
			.e_phoff = sizeof(Elf64_Ehdr),
			.e_ehsize = sizeof(Elf64_Ehdr),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 1,
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shnum = 3,
			.e_shstrndx = 2,
		},
		.load = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X,
			  .p_filesz = 0x2000, .p_memsz = 0x2000 },
	};
	int fd = open(path_of(number), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC,
		      0600);

	assert_true(fd >= 0);
	elf.header.e_shoff = (size_t)((char *)elf.sections - (char *)&elf);
	elf.sections[1] = (Elf64_Shdr){ .sh_name = 1,
					.sh_type = SHT_PROGBITS,
					.sh_flags = SHF_ALLOC,
					.sh_addr = 0x2000,
					.sh_offset = 0x2000,
					.sh_size = eh_frame_len };
	elf.sections[2] =
		(Elf64_Shdr){ .sh_name = 11,
			      .sh_type = SHT_STRTAB,
			      .sh_offset = (size_t)(elf.names - (char *)&elf),
			      .sh_size = sizeof(names) };
	memcpy(elf.names, names, sizeof(names));
	assert_int_equal(pwrite(fd, &elf, sizeof(elf), 0), sizeof(elf));
	assert_int_equal(ftruncate(fd, (off_t)(0x2000 + eh_frame_len)), 0);
	write_eh_frame(fd, 0x2000, (uint32_t)eh_frame_len);
	close(fd);
}

static struct fgt_image_file *add(struct fgt_image_cache *cache, int number)
{
	const struct fgt_image_key key = { .dev = 1, .ino = 1 };
	struct fgt_image_file *file;
	int fd = open(path_of(number), O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fgt_image_cache_add(cache, fd, &key, 0, &file), 0);
	return file;
}

static int find(struct fgt_image_file *file)
{
	struct fgt_cfi_rule rule;
	int r = fgt_image_file_find_rule(file, CODE + 1, &rule);

	if (r == 0) /* its bytes must still be there */
		assert_int_equal(rule.common_len ? rule.common[0] : 0, 0x0c);
	return r;
}

static struct fgt_image_cache_counters counters(struct fgt_image_cache *cache)
{
	struct fgt_image_cache_counters counters;

	fgt_image_cache_get_counters(cache, &counters);
	return counters;
}

static void large_tables_leave_room_for_those_of_other_programs(void **state)
{
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	struct fgt_image_file *large[LARGE], *small;
	struct fgt_image_cache *cache;
	int found = 0;

	(void)state;
	assert_int_equal(fgt_image_cache_new(&cache), 0);
	for (int i = 0; i < LARGE; i++) {
		write_elf(i, 63 * MIB);
		large[i] = add(cache, i);
		found += find(large[i]) == 0;
	}
	/* What all may read whole at once is used up, and that is counted. */
	assert_int_equal(found, 4);
	assert_int_equal(counters(cache).refused_cfi, LARGE - 4);
	write_elf(LARGE, 48 << 10);
	small = add(cache, LARGE);
	assert_int_equal(find(small), 0);
	assert_true(counters(cache).cfi_bytes > BUDGET - 8 * MIB);
	/* Asking again costs nothing. */
	assert_int_equal(find(large[7]), -EIO);
	assert_int_equal(counters(cache).refused_cfi, LARGE - 4);
	/* Later each gets its turn, in place of the least recently used. */
	for (int i = 0; i < TURNS; i++) {
		now_ns += MINUTE / 3;
		fgt_image_cache_tend(cache, now_ns, KEPT_NS);
		assert_int_equal(find(large[(i + 4) % LARGE]), 0);
		assert_int_equal(find(small), 0);
		assert_true(counters(cache).cfi_bytes <= BUDGET);
	}
	assert_int_equal(counters(cache).given_back, TURNS);
	for (int i = 0; i < LARGE; i++)
		fgt_image_file_put(large[i]);
	fgt_image_file_put(small);
	fgt_image_cache_tend(cache, now_ns + MINUTE, KEPT_NS);
	assert_int_equal(counters(cache).cfi_bytes, 0);
	fgt_image_cache_free(cache);
}

static void a_smaller_budget_is_heeded(void **state)
{
	struct fgt_image_file *files[LARGE];
	struct fgt_image_cache *cache;
	int found = 0;

	(void)state;
	assert_int_equal(fgt_image_cache_new(&cache), 0);
	fgt_image_cache_limit_rules(cache, 3 * MIB);
	for (int i = 0; i < LARGE; i++) {
		write_elf(i, MIB - 4096);
		files[i] = add(cache, i);
		found += find(files[i]) == 0;
	}
	assert_in_range(found, 2, 3);
	assert_true(counters(cache).cfi_bytes <= 3 * MIB);
	for (int i = 0; i < LARGE; i++)
		fgt_image_file_put(files[i]);
	fgt_image_cache_free(cache);
}

static void files_are_closed_when_nothing_uses_them(void **state)
{
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	struct fgt_image_file *deleted, *used, *unused;
	struct fgt_image_cache *cache;

	(void)state;
	assert_int_equal(fgt_image_cache_new(&cache), 0);
	for (int i = 0; i < 3; i++)
		write_elf(i, 48 << 10);
	deleted = add(cache, 0);
	used = add(cache, 1);
	unused = add(cache, 2);
	assert_int_equal(unlink(path_of(0)), 0);
	now_ns += MINUTE;
	fgt_image_cache_tend(cache, now_ns, KEPT_NS);
	assert_int_equal(counters(cache).files, 3);
	fgt_image_file_put(deleted);
	fgt_image_file_put(unused);
	fgt_image_cache_tend(cache, now_ns + MINUTE - 1, KEPT_NS);
	assert_int_equal(counters(cache).files, 3);
	fgt_image_cache_tend(cache, now_ns + MINUTE, KEPT_NS);
	assert_int_equal(counters(cache).files, 2);
	/* A ring may still show the deleted one, which has no other name. */
	fgt_image_cache_tend(cache, now_ns + KEPT_NS - 1, KEPT_NS);
	assert_int_equal(counters(cache).files, 2);
	fgt_image_cache_tend(cache, now_ns + KEPT_NS, KEPT_NS);
	assert_int_equal(counters(cache).files, 1);
	assert_int_equal(find(used), 0);
	fgt_image_file_put(used);
	fgt_image_cache_free(cache);
}

static int make_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	(void)state;
	for (int i = 0; i <= LARGE; i++)
		unlink(path_of(i));
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			large_tables_leave_room_for_those_of_other_programs),
		cmocka_unit_test(a_smaller_budget_is_heeded),
		cmocka_unit_test(files_are_closed_when_nothing_uses_them),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
