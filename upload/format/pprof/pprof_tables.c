/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locations, functions, mappings and strings of a pprof profile. Runs in any
 * thread; must not copy a string of the slice: a string is kept as the place
 * where the slice has it.
 */
#include "upload/format/pprof/pprof_tables.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/slice/pace.h"

#define COMMENT_MAX 256

/* Beside enum fgt_level_kind, whose levels are strings too. */
enum string_kind {
	STRING_TEXT = 16, /* id: string id of the slice */
	STRING_THREAD, /* index of the thread */
	STRING_BUILD_ID, /* index of the image */
	STRING_WORD, /* enum fgt_pprof_word */
	STRING_COMMENT,
};

void fgt_pprof_tables_init(struct fgt_pprof_tables *tables,
			   const struct fgt_ring_slice *slice,
			   struct fgt_protobuf *out)
{
	*tables = (struct fgt_pprof_tables){ .slice = slice, .out = out };
	fgt_functions_init(&tables->functions, slice);
}

void fgt_pprof_tables_done(struct fgt_pprof_tables *tables)
{
	fgt_functions_done(&tables->functions);
	fgt_id_map_done(&tables->locations);
	fgt_id_map_done(&tables->strings);
}

/* Ids begin at 1: no location has id 0, and string 0 is "". */
static uint64_t add(struct fgt_pprof_tables *tables, struct fgt_id_map *map,
		    uint64_t key)
{
	uint32_t id = 0;
	int r = fgt_id_map_add(map, key, &id);

	if (r && !tables->error)
		tables->error = r;
	return (uint64_t)id + 1;
}

static uint64_t add_string(struct fgt_pprof_tables *tables, uint32_t kind,
			   uint32_t id)
{
	return add(tables, &tables->strings, (uint64_t)kind << 32 | id);
}

/* Frames and levels share the keys: kind 0, a function, is no location. */
uint64_t fgt_pprof_frame(struct fgt_pprof_tables *tables, uint32_t frame)
{
	return add(tables, &tables->locations, frame);
}

uint64_t fgt_pprof_level(struct fgt_pprof_tables *tables,
			 struct fgt_level level)
{
	return add(tables, &tables->locations, fgt_level_key(level));
}

uint64_t fgt_pprof_word(struct fgt_pprof_tables *tables,
			enum fgt_pprof_word word)
{
	return add_string(tables, STRING_WORD, word);
}

uint64_t fgt_pprof_level_name(struct fgt_pprof_tables *tables,
			      struct fgt_level level)
{
	return add_string(tables, level.kind, level.id);
}

uint64_t fgt_pprof_thread_name(struct fgt_pprof_tables *tables, uint32_t thread)
{
	return add_string(tables, STRING_THREAD, thread);
}

uint64_t fgt_pprof_comment(struct fgt_pprof_tables *tables, uint32_t number)
{
	return add_string(tables, STRING_COMMENT, number);
}

static uint64_t add_text(struct fgt_pprof_tables *tables, uint32_t id)
{
	if (!*fgt_slice_string(tables->slice, id))
		return 0;
	return add_string(tables, STRING_TEXT, id);
}

/* ---- Comments ----------------------------------------------------------- */

bool fgt_pprof_comment_text(const struct fgt_ring_slice *slice, uint32_t number,
			    char ret_text[COMMENT_MAX])
{
	const struct fgt_process_info *process = &slice->process;
	uint64_t lowered;
	uint32_t slowest = fgt_pace_slowest(slice, &lowered);

	switch (number) {
	case 0:
		snprintf(ret_text, COMMENT_MAX, "fgtrace " FGT_VERSION);
		return true;
	case 1:
		snprintf(ret_text, COMMENT_MAX, "process %s, pid %d, host %s",
			 process->name, process->pid, process->host);
		return true;
	case 2:
		snprintf(ret_text, COMMENT_MAX,
			 "effective hz %.3f, ticks missed %" PRIu64
			 ", evicted %" PRIu64 ", lapped %" PRIu64,
			 slice->effective_hz, slice->missed_ticks,
			 slice->evicted_ticks, slice->lapped_ticks);
		return true;
	case 3:
		if (slowest < 2)
			return false;
		snprintf(ret_text, COMMENT_MAX,
			 "rate lowered up to %u-fold to keep "
			 "sampling.max_cpu_percent; samples are weighed",
			 slowest);
		return true;
	default:
		return false;
	}
}

/* ---- Strings ------------------------------------------------------------ */

static void put_text(struct fgt_pprof_tables *tables, const char *text)
{
	fgt_protobuf_put_string(tables->out, FGT_PPROF_STRING, text);
}

static void put_build_id(struct fgt_pprof_tables *tables, uint32_t index)
{
	const struct fgt_slice_image *image = &tables->slice->images[index];
	char hex[2 * FGT_BUILD_ID_MAX + 1] = "";

	for (uint32_t i = 0; i < image->build_id_len; i++)
		snprintf(hex + 2 * i, 3, "%02x", image->build_id[i]);
	put_text(tables, hex);
}

static void put_thread_name(struct fgt_pprof_tables *tables, uint32_t index)
{
	const struct fgt_slice_thread *thread = &tables->slice->threads[index];
	const char *name = fgt_slice_string(tables->slice, thread->name);
	char numbered[32];

	snprintf(numbered, sizeof(numbered), "thread %d", thread->tid);
	put_text(tables, *name ? name : numbered);
}

static void put_string(struct fgt_pprof_tables *tables, uint64_t key)
{
	static const char *const words[] = {
		[FGT_PPROF_SAMPLES] = "samples",
		[FGT_PPROF_COUNT] = "count",
		[FGT_PPROF_WALL] = "wall",
		[FGT_PPROF_NANOSECONDS] = "nanoseconds",
		[FGT_PPROF_THREAD] = "thread",
		[FGT_PPROF_THREAD_ID] = "thread_id",
		[FGT_PPROF_STATE] = "state",
	};
	const struct fgt_level level = fgt_level_of_key(key);
	char buffer[FGT_LEVEL_NAME_MAX], comment[COMMENT_MAX] = "";

	switch (level.kind) {
	case STRING_TEXT:
		put_text(tables, fgt_slice_string(tables->slice, level.id));
		return;
	case STRING_THREAD:
		put_thread_name(tables, level.id);
		return;
	case STRING_BUILD_ID:
		put_build_id(tables, level.id);
		return;
	case STRING_WORD:
		put_text(tables, words[level.id]);
		return;
	case STRING_COMMENT:
		fgt_pprof_comment_text(tables->slice, level.id, comment);
		put_text(tables, comment);
		return;
	default:
		put_text(tables, fgt_level_name(tables->slice, level, buffer));
	}
}

/* ---- Locations, functions, mappings ------------------------------------- */

enum {
	LOCATION_ID = 1,
	LOCATION_MAPPING_ID,
	LOCATION_ADDRESS,
	LOCATION_LINE,
	LINE_FUNCTION_ID = 1,
	LINE_LINE,
	FUNCTION_ID = 1,
	FUNCTION_NAME,
	FUNCTION_FILENAME = 4,
	MAPPING_ID = 1,
	MAPPING_MEMORY_START,
	MAPPING_MEMORY_LIMIT,
	MAPPING_FILENAME = 5,
	MAPPING_BUILD_ID,
	MAPPING_HAS_FUNCTIONS,
	MAPPING_HAS_FILENAMES,
	MAPPING_HAS_LINE_NUMBERS,
	MAPPING_HAS_INLINE_FRAMES,
};

static void put_line(struct fgt_pprof_tables *tables, uint32_t function,
		     uint32_t line)
{
	fgt_protobuf_begin(tables->out, LOCATION_LINE);
	fgt_protobuf_put_uint(tables->out, LINE_FUNCTION_ID,
			      (uint64_t)function + 1);
	fgt_protobuf_put_uint(tables->out, LINE_LINE, line);
	fgt_protobuf_end(tables->out);
}

/* The exact PC of a leaf, the return address of a caller: readers subtract one
 * from the latter. */
static void put_address(struct fgt_pprof_tables *tables,
			const struct fgt_slice_frame *frame)
{
	uint64_t bias = 0;

	if (frame->frame.flags & FGT_FRAME_MARKER)
		return;
	if (frame->frame.image)
		bias = tables->slice->images[frame->frame.image - 1].bias;
	fgt_protobuf_put_uint(tables->out, LOCATION_MAPPING_ID,
			      frame->frame.image);
	fgt_protobuf_put_uint(tables->out, LOCATION_ADDRESS,
			      bias + frame->frame.address);
}

static int put_frame(struct fgt_pprof_tables *tables, uint32_t index)
{
	const struct fgt_ring_slice *slice = tables->slice;
	const struct fgt_slice_frame *frame = &slice->frames[index];
	uint32_t count = fgt_functions_count(slice, index), function;

	put_address(tables, frame);
	for (uint32_t i = 0; i < count; i++) {
		int r = fgt_functions_add_frame(&tables->functions, index, i,
						&function);

		if (r)
			return r;
		put_line(tables, function,
			 frame->symbol_count
				 ? slice->symbols[frame->symbol_first + i].line
				 : 0);
	}
	return 0;
}

static int put_location(struct fgt_pprof_tables *tables, uint32_t index)
{
	uint64_t key = tables->locations.keys[index];
	uint32_t function;
	int r;

	fgt_protobuf_begin(tables->out, FGT_PPROF_LOCATION);
	fgt_protobuf_put_uint(tables->out, LOCATION_ID, (uint64_t)index + 1);
	if (key >> 32) {
		r = fgt_functions_add(&tables->functions, fgt_level_of_key(key),
				      0, &function);
		if (!r)
			put_line(tables, function, 0);
	} else {
		r = put_frame(tables, (uint32_t)key);
	}
	fgt_protobuf_end(tables->out);
	return r;
}

static void put_function(struct fgt_pprof_tables *tables, uint32_t index)
{
	const struct fgt_functions *functions = &tables->functions;

	fgt_protobuf_begin(tables->out, FGT_PPROF_FUNCTION);
	fgt_protobuf_put_uint(tables->out, FUNCTION_ID, (uint64_t)index + 1);
	fgt_protobuf_put_uint(
		tables->out, FUNCTION_NAME,
		fgt_pprof_level_name(tables,
				     fgt_functions_level(functions, index)));
	fgt_protobuf_put_uint(
		tables->out, FUNCTION_FILENAME,
		add_text(tables, fgt_functions_file(functions, index)));
	fgt_protobuf_end(tables->out);
}

/* Readers resolve names themselves for a mapping that lacks some. */
static void read_names(const struct fgt_ring_slice *slice, uint32_t image,
		       bool *ret_has_functions, bool *ret_has_lines)
{
	bool has_functions = true, has_lines = true;

	for (uint32_t i = 0; i < slice->frame_count; i++) {
		const struct fgt_slice_frame *frame = &slice->frames[i];

		if (frame->frame.image != image + 1)
			continue;
		has_functions &= frame->symbol_count > 0;
		for (uint32_t s = 0; s < frame->symbol_count; s++) {
			const struct fgt_symbol *symbol =
				&slice->symbols[frame->symbol_first + s];

			has_functions &= symbol->reason == FGT_SYMBOL_FOUND;
			has_lines &= symbol->file && symbol->line;
		}
	}
	*ret_has_functions = has_functions;
	*ret_has_lines = has_functions && has_lines;
}

static void put_mapping(struct fgt_pprof_tables *tables, uint32_t index)
{
	const struct fgt_slice_image *image = &tables->slice->images[index];
	bool has_functions, has_lines;

	read_names(tables->slice, index, &has_functions, &has_lines);
	fgt_protobuf_begin(tables->out, FGT_PPROF_MAPPING);
	fgt_protobuf_put_uint(tables->out, MAPPING_ID, (uint64_t)index + 1);
	fgt_protobuf_put_uint(tables->out, MAPPING_MEMORY_START, image->start);
	fgt_protobuf_put_uint(tables->out, MAPPING_MEMORY_LIMIT, image->end);
	fgt_protobuf_put_uint(tables->out, MAPPING_FILENAME,
			      add_text(tables, image->path));
	if (image->build_id_len)
		fgt_protobuf_put_uint(
			tables->out, MAPPING_BUILD_ID,
			add_string(tables, STRING_BUILD_ID, index));
	fgt_protobuf_put_uint(tables->out, MAPPING_HAS_FUNCTIONS,
			      has_functions);
	fgt_protobuf_put_uint(tables->out, MAPPING_HAS_FILENAMES, has_lines);
	fgt_protobuf_put_uint(tables->out, MAPPING_HAS_LINE_NUMBERS, has_lines);
	fgt_protobuf_put_uint(tables->out, MAPPING_HAS_INLINE_FRAMES,
			      has_lines);
	fgt_protobuf_end(tables->out);
}

/* Readers take the first one as the main program. */
static void put_mappings(struct fgt_pprof_tables *tables)
{
	const struct fgt_ring_slice *slice = tables->slice;
	uint32_t main_image = 0;

	for (uint32_t i = slice->image_count; i > 0; i--)
		if (!strcmp(fgt_slice_string(slice, slice->images[i - 1].path),
			    slice->process.exe))
			main_image = i - 1;
	if (slice->image_count)
		put_mapping(tables, main_image);
	for (uint32_t i = 0; i < slice->image_count; i++)
		if (i != main_image)
			put_mapping(tables, i);
}

int fgt_pprof_tables_put(struct fgt_pprof_tables *tables)
{
	int r;

	for (uint32_t i = 0; i < tables->locations.count; i++) {
		r = put_location(tables, i);
		if (r)
			return r;
	}
	for (uint32_t i = 0; i < tables->functions.ids.count; i++)
		put_function(tables, i);
	put_mappings(tables);
	put_text(tables, "");
	for (uint32_t i = 0; i < tables->strings.count; i++)
		put_string(tables, tables->strings.keys[i]);
	return tables->error;
}
