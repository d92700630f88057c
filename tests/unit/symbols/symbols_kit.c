/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices made by hand for the tests of symbols. Runs in tests.
 */
#include "tests/unit/symbols/symbols_kit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "agent/symbols/elf/elf_ident.h"

#define FRAMES_MAX 8192

static uint64_t own_start_time(void)
{
	FGT_AUTO(fgt_file_close) FILE *file = fopen("/proc/self/stat", "re");
	char text[1024] = "", *at;

	assert_non_null(file);
	assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	assert_non_null(at);
	return strtoull(at, NULL, 10);
}

struct fgt_ring_slice *kit_slice_of(const char *image_path)
{
	struct fgt_ring_slice *slice = NULL;
	struct fgt_slice_image *image;
	struct fgt_elf_ident ident = { 0 };
	struct stat status = { 0 };
	int fd = open(image_path, O_RDONLY | O_CLOEXEC);

	assert_int_equal(fgt_slice_new(&slice), 0);
	slice->images = calloc(4, sizeof(*slice->images));
	slice->frames = calloc(FRAMES_MAX, sizeof(*slice->frames));
	assert_true(slice->images && slice->frames);
	slice->image_count = 1;
	image = &slice->images[0];
	assert_int_equal(fgt_strings_intern(&slice->strings, image_path,
					    strlen(image_path), &image->path),
			 0);
	if (fd >= 0) {
		assert_int_equal(fstat(fd, &status), 0);
		fgt_elf_ident_read(fd, &ident);
		fgt_fd_close(fd);
	}
	image->dev = status.st_dev;
	image->ino = status.st_ino;
	image->build_id_len = ident.build_id_len;
	memcpy(image->build_id, ident.build_id, sizeof(image->build_id));
	slice->process.pid = getpid();
	slice->process.uid = getuid();
	slice->process.start_time = own_start_time();
	gethostname(slice->process.host, sizeof(slice->process.host) - 1);
	return slice;
}

void kit_slice_free(struct fgt_ring_slice *slice)
{
	fgt_ring_slice_free(slice);
}

uint32_t kit_add_frame(struct fgt_ring_slice *slice, uint32_t image,
		       uint64_t address, uint32_t flags)
{
	assert_true(slice->frame_count < FRAMES_MAX);
	slice->frames[slice->frame_count].frame = (struct fgt_frame){
		.address = address, .image = image, .flags = flags
	};
	return slice->frame_count++;
}

const struct fgt_symbol *kit_symbol(const struct fgt_ring_slice *slice,
				    uint32_t frame, uint32_t at)
{
	const struct fgt_slice_frame *entry = &slice->frames[frame];

	assert_true(at < entry->symbol_count);
	return &slice->symbols[entry->symbol_first + at];
}

const char *kit_function(const struct fgt_ring_slice *slice, uint32_t frame,
			 uint32_t at)
{
	return fgt_slice_string(slice, kit_symbol(slice, frame, at)->function);
}

const char *kit_file(const struct fgt_ring_slice *slice, uint32_t frame,
		     uint32_t at)
{
	return fgt_slice_string(slice, kit_symbol(slice, frame, at)->file);
}

struct fgt_symbolizer *
kit_symbolizer(const struct fgt_symbolizer_options *options)
{
	struct fgt_symbolizer *symbolizer = NULL;

	assert_int_equal(fgt_symbolizer_new(options, &symbolizer), 0);
	return symbolizer;
}

uint64_t kit_address_of(const char *file, const char *symbol)
{
	char command[4096], line[4096], name[4096];
	uint64_t address = 0, found = 0;
	FILE *pipe;

	snprintf(command, sizeof(command),
		 "nm '%s' 2>/dev/null; nm -D '%s' 2>/dev/null", file, file);
	pipe = popen(command, "re");
	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe)) {
		if (sscanf(line, "%" SCNx64 " %*c %4000s", &address, name) != 2)
			continue;
		name[strcspn(name, "@")] = '\0'; /* the version */
		if (!strcmp(name, symbol))
			found = address;
	}
	pclose(pipe);
	if (!found)
		fail_msg("no symbol %s in %s", symbol, file);
	return found;
}
