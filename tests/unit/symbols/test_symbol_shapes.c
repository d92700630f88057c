/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of symbols on programs of several compilers, linkers and languages;
 * truth comes from the programs themselves, nm, objdump and eu-addr2line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include <inttypes.h>
#include <libgen.h>

#include "tests/unit/symbols/symbols_kit.h"

#define SAMPLES 300

static const char *const c_shapes[] = {
	FGT_PROGRAMS "/shapes-plain",  FGT_PROGRAMS "/shapes-dwarf4",
	FGT_PROGRAMS "/shapes-packed", FGT_PROGRAMS "/shapes-static",
	FGT_PROGRAMS "/shapes-fixed",  FGT_PROGRAMS "/shapes-no-id",
	FGT_PROGRAMS "/shapes-lazy",   FGT_PROGRAMS "/shapes-clang",
};

static bool exists(const char *path)
{
	return access(path, R_OK) == 0;
}

static void resolve(struct fgt_ring_slice *slice)
{
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(NULL);

	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, true), 0);
	for (uint32_t i = 0; i < slice->frame_count; i++)
		assert_true(slice->frames[i].symbol_count > 0);
}

/* Runs the program: the ELF addresses at which it saw itself. */
static void ask_program(const char *path, uint64_t *outer, uint64_t *hidden)
{
	uint64_t main_address = 0, address;
	char name[32];
	FILE *pipe = popen(path, "re");

	assert_non_null(pipe);
	*outer = *hidden = 0;
	while (fscanf(pipe, "%31s %" SCNx64, name, &address) == 2) {
		if (!strcmp(name, "outer"))
			*outer = address;
		else if (!strcmp(name, "hidden"))
			*hidden = address;
		else
			main_address = address;
	}
	assert_int_equal(pclose(pipe), 0);
	assert_true(*outer && *hidden && main_address);
	*outer -= main_address - kit_address_of(path, "main");
	*hidden -= main_address - kit_address_of(path, "main");
}

/* The line of shapes.c that has this remark. */
static uint32_t line_with(const char *file, const char *remark)
{
	FGT_AUTO(fgt_file_close) FILE *source = fopen(file, "re");
	char text[256];

	assert_non_null(source);
	for (uint32_t line = 1; fgets(text, sizeof(text), source); line++)
		if (strstr(text, remark))
			return line;
	fail_msg("no line with %s in %s", remark, file);
	return 0;
}

static void expect_level(const struct fgt_ring_slice *slice, uint32_t at,
			 const char *function, const char *remark)
{
	const char *file = kit_file(slice, 0, at);

	assert_string_equal(kit_function(slice, 0, at), function);
	assert_non_null(strstr(file, "shapes.c"));
	assert_int_equal(kit_symbol(slice, 0, at)->line,
			 line_with(file, remark));
}

static void unwound_stack_is_what_the_program_saw(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(c_shapes) / sizeof(*c_shapes); i++) {
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *slice = NULL;
		uint64_t outer, hidden;

		if (!exists(c_shapes[i]))
			continue; /* no clang here */
		ask_program(c_shapes[i], &outer, &hidden);
		slice = kit_slice_of(c_shapes[i]);
		kit_add_frame(slice, 1, outer, FGT_FRAME_CALLER);
		kit_add_frame(slice, 1, hidden, FGT_FRAME_CALLER);
		resolve(slice);
		assert_int_equal(slice->frames[0].symbol_count, 3);
		expect_level(slice, 0, "innermost", "line of innermost */");
		expect_level(slice, 1, "middle", "line of middle */");
		expect_level(slice, 2, "outer_function", "line of outer */");
		assert_string_equal(kit_function(slice, 1, 0),
				    "hidden_function");
	}
}

/* The last address of a function's code, plus one. */
static uint64_t end_of(const char *path, const char *symbol)
{
	char command[4096], line[512], name[256];
	uint64_t start, size, end = 0;
	FILE *pipe;

	snprintf(command, sizeof(command), "nm -S '%s'", path);
	pipe = popen(command, "re");
	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe))
		if (sscanf(line, "%" SCNx64 " %" SCNx64 " %*c %255s", &start,
			   &size, name) == 3 &&
		    !strcmp(name, symbol))
			end = start + size;
	pclose(pipe);
	assert_true(end);
	return end;
}

static void callers_are_looked_up_before_their_return_address(void **state)
{
	const char *path = FGT_PROGRAMS "/shapes-plain";
	uint64_t end = end_of(path, "outer_function");
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_slice_of(path);

	(void)state;
	kit_add_frame(slice, 1, end, FGT_FRAME_CALLER);
	kit_add_frame(slice, 1, end, 0);
	kit_add_frame(slice, 1, end - 1, 0);
	resolve(slice);
	assert_string_equal(kit_function(slice, 0, 0), "outer_function");
	assert_string_not_equal(kit_function(slice, 1, 0), "outer_function");
	assert_string_equal(kit_function(slice, 2, 0), "outer_function");
}

/* One answer of eu-addr2line: function, file:line:column, for each level. */
static void expect_as_addr2line(FILE *pipe, const struct fgt_ring_slice *slice,
				uint32_t frame, unsigned int *ret_equal)
{
	char function[8192], place[8192];
	bool is_equal = true;
	uint32_t at = 0, count = slice->frames[frame].symbol_count;
	int next;

	/* The address, then pairs of lines until the next address. */
	assert_non_null(fgets(function, sizeof(function), pipe));
	for (;;) {
		char *colon, *inlined;

		next = fgetc(pipe);
		ungetc(next, pipe);
		if (next == EOF || next == '0' ||
		    !fgets(function, sizeof(function), pipe) ||
		    !fgets(place, sizeof(place), pipe))
			break;
		function[strcspn(function, "\n")] = '\0';
		inlined = strstr(function, " inlined at");
		if (inlined)
			*inlined = '\0';
		colon = strchr(place, ':');
		if (at >= count || !colon) {
			is_equal = false;
			continue;
		}
		*colon = '\0';
		is_equal &= !strcmp(basename(place),
				    basename((char *)(uintptr_t)kit_file(
					    slice, frame, at))) ||
			    !strcmp(place, "?"
					   "?");
		is_equal &= (uint32_t)atoi(colon + 1) ==
			    kit_symbol(slice, frame, at)->line;
		/* Each tool has its own favourite among aliases. */
		if (at + 1 < count)
			is_equal &= !strcmp(function,
					    kit_function(slice, frame, at));
		at++;
	}
	*ret_equal += is_equal && at == count;
}

/* The bounds of .text. */
static void text_of(const char *path, uint64_t *start, uint64_t *size)
{
	char command[4096];
	FILE *pipe;

	snprintf(command, sizeof(command),
		 "readelf -SW '%s' | sed -n "
		 "'s/.* \\.text *PROGBITS *\\([0-9a-f]*\\) [0-9a-f]* "
		 "\\([0-9a-f]*\\) .*/\\1 \\2/p'",
		 path);
	pipe = popen(command, "re");
	assert_non_null(pipe);
	assert_int_equal(fscanf(pipe, "%" SCNx64 " %" SCNx64, start, size), 2);
	pclose(pipe);
}

/* Addresses of real functions; those between two belong to none. */
static void compare_with_addr2line(const char *path)
{
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_slice_of(path);
	static char command[SAMPLES * 24 + 4096];
	unsigned int equal = 0, compared = 0;
	uint64_t start, size, random = 1;
	size_t len;
	FILE *pipe;

	text_of(path, &start, &size);
	len = (size_t)snprintf(command, sizeof(command),
			       "eu-addr2line -a -f -i -C -e '%s'", path);
	for (int i = 0; i < SAMPLES; i++) {
		uint64_t address;

		random = random * 6364136223846793005u + 1442695040888963407u;
		address = start + (random >> 20) % size;
		kit_add_frame(slice, 1, address, 0);
		len += (size_t)snprintf(command + len, sizeof(command) - len,
					" 0x%" PRIx64, address);
	}
	resolve(slice);
	pipe = popen(command, "re");
	assert_non_null(pipe);
	for (uint32_t i = 0; i < SAMPLES; i++) {
		unsigned int before = equal;

		expect_as_addr2line(pipe, slice, i, &equal);
		if (kit_symbol(slice, i, 0)->reason != FGT_SYMBOL_FOUND)
			equal = before; /* padding: no function */
		else
			compared++;
	}
	pclose(pipe);
	print_message("%s: %u of %u as eu-addr2line has them\n", path, equal,
		      compared);
	assert_true(compared > SAMPLES / 4);
	assert_true(equal * 100 >= compared * 99);
}

static void lines_and_inlined_calls_agree_with_addr2line(void **state)
{
	static const char *const files[] = {
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/lib/aarch64-linux-gnu/libc.so.6",
		FGT_PROGRAMS "/shapes-static",
		FGT_PROGRAMS "/shapes-dwarf4",
	};

	(void)state;
	if (system("eu-addr2line --version >/dev/null 2>&1"))
		skip();
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (exists(files[i]))
			compare_with_addr2line(files[i]);
}

static void plt_entries_are_named_as_objdump_names_them(void **state)
{
	static const char *const files[] = {
		FGT_PROGRAMS "/shapes-plain", FGT_PROGRAMS "/shapes-lazy",
		"/lib/x86_64-linux-gnu/libm.so.6"
	};

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		FGT_AUTO(fgt_ring_slice_free)
		struct fgt_ring_slice *slice = kit_slice_of(files[i]);
		static char names[256][256];
		char command[4096], line[512];
		uint64_t address;
		FILE *pipe;

		snprintf(command, sizeof(command),
			 "objdump -d '%s' | grep '@plt>:$'", files[i]);
		pipe = popen(command, "re");
		assert_non_null(pipe);
		while (slice->frame_count < 256 &&
		       fgets(line, sizeof(line), pipe) &&
		       sscanf(line, "%" SCNx64 " <%255[^>]", &address,
			      names[slice->frame_count]) == 2)
			if (names[slice->frame_count][0] != '*')
				kit_add_frame(slice, 1, address + 4, 0);
		pclose(pipe);
		resolve(slice);
		assert_true(slice->frame_count > 0);
		for (uint32_t k = 0; k < slice->frame_count; k++)
			assert_string_equal(kit_function(slice, k, 0),
					    names[k]);
	}
}

static void expect_cxx(const char *symbol, enum fgt_demangle mode,
		       const char *expected)
{
	const char *path = FGT_PROGRAMS "/shapes-cxx";
	const struct fgt_symbolizer_options options = { .demangle = mode };
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_slice_of(path);
	FGT_AUTO(fgt_symbolizer_free)
	struct fgt_symbolizer *symbolizer = kit_symbolizer(&options);
	const struct fgt_slice_frame *frame;

	kit_add_frame(slice, 1, kit_address_of(path, symbol), 0);
	assert_int_equal(fgt_symbolizer_resolve(symbolizer, slice, false), 0);
	frame = &slice->frames[0];
	assert_string_equal(kit_function(slice, 0, frame->symbol_count - 1),
			    expected);
}

static void cxx_functions_are_demangled(void **state)
{
	(void)state;
	if (!exists(FGT_PROGRAMS "/shapes-cxx"))
		skip();
	expect_cxx("_ZN8geometry5scaleEdi", FGT_DEMANGLE_FULL,
		   "geometry::scale(double, int)");
	expect_cxx("_ZN8geometry5scaleEdi", FGT_DEMANGLE_NAME,
		   "geometry::scale");
	expect_cxx("_ZN8geometry5scaleEdi", FGT_DEMANGLE_NO,
		   "_ZN8geometry5scaleEdi");
	expect_cxx("_ZNK8geometry5PointIdE3dotERKS1_", FGT_DEMANGLE_FULL,
		   "geometry::Point<double>::dot(geometry::Point<double> "
		   "const&) const");
}

static void an_inlined_lambda_has_its_scope(void **state)
{
	const char *path = FGT_PROGRAMS "/shapes-cxx";
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	bool has_lambda = false, has_apply = false;
	uint64_t start, end;

	(void)state;
	if (!exists(path))
		skip();
	slice = kit_slice_of(path);
	start = kit_address_of(path, "_ZN8geometry11uses_lambdaEi");
	end = end_of(path, "_ZN8geometry11uses_lambdaEi");
	while (start < end)
		kit_add_frame(slice, 1, start++, 0);
	resolve(slice);
	for (uint32_t i = 0; i < slice->frame_count; i++) {
		uint32_t last = slice->frames[i].symbol_count - 1;

		assert_string_equal(kit_function(slice, i, last),
				    "geometry::uses_lambda(int)");
		for (uint32_t k = 0; k < last; k++) {
			const char *name = kit_function(slice, i, k);

			has_lambda |= !strcmp(name, "geometry::uses_lambda::"
						    "{lambda}::operator()");
			has_apply |= !strncmp(name, "geometry::apply<", 16);
		}
	}
	assert_true(has_lambda && has_apply);
}

static void rust_functions_are_demangled(void **state)
{
	const char *path = FGT_PROGRAMS "/shapes-rust";
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	char line[512], name[256];
	uint64_t address = 0;
	FILE *pipe;

	(void)state;
	if (!exists(path))
		skip();
	slice = kit_slice_of(path);
	pipe = popen("nm '" FGT_PROGRAMS "/shapes-rust' | "
		     "grep 'garden.*\\(water\\|grow\\)'",
		     "re");
	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe) &&
	       sscanf(line, "%" SCNx64 " %*c %255s", &address, name) == 2)
		kit_add_frame(slice, 1, address, 0);
	pclose(pipe);
	assert_true(slice->frame_count > 0);
	resolve(slice);
	for (uint32_t i = 0; i < slice->frame_count; i++) {
		const char *text = kit_function(
			slice, i, slice->frames[i].symbol_count - 1);

		assert_non_null(strstr(text, "garden"));
		assert_null(strstr(text, "17h"));
		assert_null(strstr(text, "_ZN"));
		assert_non_null(strstr(kit_file(slice, i, 0), "shapes.rs"));
	}
}

/* Fault U8. */
static void a_name_without_end_is_cut(void **state)
{
	const char *path = FGT_PROGRAMS "/shapes-long";
	FGT_AUTO(fgt_ring_slice_free)
	struct fgt_ring_slice *slice = kit_slice_of(path);
	const char *name;

	(void)state;
	kit_add_frame(
		slice, 1,
		kit_address_of(FGT_PROGRAMS "/shapes-no-id", "outer_function"),
		0);
	resolve(slice);
	name = kit_function(slice, 0, slice->frames[0].symbol_count - 1);
	assert_true(strlen(name) > 1000 && strlen(name) < FGT_STRING_MAX);
	assert_int_equal(strspn(name, "n"), strlen(name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unwound_stack_is_what_the_program_saw),
		cmocka_unit_test(
			callers_are_looked_up_before_their_return_address),
		cmocka_unit_test(lines_and_inlined_calls_agree_with_addr2line),
		cmocka_unit_test(plt_entries_are_named_as_objdump_names_them),
		cmocka_unit_test(cxx_functions_are_demangled),
		cmocka_unit_test(an_inlined_lambda_has_its_scope),
		cmocka_unit_test(rust_functions_are_demangled),
		cmocka_unit_test(a_name_without_end_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
