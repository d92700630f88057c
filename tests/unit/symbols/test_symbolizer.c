/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of agent/symbols/symbolizer: one program with and without each kind of
 * symbols; it prints its addresses.
 */
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

#include "agent/symbols/elf/elf_ident.h"
#include "agent/symbols/names/name_cache.h"
#include "agent/symbols/names/names.h"
#include "agent/symbols/symbolizer.h"
#include "tests/unit/symbols/symbols_kit.h"

static uint64_t inlined_address, plain_address;

/* A slice of one image and frames at these ELF addresses (as callers). */
static struct fgt_ring_slice *
make_slice(const char *path, const uint64_t *addresses, uint32_t count)
{
	struct fgt_ring_slice *slice = NULL;
	struct fgt_slice_image *image;
	struct stat status = { 0 };
	struct fgt_elf_ident ident = { 0 };
	int fd;

	assert_int_equal(fgt_slice_new(&slice), 0);
	slice->images = image = calloc(1, sizeof(*slice->images));
	slice->image_count = 1;
	assert_int_equal(fgt_strings_intern(&slice->strings, path, strlen(path),
					    &image->path),
			 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		fgt_elf_ident_read(fd, &ident);
		fstat(fd, &status);
		close(fd);
	}
	image->build_id_len = ident.build_id_len;
	memcpy(image->build_id, ident.build_id, sizeof(image->build_id));
	image->dev = status.st_dev;
	image->ino = status.st_ino;
	gethostname(slice->process.host, sizeof(slice->process.host) - 1);
	slice->frames = calloc(count, sizeof(*slice->frames));
	slice->frame_count = count;
	for (uint32_t i = 0; i < count; i++)
		slice->frames[i].frame =
			(struct fgt_frame){ .address = addresses[i],
					    .image = 1,
					    .flags = FGT_FRAME_CALLER };
	return slice;
}

static const char *symbol_of(const struct fgt_ring_slice *slice, uint32_t frame,
			     uint32_t depth, const struct fgt_symbol **ret)
{
	const struct fgt_slice_frame *f = &slice->frames[frame];

	assert_true(depth < f->symbol_count);
	*ret = &slice->symbols[f->symbol_first + depth];
	return fgt_slice_string(slice, (*ret)->function);
}

static struct fgt_ring_slice *resolve(const char *variant,
				      const char *debug_dir,
				      const uint64_t *addresses, uint32_t count)
{
	const char *dirs[] = { debug_dir };
	const struct fgt_symbolizer_options options = { .debug_dirs = dirs,
							.debug_dir_count = 1 };
	struct fgt_symbolizer *symbolizer = NULL;
	struct fgt_ring_slice *slice;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", FGT_PROGRAMS, variant);
	slice = make_slice(path, addresses, count);
	assert_int_equal(fgt_symbolizer_new(&options, &symbolizer), 0);
	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, false), 0);
	fgt_symbolizer_free(symbolizer);
	return slice;
}

/* Line of the source with this remark. */
static uint32_t line_with(const char *file, const char *remark)
{
	/* A compiler's launcher may make paths relative to the build. */
	FGT_AUTO(fgt_fd_close)
	int build = open(FGT_PROGRAMS "/../../..", O_PATH | O_CLOEXEC);
	FGT_AUTO(fgt_file_close)
	FILE *source = fdopen(openat(build, file, O_RDONLY | O_CLOEXEC), "r");
	char text[256];

	assert_non_null(source);
	for (uint32_t line = 1; fgets(text, sizeof(text), source); line++)
		if (strstr(text, remark))
			return line;
	fail_msg("no line with %s in %s", remark, file);
	return 0;
}

static void expect_chain(const struct fgt_ring_slice *slice)
{
	static const char *const names[] = { "innermost", "middle",
					     "outermost" };
	const struct fgt_symbol *symbol;

	assert_int_equal(slice->frames[0].symbol_count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		const char *file;
		char remark[64];

		assert_string_equal(symbol_of(slice, 0, i, &symbol), names[i]);
		file = fgt_slice_string(slice, symbol->file);
		assert_non_null(strstr(file, "inlines.c"));
		snprintf(remark, sizeof(remark), "line of %s */", names[i]);
		assert_int_equal(symbol->line, line_with(file, remark));
	}
	assert_string_equal(symbol_of(slice, 1, 0, &symbol), "plain");
	assert_int_equal(slice->frames[1].symbol_count, 1);
}

static void expect_functions(const char *variant, const char *debug_dir)
{
	const uint64_t addresses[] = { inlined_address, plain_address };
	struct fgt_ring_slice *slice =
		resolve(variant, debug_dir, addresses, 2);
	const struct fgt_symbol *symbol;

	assert_string_equal(symbol_of(slice, 0, 0, &symbol), "outermost");
	assert_int_equal(symbol->line, 0);
	assert_string_equal(symbol_of(slice, 1, 0, &symbol), "plain");
	fgt_ring_slice_free(slice);
}

static void expect_chain_in(const char *variant, const char *debug_dir)
{
	const uint64_t addresses[] = { inlined_address, plain_address };
	struct fgt_ring_slice *slice =
		resolve(variant, debug_dir, addresses, 2);

	expect_chain(slice);
	fgt_ring_slice_free(slice);
}

/* All addresses of a function have the name of its start. */
static void expect_start(const char *variant)
{
	uint64_t start =
		kit_address_of(FGT_PROGRAMS "/symbols-inlines", "outermost");
	const uint64_t addresses[] = { inlined_address, start + 1 };
	struct fgt_ring_slice *slice =
		resolve(variant, "/nowhere", addresses, 2);
	const struct fgt_symbol *symbol;
	char expected[128];

	assert_true(start + 1 < inlined_address);
	snprintf(expected, sizeof(expected), "%s!0x%lx",
		 strrchr(variant, '/') ? strrchr(variant, '/') + 1 : variant,
		 (unsigned long)start);
	for (uint32_t i = 0; i < 2; i++) {
		assert_string_equal(symbol_of(slice, i, 0, &symbol), expected);
		assert_int_equal(symbol->reason, FGT_SYMBOL_STRIPPED);
	}
	fgt_ring_slice_free(slice);
}

static void expect_nothing(const char *variant, const char *debug_dir,
			   enum fgt_symbol_reason reason)
{
	const uint64_t addresses[] = { inlined_address };
	struct fgt_ring_slice *slice =
		resolve(variant, debug_dir, addresses, 1);
	const struct fgt_symbol *symbol;
	char expected[128];

	snprintf(expected, sizeof(expected), "%s+0x%lx",
		 strrchr(variant, '/') ? strrchr(variant, '/') + 1 : variant,
		 (unsigned long)inlined_address);
	assert_string_equal(symbol_of(slice, 0, 0, &symbol), expected);
	assert_int_equal(symbol->reason, reason);
	fgt_ring_slice_free(slice);
}

static void inlined_calls_come_innermost_first_with_lines(void **state)
{
	(void)state;
	expect_chain_in("symbols-inlines", "/nowhere");
}

static void debug_file_is_found_by_build_id(void **state)
{
	(void)state;
	expect_chain_in("stripped", FGT_PROGRAMS "/by-id");
}

static void debug_file_is_found_by_link_and_checksum(void **state)
{
	(void)state;
	expect_chain_in("linked", "/nowhere");
}

static void debug_file_with_a_wrong_checksum_is_not_taken(void **state)
{
	(void)state;
	expect_start("wrong/linked");
}

static void minidebuginfo_gives_functions(void **state)
{
	(void)state;
	expect_functions("minidebug", "/nowhere");
}

static void bomb_in_minidebuginfo_is_ignored(void **state)
{
	(void)state;
	expect_start("bomb");
}

static void function_of_a_stripped_file_is_named_by_its_start(void **state)
{
	(void)state;
	expect_start("stripped");
}

static void missing_file_gets_its_reason(void **state)
{
	(void)state;
	expect_nothing("gone", "/nowhere", FGT_SYMBOL_NO_FILE);
}

static void another_file_at_the_path_is_not_taken(void **state)
{
	const uint64_t addresses[] = { plain_address };
	const struct fgt_symbolizer_options options = { 0 };
	struct fgt_symbolizer *symbolizer = NULL;
	const struct fgt_symbol *symbol;
	struct fgt_ring_slice *slice;

	(void)state;
	slice = make_slice(FGT_PROGRAMS "/symbols-inlines", addresses, 1);
	slice->images[0].build_id[0] ^= 1;
	assert_int_equal(fgt_symbolizer_new(&options, &symbolizer), 0);
	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, false), 0);
	symbol_of(slice, 0, 0, &symbol);
	assert_int_equal(symbol->reason, FGT_SYMBOL_OTHER_FILE);
	fgt_symbolizer_free(symbolizer);
	fgt_ring_slice_free(slice);
}

static void a_second_slice_is_answered_from_the_cache(void **state)
{
	const uint64_t addresses[] = { inlined_address, plain_address };
	const struct fgt_symbolizer_options options = { 0 };
	struct fgt_symbolizer *symbolizer = NULL;

	(void)state;
	assert_int_equal(fgt_symbolizer_new(&options, &symbolizer), 0);
	for (int i = 0; i < 3; i++) {
		struct fgt_ring_slice *slice = make_slice(
			FGT_PROGRAMS "/symbols-inlines", addresses, 2);

		assert_int_equal(
			fgt_symbolizer_resolve(symbolizer, slice, false), 0);
		expect_chain(slice);
		fgt_ring_slice_free(slice);
	}
	fgt_symbolizer_free(symbolizer);
}

static void pack_is_accepted_only_if_whole(void **state)
{
	const struct fgt_names names = {
		.count = 2,
		.symbols = { { "inner", "a.c", 7, 0 }, { "outer", NULL, 0, 0 } }
	};
	struct fgt_memory_sink bytes;
	struct fgt_names back;

	(void)state;
	fgt_memory_sink_init(&bytes, 4096);
	assert_int_equal(fgt_names_pack(&names, &bytes.sink), 0);
	assert_int_equal(fgt_names_unpack(bytes.bytes, bytes.len_bytes, &back),
			 0);
	assert_int_equal(back.count, 2);
	assert_string_equal(back.symbols[0].function, "inner");
	assert_string_equal(back.symbols[0].file, "a.c");
	assert_int_equal(back.symbols[0].line, 7);
	assert_null(back.symbols[1].file);
	for (size_t len = 0; len < bytes.len_bytes; len++) {
		FGT_AUTO(free) void *cut = malloc(len + 1);

		memcpy(cut, bytes.bytes, len);
		assert_int_equal(fgt_names_unpack(cut, len, &back), -EBADMSG);
	}
	bytes.bytes[0] = 0;
	assert_int_equal(fgt_names_unpack(bytes.bytes, 5, &back), -EBADMSG);
	bytes.bytes[0] = FGT_NAMES_MAX + 1;
	assert_int_equal(fgt_names_unpack(bytes.bytes, bytes.len_bytes, &back),
			 -EBADMSG);
	fgt_memory_sink_done(&bytes);
}

static void pack_without_a_name_has_the_start_of_the_function(void **state)
{
	const struct fgt_names names = { .start = 0x4b000 };
	struct fgt_memory_sink bytes;
	struct fgt_names back;

	(void)state;
	fgt_memory_sink_init(&bytes, 4096);
	assert_int_equal(fgt_names_pack(&names, &bytes.sink), 0);
	assert_int_equal(fgt_names_unpack(bytes.bytes, bytes.len_bytes, &back),
			 0);
	assert_int_equal(back.count, 0);
	assert_int_equal(back.start, 0x4b000);
	assert_int_equal(fgt_names_unpack(bytes.bytes, 1, &back), 0);
	assert_int_equal(back.start, 0);
	fgt_memory_sink_done(&bytes);
}

static int ask_the_program(void **state)
{
	FILE *pipe = popen(FGT_PROGRAMS "/symbols-inlines", "re");
	char name[32];
	unsigned long address;

	(void)state;
	if (!pipe)
		return 1;
	while (fscanf(pipe, "%31s %lx", name, &address) == 2) {
		if (!strcmp(name, "inlined"))
			inlined_address = address;
		else
			plain_address = address;
	}
	return pclose(pipe) || !inlined_address || !plain_address;
}

static void image_that_killed_helpers_gets_another_chance(void **state)
{
	const uint64_t minute_ns = UINT64_C(60000000000);
	struct fgt_name_image image = { 0 };
	uint64_t now_ns = minute_ns;

	(void)state;
	for (unsigned int pause = 1; pause <= 256; pause *= 2) {
		unsigned int minutes = pause < 64 ? pause : 64;

		for (int i = 0; i < 4 && fgt_name_image_may_ask(&image, now_ns);
		     i++)
			fgt_name_image_fail(&image, 1, now_ns);
		now_ns += minutes * minute_ns;
		assert_false(fgt_name_image_may_ask(&image, now_ns - 1));
		assert_true(fgt_name_image_may_ask(&image, now_ns));
		assert_true(image.failures < FGT_NAME_FAILURES_DWARF);
	}
	fgt_name_image_give_up(&image);
	assert_false(fgt_name_image_may_ask(&image, UINT64_MAX - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(image_that_killed_helpers_gets_another_chance),
		cmocka_unit_test(inlined_calls_come_innermost_first_with_lines),
		cmocka_unit_test(debug_file_is_found_by_build_id),
		cmocka_unit_test(debug_file_is_found_by_link_and_checksum),
		cmocka_unit_test(debug_file_with_a_wrong_checksum_is_not_taken),
		cmocka_unit_test(minidebuginfo_gives_functions),
		cmocka_unit_test(bomb_in_minidebuginfo_is_ignored),
		cmocka_unit_test(
			function_of_a_stripped_file_is_named_by_its_start),
		cmocka_unit_test(missing_file_gets_its_reason),
		cmocka_unit_test(another_file_at_the_path_is_not_taken),
		cmocka_unit_test(a_second_slice_is_answered_from_the_cache),
		cmocka_unit_test(pack_is_accepted_only_if_whole),
		cmocka_unit_test(
			pack_without_a_name_has_the_start_of_the_function),
	};

	return cmocka_run_group_tests(tests, ask_the_program, NULL);
}
