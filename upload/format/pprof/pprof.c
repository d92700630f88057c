/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the samples of each thread, with the periods that they stand for; then
 * the tables that samples point into. Runs in any thread; must not hold more
 * than the samples of one thread and these tables.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/slice/pace.h"
#include "upload/format/parts/gzip.h"
#include "upload/format/parts/service_line.h"
#include "upload/format/parts/timeline.h"
#include "upload/format/pprof/pprof_parts.h"

/* Values are signed. */
static uint64_t clamp(uint64_t value)
{
	return value < INT64_MAX ? value : INT64_MAX;
}

static uint64_t wall_ns(const struct fgt_ring_slice *slice, uint64_t periods)
{
	return periods > INT64_MAX / slice->period_ns
		       ? INT64_MAX
		       : periods * slice->period_ns;
}

static const char *slice_text(const struct fgt_pprof *pprof, uint32_t id)
{
	return fgt_slice_string(pprof->slice, id);
}

/* ---- Samples ------------------------------------------------------------ */

/* key: the index of a frame, or that of a level, which is never of kind 0. */
static void add_location(struct fgt_pprof *pprof, uint64_t key)
{
	uint32_t id = 0;
	int r = fgt_id_map_add(&pprof->locations, key, &id);

	if (r)
		pprof->error = r;
	fgt_protobuf_put_packed(&pprof->out, (uint64_t)id + 1);
}

/* Leaf first. */
static void put_stack(struct fgt_pprof *pprof, uint32_t node,
		      struct fgt_level state)
{
	const struct fgt_ring_slice *slice = pprof->slice;
	const struct fgt_level unknown = { FGT_LEVEL_NO_STACK, 0 };

	fgt_protobuf_begin(&pprof->out, SAMPLE_LOCATION_ID);
	if (pprof->state_frames == FGT_STATE_FRAMES_LEAF)
		add_location(pprof, fgt_level_key(state));
	if (node == FGT_NODE_NONE)
		add_location(pprof, fgt_level_key(unknown));
	for (; node != FGT_NODE_NONE; node = slice->nodes[node].parent)
		add_location(pprof, slice->nodes[node].frame);
	if (fgt_state_is_at_root(pprof->state_frames))
		add_location(pprof, fgt_level_key(state));
	fgt_protobuf_end(&pprof->out);
}

static void put_sample(struct fgt_pprof *pprof, const struct fgt_sample *sample)
{
	struct fgt_level state = { FGT_LEVEL_STATE,
				   fgt_levels_state_name(pprof->slice,
							 sample->state) };

	fgt_protobuf_begin(&pprof->out, PROFILE_SAMPLE);
	put_stack(pprof, sample->stack, state);
	fgt_protobuf_begin(&pprof->out, SAMPLE_VALUE);
	fgt_protobuf_put_packed(&pprof->out, clamp(sample->periods));
	fgt_protobuf_put_packed(&pprof->out,
				wall_ns(pprof->slice, sample->periods));
	fgt_protobuf_end(&pprof->out);
	fgt_pprof_put_labels(pprof, state, sample);
	fgt_protobuf_end(&pprof->out);
}

static int put_samples(struct fgt_pprof *pprof)
{
	struct fgt_thread_samples *samples = &pprof->samples;
	int r;

	while ((r = fgt_thread_samples_next(samples)) == 1)
		for (uint32_t i = 0; i < samples->ids.count; i++)
			put_sample(pprof, &samples->items[i]);
	return r;
}

/* ---- Locations, functions, mappings ------------------------------------- */

static void put_line(struct fgt_pprof *pprof, uint32_t function, uint32_t line)
{
	fgt_protobuf_begin(&pprof->out, LOCATION_LINE);
	fgt_protobuf_put_uint(&pprof->out, LINE_FUNCTION_ID,
			      (uint64_t)function + 1);
	fgt_protobuf_put_uint(&pprof->out, LINE_LINE, line);
	fgt_protobuf_end(&pprof->out);
}

/* The exact PC of a leaf, the return address of a caller: readers subtract one
 * from the latter. */
static void put_address(struct fgt_pprof *pprof,
			const struct fgt_slice_frame *frame)
{
	uint64_t bias = 0;

	if (frame->frame.flags & FGT_FRAME_MARKER)
		return;
	if (frame->frame.image)
		bias = pprof->slice->images[frame->frame.image - 1].bias;
	fgt_protobuf_put_uint(&pprof->out, LOCATION_MAPPING_ID,
			      frame->frame.image);
	fgt_protobuf_put_uint(&pprof->out, LOCATION_ADDRESS,
			      bias + frame->frame.address);
}

static int put_frame(struct fgt_pprof *pprof, uint32_t index)
{
	const struct fgt_ring_slice *slice = pprof->slice;
	const struct fgt_slice_frame *frame = &slice->frames[index];
	uint32_t count = fgt_levels_of_frame(slice, index), function;

	put_address(pprof, frame);
	for (uint32_t i = 0; i < count; i++) {
		int r = fgt_functions_add_frame(&pprof->functions, index, i,
						&function);

		if (r)
			return r;
		put_line(pprof, function,
			 frame->symbol_count
				 ? slice->symbols[frame->symbol_first + i].line
				 : 0);
	}
	return 0;
}

static int put_location(struct fgt_pprof *pprof, uint32_t index)
{
	uint64_t key = pprof->locations.keys[index];
	uint32_t function;
	int r;

	fgt_protobuf_begin(&pprof->out, PROFILE_LOCATION);
	fgt_protobuf_put_uint(&pprof->out, LOCATION_ID, (uint64_t)index + 1);
	if (key >> 32) {
		r = fgt_functions_add(&pprof->functions, fgt_level_of_key(key),
				      0, &function);
		if (!r)
			put_line(pprof, function, 0);
	} else {
		r = put_frame(pprof, (uint32_t)key);
	}
	fgt_protobuf_end(&pprof->out);
	return r;
}

static void put_function(struct fgt_pprof *pprof, uint32_t index)
{
	const struct fgt_functions *functions = &pprof->functions;
	char buffer[FGT_LEVEL_NAME_MAX];

	fgt_protobuf_begin(&pprof->out, PROFILE_FUNCTION);
	fgt_protobuf_put_uint(&pprof->out, FUNCTION_ID, (uint64_t)index + 1);
	fgt_pprof_put_string(
		pprof, FUNCTION_NAME,
		fgt_level_name(pprof->slice,
			       fgt_functions_level(functions, index), buffer));
	fgt_pprof_put_string(
		pprof, FUNCTION_FILENAME,
		slice_text(pprof, fgt_functions_file(functions, index)));
	fgt_protobuf_end(&pprof->out);
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

static void put_mapping(struct fgt_pprof *pprof, uint32_t index)
{
	const struct fgt_slice_image *image = &pprof->slice->images[index];
	char build_id[2 * FGT_BUILD_ID_MAX + 1] = "";
	bool has_functions, has_lines;

	read_names(pprof->slice, index, &has_functions, &has_lines);
	fgt_protobuf_begin(&pprof->out, PROFILE_MAPPING);
	fgt_protobuf_put_uint(&pprof->out, MAPPING_ID, (uint64_t)index + 1);
	fgt_protobuf_put_uint(&pprof->out, MAPPING_MEMORY_START, image->start);
	fgt_protobuf_put_uint(&pprof->out, MAPPING_MEMORY_LIMIT, image->end);
	fgt_pprof_put_string(pprof, MAPPING_FILENAME,
			     slice_text(pprof, image->path));
	for (uint32_t i = 0; i < image->build_id_len; i++)
		snprintf(build_id + 2 * i, 3, "%02x", image->build_id[i]);
	fgt_pprof_put_string(pprof, MAPPING_BUILD_ID, build_id);
	fgt_protobuf_put_uint(&pprof->out, MAPPING_HAS_FUNCTIONS,
			      has_functions);
	fgt_protobuf_put_uint(&pprof->out, MAPPING_HAS_FILENAMES, has_lines);
	fgt_protobuf_put_uint(&pprof->out, MAPPING_HAS_LINE_NUMBERS, has_lines);
	fgt_protobuf_put_uint(&pprof->out, MAPPING_HAS_INLINE_FRAMES,
			      has_lines);
	fgt_protobuf_end(&pprof->out);
}

/* Readers take the first one as the main program. */
static void put_mappings(struct fgt_pprof *pprof)
{
	const struct fgt_ring_slice *slice = pprof->slice;
	uint32_t main_image = 0;

	for (uint32_t i = slice->image_count; i > 0; i--)
		if (!strcmp(slice_text(pprof, slice->images[i - 1].path),
			    slice->process.exe))
			main_image = i - 1;
	if (slice->image_count)
		put_mapping(pprof, main_image);
	for (uint32_t i = 0; i < slice->image_count; i++)
		if (i != main_image)
			put_mapping(pprof, i);
}

/* Writes all tables; nothing that adds to one may follow it. */
static int put_tables(struct fgt_pprof *pprof)
{
	for (uint32_t i = 0; i < pprof->locations.count; i++) {
		int r = put_location(pprof, i);

		if (r)
			return r;
	}
	for (uint32_t i = 0; i < pprof->functions.ids.count; i++)
		put_function(pprof, i);
	put_mappings(pprof);
	for (uint32_t i = 0; i < pprof->strings.count; i++)
		fgt_protobuf_put_string(&pprof->out, PROFILE_STRING,
					fgt_strings_get(&pprof->strings, i));
	return pprof->error;
}

/* ---- The profile -------------------------------------------------------- */

static void put_value_type(struct fgt_pprof *pprof, uint32_t field,
			   const char *type, const char *unit)
{
	fgt_protobuf_begin(&pprof->out, field);
	fgt_pprof_put_string(pprof, VALUE_TYPE_TYPE, type);
	fgt_pprof_put_string(pprof, VALUE_TYPE_UNIT, unit);
	fgt_protobuf_end(&pprof->out);
}

static void put_comment(struct fgt_pprof *pprof, const char *text)
{
	fgt_protobuf_put_packed(&pprof->out, fgt_pprof_string(pprof, text));
}

static void put_comments(struct fgt_pprof *pprof)
{
	const struct fgt_ring_slice *slice = pprof->slice;
	uint64_t lowered;
	uint32_t slowest = fgt_pace_slowest(slice, &lowered);
	char text[256];

	fgt_protobuf_begin(&pprof->out, PROFILE_COMMENT);
	put_comment(pprof, "fgtrace " FGT_VERSION);
	snprintf(text, sizeof(text), "process %s, pid %d, host %s",
		 slice->process.name, slice->process.pid, slice->process.host);
	put_comment(pprof, text);
	if (fgt_service_count(&slice->process.service)) {
		fgt_service_line(&slice->process, text, sizeof(text));
		put_comment(pprof, text);
	}
	snprintf(text, sizeof(text),
		 "effective hz %.3f, ticks missed %" PRIu64 ", evicted %" PRIu64
		 ", lapped %" PRIu64 ": shares are of the ticks taken",
		 slice->effective_hz, slice->missed_ticks, slice->evicted_ticks,
		 slice->lapped_ticks);
	put_comment(pprof, text);
	if (slowest > 1) {
		snprintf(text, sizeof(text),
			 "rate lowered up to %u-fold to keep "
			 "sampling.max_cpu_percent; samples are weighed",
			 slowest);
		put_comment(pprof, text);
	}
	for (uint32_t i = 0; i < slice->note_count; i++) {
		snprintf(text, sizeof(text), "%s: %s",
			 fgt_slice_string(slice, slice->notes[i].key),
			 fgt_slice_string(slice, slice->notes[i].value));
		put_comment(pprof, text);
	}
	fgt_protobuf_end(&pprof->out);
}

static void put_head(struct fgt_pprof *pprof)
{
	const struct fgt_ring_slice *slice = pprof->slice;
	uint64_t first_ns = slice->tick_ns[0];
	uint64_t end_ns = fgt_timeline_end_ns(slice, slice->tick_count - 1);

	put_value_type(pprof, PROFILE_SAMPLE_TYPE, "samples", "count");
	put_value_type(pprof, PROFILE_SAMPLE_TYPE, "wall", "nanoseconds");
	fgt_protobuf_put_uint(&pprof->out, PROFILE_TIME_NANOS,
			      clamp(fgt_slice_wall_ns(slice, first_ns)));
	fgt_protobuf_put_uint(&pprof->out, PROFILE_DURATION_NANOS,
			      clamp(end_ns - first_ns));
	put_value_type(pprof, PROFILE_PERIOD_TYPE, "wall", "nanoseconds");
	fgt_protobuf_put_uint(&pprof->out, PROFILE_PERIOD,
			      clamp(slice->period_ns));
	fgt_pprof_put_string(pprof, PROFILE_DEFAULT_SAMPLE_TYPE, "wall");
	put_comments(pprof);
}

static int write_profile(struct fgt_pprof *pprof,
			 const struct fgt_transaction_facts *facts,
			 const struct fgt_sink *sink)
{
	int r;

	fgt_protobuf_init(&pprof->out, sink);
	fgt_functions_init(&pprof->functions, pprof->slice);
	r = fgt_strings_init(&pprof->strings);
	if (!r)
		r = fgt_thread_samples_init(&pprof->samples, pprof->slice,
					    facts, false);
	if (!r) {
		put_head(pprof);
		r = put_samples(pprof);
	}
	if (!r)
		r = put_tables(pprof);
	if (!r)
		r = fgt_protobuf_finish(&pprof->out);
	fgt_functions_done(&pprof->functions);
	fgt_strings_done(&pprof->strings);
	fgt_id_map_done(&pprof->locations);
	fgt_protobuf_done(&pprof->out);
	fgt_thread_samples_done(&pprof->samples);
	return r;
}

int fgt_pprof_write(const struct fgt_ring_slice *slice,
		    const struct fgt_format_options *options,
		    const struct fgt_sink *sink)
{
	FGT_AUTO(fgt_gzip_free) struct fgt_gzip *gzip = NULL;
	struct fgt_pprof pprof = { .slice = slice,
				   .state_frames = options->state_frames };
	int r;

	fgt_pprof_find_waits(&pprof);
	r = fgt_gzip_new(sink, &gzip);
	if (!r)
		r = write_profile(&pprof, options->facts, fgt_gzip_sink(gzip));
	return r ? r : fgt_gzip_finish(gzip);
}
