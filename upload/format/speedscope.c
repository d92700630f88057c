/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A "sampled" profile for each thread: stacks root first, then the duration of
 * each. All begin at the slice's first tick, so that equal positions are equal
 * times; a gap is an empty stack. Frames are functions, not addresses: else
 * speedscope would draw two frames for two lines of one function. Runs in any
 * thread; must not hold more than one stack.
 */
#include <stdio.h>

#include "ringbuf/base/json.h"
#include "ringbuf/slice/processes.h"
#include "upload/format/parts/functions.h"
#include "upload/format/parts/options.h"
#include "upload/format/parts/timeline.h"

struct speedscope {
	const struct fgt_ring_slice *slice;
	enum fgt_state_frames state_frames;
	struct fgt_json json;
	struct fgt_functions functions;
	int error; /* -ENOMEM; sticks */
};

/* run: NULL in a gap. */
typedef void put_stretch(struct speedscope *speedscope,
			 const struct fgt_run *run, uint64_t len_ns);

/* JavaScript keeps integers up to 2^53. */
static void put_number(struct fgt_json *json, const char *key, uint64_t number)
{
	const uint64_t max = ((uint64_t)1 << 53) - 1;

	fgt_json_put_uint(json, key, number < max ? number : max);
}

static void put_function(struct speedscope *speedscope, int r,
			 uint32_t function)
{
	if (r && !speedscope->error)
		speedscope->error = r;
	if (!speedscope->error)
		fgt_json_put_uint(&speedscope->json, NULL, function);
}

static void put_level(struct speedscope *speedscope, struct fgt_level level)
{
	uint32_t function;
	int r = fgt_functions_add(&speedscope->functions, level, 0, &function);

	put_function(speedscope, r, function);
}

/* The outermost function first: inlined calls come after it. */
static void put_frame(struct speedscope *speedscope, uint32_t frame)
{
	uint32_t count = fgt_levels_of_frame(speedscope->slice, frame);
	uint32_t function;

	while (count-- > 0) {
		int r = fgt_functions_add_frame(&speedscope->functions, frame,
						count, &function);

		put_function(speedscope, r, function);
	}
}

static void put_frames(struct speedscope *speedscope, uint32_t node)
{
	const struct fgt_ring_slice *slice = speedscope->slice;
	uint32_t frames[FGT_SLICE_DEPTH_MAX], depth = 0;
	const struct fgt_level unknown = { FGT_LEVEL_NO_STACK, 0 };

	if (node == FGT_NODE_NONE)
		put_level(speedscope, unknown);
	for (; node != FGT_NODE_NONE && depth < FGT_SLICE_DEPTH_MAX;
	     node = slice->nodes[node].parent)
		frames[depth++] = slice->nodes[node].frame;
	while (depth-- > 0)
		put_frame(speedscope, frames[depth]);
}

static void put_stack(struct speedscope *speedscope, const struct fgt_run *run,
		      uint64_t len_ns)
{
	struct fgt_level state = { FGT_LEVEL_STATE, 0 };

	(void)len_ns;
	fgt_json_begin_array(&speedscope->json, NULL);
	if (run) {
		state.id = fgt_levels_state_name(speedscope->slice, run->state);
		if (fgt_state_is_at_root(speedscope->state_frames))
			put_level(speedscope, state);
		put_frames(speedscope, run->stack);
		if (speedscope->state_frames == FGT_STATE_FRAMES_LEAF)
			put_level(speedscope, state);
	}
	fgt_json_end_array(&speedscope->json);
}

static void put_weight(struct speedscope *speedscope, const struct fgt_run *run,
		       uint64_t len_ns)
{
	(void)run;
	put_number(&speedscope->json, NULL, len_ns);
}

/* The ticks of a run, in parts without a gap; returns the instant after it. */
static uint64_t put_run(struct speedscope *speedscope,
			const struct fgt_run *run, uint64_t at_ns,
			put_stretch *put)
{
	const struct fgt_ring_slice *slice = speedscope->slice;
	uint32_t last = run->first_tick + run->tick_count - 1;
	uint32_t first = run->first_tick;

	for (uint32_t tick = first; tick <= last; tick++) {
		uint64_t begin_ns = slice->tick_ns[first];

		if (tick < last && !fgt_timeline_is_gap(slice, tick))
			continue;
		if (begin_ns > at_ns)
			put(speedscope, NULL, begin_ns - at_ns);
		at_ns = fgt_timeline_end_ns(slice, tick);
		put(speedscope, run, at_ns - begin_ns);
		first = tick + 1;
	}
	return at_ns;
}

static void put_stretches(struct speedscope *speedscope, const char *key,
			  uint32_t first_run, uint32_t run_end,
			  put_stretch *put)
{
	const struct fgt_ring_slice *slice = speedscope->slice;
	uint64_t at_ns = slice->tick_ns[0];

	fgt_json_begin_array(&speedscope->json, key);
	for (uint32_t i = first_run; i < run_end; i++)
		at_ns = put_run(speedscope, &slice->runs[i], at_ns, put);
	fgt_json_end_array(&speedscope->json);
}

static void put_thread(struct speedscope *speedscope, uint32_t first_run,
		       uint32_t run_end)
{
	const struct fgt_ring_slice *slice = speedscope->slice;
	const struct fgt_slice_thread *thread =
		&slice->threads[slice->runs[first_run].thread];
	const char *name = fgt_slice_string(slice, thread->name);
	struct fgt_process_of of = fgt_slice_process(slice, thread->process);
	bool is_one = fgt_slice_process_count(slice) == 1;
	struct fgt_json *json = &speedscope->json;
	char numbered[192];

	snprintf(numbered, sizeof(numbered), "%.100s%s%.32s (%d)",
		 is_one ? "" : of.title, is_one ? "" : ": ",
		 *name ? name : "thread", thread->tid);
	fgt_json_newline(json);
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "type", "sampled");
	fgt_json_put_string(json, "name", numbered);
	fgt_json_put_string(json, "unit", "nanoseconds");
	fgt_json_put_uint(json, "startValue", 0);
	put_number(json, "endValue",
		   fgt_timeline_end_ns(slice, slice->tick_count - 1) -
			   slice->tick_ns[0]);
	put_stretches(speedscope, "samples", first_run, run_end, put_stack);
	put_stretches(speedscope, "weights", first_run, run_end, put_weight);
	fgt_json_end_object(json);
}

static uint32_t end_of_thread(const struct fgt_ring_slice *slice, uint32_t run)
{
	uint32_t thread = slice->runs[run].thread;

	while (run < slice->run_count && slice->runs[run].thread == thread)
		run++;
	return run;
}

static uint64_t running_ticks(const struct fgt_ring_slice *slice,
			      uint32_t first_run, uint32_t run_end)
{
	uint64_t ticks = 0;

	for (uint32_t i = first_run; i < run_end; i++)
		if (slice->runs[i].state == FGT_STATE_RUNNING)
			ticks += slice->runs[i].tick_count;
	return ticks;
}

/* The profile that is shown first: the main thread's, else the busiest. */
static uint32_t find_active(const struct fgt_ring_slice *slice)
{
	uint32_t active = 0, profile = 0, end;
	uint64_t most = 0;

	for (uint32_t i = 0; i < slice->run_count; i = end, profile++) {
		uint64_t ticks;

		end = end_of_thread(slice, i);
		if (slice->threads[slice->runs[i].thread].tid ==
		    slice->process.pid)
			return profile;
		ticks = running_ticks(slice, i, end);
		if (ticks > most) {
			most = ticks;
			active = profile;
		}
	}
	return active;
}

static void put_shared(struct speedscope *speedscope)
{
	const struct fgt_functions *functions = &speedscope->functions;
	const struct fgt_ring_slice *slice = speedscope->slice;
	struct fgt_json *json = &speedscope->json;
	char buffer[FGT_LEVEL_NAME_MAX];

	fgt_json_begin_object(json, "shared");
	fgt_json_begin_array(json, "frames");
	for (uint32_t i = 0; i < functions->ids.count; i++) {
		uint32_t file = fgt_functions_file(functions, i);

		fgt_json_newline(json);
		fgt_json_begin_object(json, NULL);
		fgt_json_put_string(
			json, "name",
			fgt_level_name(slice, fgt_functions_level(functions, i),
				       buffer));
		if (*fgt_slice_string(slice, file))
			fgt_json_put_string(json, "file",
					    fgt_slice_string(slice, file));
		fgt_json_end_object(json);
	}
	fgt_json_end_array(json);
	fgt_json_end_object(json);
}

/* Frames come last, when all are known. */
static int write_document(struct speedscope *speedscope)
{
	const struct fgt_ring_slice *slice = speedscope->slice;
	struct fgt_json *json = &speedscope->json;
	const char *trigger = fgt_slice_note(slice, FGT_NOTE_TRIGGER);
	char name[192];

	snprintf(name, sizeof(name), "%s (%d)%s%.80s", slice->process.name,
		 slice->process.pid, trigger ? ", trigger " : "",
		 trigger ? trigger : "");
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(
		json, "$schema",
		"https://www.speedscope.app/file-format-schema.json");
	fgt_json_put_string(json, "exporter", "fgtrace@" FGT_VERSION);
	fgt_json_put_string(json, "name", name);
	fgt_json_put_uint(json, "activeProfileIndex", find_active(slice));
	fgt_json_begin_array(json, "profiles");
	for (uint32_t i = 0, end; i < slice->run_count; i = end) {
		end = end_of_thread(slice, i);
		put_thread(speedscope, i, end);
	}
	fgt_json_end_array(json);
	put_shared(speedscope);
	fgt_json_end_object(json);
	fgt_json_newline(json);
	return fgt_json_finish(json);
}

int fgt_speedscope_write(const struct fgt_ring_slice *slice,
			 const struct fgt_format_options *options,
			 const struct fgt_sink *sink)
{
	struct speedscope speedscope = {
		.slice = slice,
		.state_frames = options->state_frames,
	};
	int r;

	fgt_json_init(&speedscope.json, sink);
	fgt_functions_init(&speedscope.functions, slice);
	r = write_document(&speedscope);
	fgt_functions_done(&speedscope.functions);
	return speedscope.error ? speedscope.error : r;
}
