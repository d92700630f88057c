/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsers of outside bytes: lines of maps, call instructions, ELF headers,
 * unwind rules.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/unwind/arch/arch.h"
#include "agent/unwind/cfi/cfi_table.h"
#include "agent/unwind/elf/elf_file.h"
#include "agent/unwind/maps/maps_open.h"

static int parse_line(const char *text, struct fgt_maps_line *ret_line)
{
	/* A copy on the heap, so that a sanitizer sees reads past its end. */
	size_t len = strlen(text);
	char *copy = malloc(len ? len : 1);
	int r;

	assert_non_null(copy);
	memcpy(copy, text, len);
	r = fgt_maps_line_parse(copy, len, ret_line);
	free(copy);
	return r;
}

static void a_line_of_maps_is_taken_apart(void **state)
{
	struct fgt_maps_line line;

	(void)state;
	assert_int_equal(parse_line("7f0a2c200000-7f0a2c228000 r-xp 0001a000 "
				    "fe:01 1837 /usr/lib/libc.so.6",
				    &line),
			 0);
	assert_int_equal(line.start, 0x7f0a2c200000);
	assert_int_equal(line.end, 0x7f0a2c228000);
	assert_int_equal(line.offset, 0x1a000);
	assert_int_equal(line.dev, makedev(0xfe, 1));
	assert_int_equal(line.ino, 1837);
	assert_true(line.is_readable && line.is_executable);
	assert_false(line.is_writable || line.is_deleted || line.is_path_cut);
	assert_string_equal(line.path, "/usr/lib/libc.so.6");
}

static void names_of_files_may_be_anything(void **state)
{
	static const struct {
		const char *text, *path;
		bool is_deleted;
	} zoo[] = {
		{ "/a b  c", "/a b  c", false },
		{ "/new\\012line", "/new\nline", false },
		{ "/back\\slash", "/back\\slash", false },
		{ "/cut\\01", "/cut\\01", false },
		{ "/tmp/x (deleted)", "/tmp/x", true },
		{ "/tmp/x (deleted) (deleted)", "/tmp/x (deleted)", true },
		{ "/tmp/ (deleted)x", "/tmp/ (deleted)x", false },
		{ "/memfd:jit (deleted)", "/memfd:jit", true },
		{ "[vdso]", "[vdso]", false },
		{ "[anon:some name]", "[anon:some name]", false },
		{ "/\xff\x1b[31m", "/\xff\x1b[31m", false },
		{ "/1000-2000 r-xp 0 0:0 1 /x", "/1000-2000 r-xp 0 0:0 1 /x",
		  false },
		{ "", "", false },
	};
	struct fgt_maps_line line;
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(zoo) / sizeof(zoo[0]); i++) {
		snprintf(text, sizeof(text),
			 "1000-2000 r-xp 00000000 08:01 42%*s%s", 20, " ",
			 zoo[i].text);
		assert_int_equal(parse_line(text, &line), 0);
		assert_string_equal(line.path, zoo[i].path);
		assert_int_equal(line.is_deleted, zoo[i].is_deleted);
	}
}

static void a_line_without_a_name_is_anonymous(void **state)
{
	struct fgt_maps_line line;

	(void)state;
	assert_int_equal(parse_line("1000-2000 rwxp 00000000 00:00 0", &line),
			 0);
	assert_int_equal(line.ino, 0);
	assert_string_equal(line.path, "");
	assert_int_equal(parse_line("1000-2000 rwxp 00000000 00:00 0 ", &line),
			 0);
	assert_string_equal(line.path, "");
}

static void a_name_too_long_is_none(void **state)
{
	char text[FGT_IMAGE_PATH_MAX + 100];
	struct fgt_maps_line line;
	int len;

	(void)state;
	len = snprintf(text, sizeof(text),
		       "1000-2000 r-xp 00000000 08:01 42 /");
	memset(text + len, 'a', FGT_IMAGE_PATH_MAX);
	text[len + FGT_IMAGE_PATH_MAX] = 0;
	assert_int_equal(parse_line(text, &line), 0);
	assert_true(line.is_path_cut);
	assert_string_equal(line.path, "");
	/* The longest that fits. */
	text[len + FGT_IMAGE_PATH_MAX - 2] = 0;
	assert_int_equal(parse_line(text, &line), 0);
	assert_false(line.is_path_cut);
	assert_int_equal(strlen(line.path), FGT_IMAGE_PATH_MAX - 1);
}

static void broken_lines_are_refused(void **state)
{
	static const char *const broken[] = {
		"",
		"-",
		"1000",
		"1000-",
		"1000-2000",
		"1000-2000 ",
		"1000-2000 r-x",
		"1000-2000 r-xp",
		"1000-2000 r-xp 0",
		"1000-2000 r-xp 0 08",
		"1000-2000 r-xp 0 08:01",
		"1000-2000 r-xp 0 08:01 4x",
		"2000-1000 r-xp 00000000 08:01 42 /x",
		"1000-1000 r-xp 00000000 08:01 42 /x",
		"10000000000000000-20000000000000000 r-xp 0 08:01 42 /x",
		"g000-2000 r-xp 00000000 08:01 42 /x",
		" 1000-2000 r-xp 00000000 08:01 42 /x",
	};
	struct fgt_maps_line line;

	(void)state;
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
		assert_int_equal(parse_line(broken[i], &line), -EBADMSG);
}

struct call_case {
	uint8_t code[16];
	size_t len;
	int is_call;
	uint64_t target;
};

#define RETURN_PC 0x401000ull

static void calls_are_recognised(void **state)
{
	static const struct call_case cases[] = {
		/* call rel32, forth and back, with prefixes */
		{ { 0xe8, 0x10, 0, 0, 0 }, 5, 1, RETURN_PC + 0x10 },
		{ { 0xe8, 0xf0, 0xff, 0xff, 0xff }, 5, 1, RETURN_PC - 0x10 },
		{ { 0x67, 0xe8, 0x10, 0, 0, 0 }, 6, 1, RETURN_PC + 0x10 },
		{ { 0x66, 0x66, 0x48, 0xe8, 0x10, 0, 0, 0 },
		  8,
		  1,
		  RETURN_PC + 0x10 },
		{ { 0xff, 0xd0 }, 2, 1, 0 }, /* *%rax */
		{ { 0x41, 0xff, 0xd4 }, 3, 1, 0 }, /* *%r12 */
		{ { 0x3e, 0xff, 0xd0 }, 3, 1, 0 }, /* notrack *%rax */
		{ { 0xff, 0x10 }, 2, 1, 0 }, /* *(%rax) */
		{ { 0x67, 0xff, 0x10 }, 3, 1, 0 }, /* *(%eax) */
		{ { 0xff, 0x50, 0x18 }, 3, 1, 0 }, /* *24(%rax) */
		{ { 0xff, 0x14, 0xc3 }, 3, 1, 0 }, /* *(%rbx,%rax,8) */
		{ { 0xff, 0x54, 0x24, 0x08 }, 4, 1, 0 }, /* *8(%rsp) */
		{ { 0x42, 0xff, 0x54, 0xe0, 0x08 }, 5, 1, 0 },
		{ { 0xff, 0x15, 1, 2, 3, 4 }, 6, 1, 0 }, /* *x(%rip) */
		{ { 0xff, 0x90, 1, 2, 3, 4 }, 6, 1, 0 }, /* *x(%rax) */
		{ { 0xff, 0x14, 0xc5, 1, 2, 3, 4 }, 7, 1, 0 }, /* *x(,%rax,8) */
		{ { 0xff, 0x94, 0x24, 1, 2, 3, 4 }, 7, 1, 0 }, /* *x(%rsp) */
		{ { 0xff, 0x94, 0xe8, 1, 2, 3, 4 }, 7, 1, 0 }, /* SIB e8 */
		/* not calls: jumps, pushes, moves, too few bytes */
		{ { 0xff, 0xe0 }, 2, 0, 0 },
		{ { 0xff, 0x25, 1, 2, 3, 4 }, 6, 0, 0 },
		{ { 0xff, 0x35, 1, 2, 3, 4 }, 6, 0, 0 },
		{ { 0xe9, 0x10, 0, 0, 0 }, 5, 0, 0 },
		{ { 0x48, 0x89, 0xe5, 0x90, 0x90 }, 5, 0, 0 },
		{ { 0x10, 0, 0, 0 }, 4, 0, 0 },
		{ { 0xd0 }, 1, 0, 0 },
		{ { 0 }, 0, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t target = 1;

		assert_int_equal(
			fgt_arch_x86_64.call_before(cases[i].code, cases[i].len,
						    RETURN_PC, &target),
			cases[i].is_call);
		if (cases[i].is_call)
			assert_int_equal(target, cases[i].target);
	}
}

static void calls_of_aarch64_are_recognised(void **state)
{
	static const uint8_t bl_forth[] = { 0x04, 0x00, 0x00, 0x94 };
	static const uint8_t bl_back[] = { 0xff, 0xff, 0xff, 0x97 };
	static const uint8_t blr[] = { 0x20, 0x02, 0x3f, 0xd6 };
	static const uint8_t blraaz[] = { 0x1f, 0x09, 0x3f, 0xd6 };
	static const uint8_t b[] = { 0x04, 0x00, 0x00, 0x14 };
	const struct fgt_arch *arch = &fgt_arch_aarch64;
	uint64_t target;

	(void)state;
	assert_int_equal(arch->call_before(bl_forth, 4, RETURN_PC, &target), 1);
	assert_int_equal(target, RETURN_PC - 4 + 16);
	assert_int_equal(arch->call_before(bl_back, 4, RETURN_PC, &target), 1);
	assert_int_equal(target, RETURN_PC - 8);
	assert_int_equal(arch->call_before(blr, 4, RETURN_PC, &target), 1);
	assert_int_equal(target, 0);
	assert_int_equal(arch->call_before(blraaz, 4, RETURN_PC, &target), 1);
	assert_int_equal(arch->call_before(b, 4, RETURN_PC, &target), 0);
	assert_int_equal(arch->call_before(blr, 4, RETURN_PC + 2, &target), 0);
	assert_int_equal(arch->call_before(blr, 3, RETURN_PC, &target), 0);
}

/* runtime.mcall and runtime.systemstack, up to their calls. */
static void first_frames_of_stacks_are_recognised(void **state)
{
	static const uint8_t mcall[] = {
		0x49, 0x8b, 0x66, 0x38, /* mov 0x38(%r14), %rsp */
		0x48, 0xc7, 0xc5, 0,	0,    0,    0, /* mov $0, %rbp */
		0x50, /* push %rax */
		0x4c, 0x8b, 0x22, 0x41, 0xff, 0xd4, /* call *%r12 */
	};
	static const uint8_t mcall_of_1_19[] = {
		0x49, 0x8b, 0x66, 0x38, 0x50, 0x4c,
		0x8b, 0x22, 0x41, 0xff, 0xd4,
	};
	static const uint8_t systemstack[] = {
		0x48, 0x8b, 0x62, 0x38, 0x48, 0x89,
		0xfa, 0x48, 0x8b, 0x3f, 0xff, 0xd7,
	};
	/* exit(111), behind the call of runtime.clone */
	static const uint8_t ends[] = { 0xbf, 0x6f, 0, 0, 0,	0xb8,
					0x3c, 0,    0, 0, 0x0f, 0x05 };
	bool (*starts_stack)(const uint8_t *, size_t, const uint8_t *, size_t) =
		fgt_arch_x86_64.starts_stack;

	(void)state;
	assert_true(starts_stack(mcall, sizeof(mcall), NULL, 0));
	assert_true(
		starts_stack(mcall_of_1_19, sizeof(mcall_of_1_19), NULL, 0));
	assert_false(starts_stack(systemstack, sizeof(systemstack), NULL, 0));
	assert_true(starts_stack(systemstack, sizeof(systemstack), ends,
				 sizeof(ends)));
	assert_false(starts_stack(systemstack, sizeof(systemstack), ends,
				  sizeof(ends) - 1));
	for (size_t len = 0; len < 5; len++)
		assert_false(starts_stack(mcall_of_1_19, len, NULL, 0));
}

static void perf_registers_are_mapped(void **state)
{
	const struct fgt_arch *arch = &fgt_arch_x86_64;

	(void)state;
	assert_int_equal(arch->perf_to_dwarf[8], arch->pc);
	assert_int_equal(arch->perf_to_dwarf[7], arch->sp);
	assert_int_equal(arch->perf_to_dwarf[6], arch->fp);
	for (unsigned int bit = 0; bit < 64; bit++)
		assert_int_equal((arch->perf_regs_mask >> bit & 1) != 0,
				 arch->perf_to_dwarf[bit] >= 0);
	for (unsigned int bit = 0; bit < 64; bit++)
		assert_int_equal((fgt_arch_aarch64.perf_regs_mask >> bit & 1),
				 fgt_arch_aarch64.perf_to_dwarf[bit] >= 0);
}

/* This program's own file, in memory. */
static uint8_t *read_self(size_t *ret_len)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat status;
	uint8_t *bytes;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &status), 0);
	bytes = malloc((size_t)status.st_size);
	assert_non_null(bytes);
	assert_int_equal(read(fd, bytes, (size_t)status.st_size),
			 status.st_size);
	close(fd);
	*ret_len = (size_t)status.st_size;
	return bytes;
}

static void a_damaged_elf_file_does_no_harm(void **state)
{
	struct fgt_elf_source source = { .fd = -1 };
	struct fgt_cfi_rule rule;
	struct fgt_cfi_table *table;
	uint8_t *good, *bytes;
	struct fgt_elf elf;
	size_t len;

	(void)state;
	good = read_self(&len);
	bytes = malloc(len);
	assert_non_null(bytes);
	source.bytes = bytes;
	srand(1);
	for (int round = 0; round < 400; round++) {
		memcpy(bytes, good, len);
		/* Headers of all kinds lie in the first and last bytes. */
		for (int i = 0; i < 1 + round % 8; i++) {
			size_t at = (size_t)rand() % 1200;

			if (rand() % 3 == 0)
				at = len - 1 - (size_t)rand() % 2600;
			bytes[at] = (uint8_t)(rand() % 4 ? rand() : 0xff);
		}
		source.len = round % 5 ? len : (size_t)rand() % len;
		if (fgt_elf_parse(&source, &elf) < 0)
			continue;
		if (fgt_cfi_table_load(&elf, &source, SIZE_MAX, &table) < 0)
			continue;
		for (uint64_t pc = 0; pc < 0x20000; pc += 0x333)
			fgt_cfi_table_find(table, pc, &rule);
		fgt_cfi_table_free(table);
	}
	free(bytes);
	free(good);
}

static void file_that_is_not_elf_is_refused(void **state)
{
	uint8_t bytes[sizeof(Elf64_Ehdr)] = { 0 };
	struct fgt_elf_source source = { .fd = -1, .bytes = bytes };
	Elf64_Ehdr header = { .e_phentsize = sizeof(Elf64_Phdr) };
	struct fgt_elf elf;

	(void)state;
	assert_int_equal(fgt_elf_parse(&source, &elf), -ENOEXEC);
	source.len = sizeof(bytes);
	assert_int_equal(fgt_elf_parse(&source, &elf), -ENOEXEC);
	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS32;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(bytes, &header, sizeof(header));
	assert_int_equal(fgt_elf_parse(&source, &elf), -ENOEXEC);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_phnum = 0xffff;
	memcpy(bytes, &header, sizeof(header));
	assert_int_equal(fgt_elf_parse(&source, &elf), -EBADMSG);
}

static int write_record(const uint8_t *instructions, size_t len)
{
	const struct fgt_cfi_rule rule = {
		.start = 0x1000,
		.end = 0x2000,
		.code_align = 1,
		.data_align = -8,
		.return_column = 16,
		.common = (const uint8_t *)"\x0c\x07\x08\x90\x01",
		.common_len = 5,
		.instructions = instructions,
		.instructions_len = len,
	};
	struct fgt_cfi_record record;
	uint8_t buffer[4096];

	return fgt_cfi_record_write(&rule, buffer, sizeof(buffer), &record);
}

static void instructions_that_harm_are_refused(void **state)
{
	static const uint8_t good[] = { 0x41, 0x0e, 0x10, 0x86, 0x02 };
	static const uint8_t plt[] = { 0x0f, 0x0b, 0x77, 0x08, 0x80, 0,	  0x3f,
				       0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22 };
	/* def_cfa_expression: skip -3 for ever; div; cut off; set_loc */
	static const uint8_t loop[] = { 0x0f, 3, 0x2f, 0xfd, 0xff };
	static const uint8_t divide[] = { 0x0f, 3, 0x31, 0x31, 0x1b };
	static const uint8_t cut[] = { 0x0f, 200, 1, 0x30 };
	static const uint8_t set_loc[] = { 0x01, 0, 0, 0, 0, 0, 0, 0, 0 };
	static const uint8_t restore[] = { 0x0b };
	static const uint8_t bad_reg[] = { 0x0d, 0x7f };
	static const uint8_t vector[] = { 0x05, 23, 0x04 };
	uint8_t remember[64];

	(void)state;
	assert_int_equal(write_record(good, sizeof(good)), 0);
	assert_int_equal(write_record(plt, sizeof(plt)), 0);
	assert_int_equal(write_record(vector, sizeof(vector)), 0);
	assert_int_equal(write_record(loop, sizeof(loop)), -EBADMSG);
	assert_int_equal(write_record(divide, sizeof(divide)), -EBADMSG);
	assert_int_equal(write_record(cut, sizeof(cut)), -EBADMSG);
	assert_int_equal(write_record(set_loc, sizeof(set_loc)), -EBADMSG);
	assert_int_equal(write_record(restore, sizeof(restore)), -EBADMSG);
	assert_int_equal(write_record(bad_reg, sizeof(bad_reg)), -EBADMSG);
	memset(remember, 0x0a, sizeof(remember));
	assert_int_equal(write_record(remember, sizeof(remember)), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_of_maps_is_taken_apart),
		cmocka_unit_test(names_of_files_may_be_anything),
		cmocka_unit_test(a_line_without_a_name_is_anonymous),
		cmocka_unit_test(a_name_too_long_is_none),
		cmocka_unit_test(broken_lines_are_refused),
		cmocka_unit_test(calls_are_recognised),
		cmocka_unit_test(calls_of_aarch64_are_recognised),
		cmocka_unit_test(first_frames_of_stacks_are_recognised),
		cmocka_unit_test(perf_registers_are_mapped),
		cmocka_unit_test(a_damaged_elf_file_does_no_harm),
		cmocka_unit_test(file_that_is_not_elf_is_refused),
		cmocka_unit_test(instructions_that_harm_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
