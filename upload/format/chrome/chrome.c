/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The document: names of processes and threads, the events, and what the slice
 * is and what it lacks. Runs in any thread.
 */
#include "upload/format/chrome/chrome.h"

#include <stdio.h>
#include <string.h>

#include "ringbuf/base/json.h"
#include "ringbuf/slice/pace.h"
#include "ringbuf/slice/processes.h"
#include "upload/format/parts/levels.h"
#include "upload/format/parts/options.h"

struct chrome {
	const struct fgt_ring_slice *slice;
	enum fgt_state_frames state_frames;
	struct fgt_json json;
	uint64_t pid, tid; /* of the track that is being written */
	uint32_t arrows_left_out;
};

/* The name, unless speedscope would read the file as a DevTools profile. */
static const char *safe_name(const char *name)
{
	if (!strcmp(name, "CpuProfile"))
		return "CpuProfile()";
	if (!strcmp(name, "Profile"))
		return "Profile()";
	if (!strcmp(name, "ProfileChunk"))
		return "ProfileChunk()";
	return name;
}

void fgt_chrome_begin(struct fgt_json *json, const char *name,
		      const char *phase, uint64_t pid, uint64_t tid)
{
	fgt_json_newline(json);
	fgt_json_begin_object(json, NULL);
	fgt_json_put_string(json, "name", safe_name(name));
	fgt_json_put_string(json, "ph", phase);
	fgt_json_put_uint(json, "pid", pid);
	fgt_json_put_uint(json, "tid", tid);
}

void fgt_chrome_put_us(struct fgt_json *json, const char *key, uint64_t ns)
{
	if (ns % 1000)
		fgt_json_put_decimal(json, key, ns, 3);
	else
		fgt_json_put_uint(json, key, ns / 1000);
}

/* Older releases of speedscope want a ts on these too. */
static void begin_metadata_of(struct fgt_json *json, const char *name,
			      uint64_t pid, uint64_t tid)
{
	fgt_chrome_begin(json, name, "M", pid, tid);
	fgt_json_put_uint(json, "ts", 0);
	fgt_json_begin_object(json, "args");
}

void fgt_chrome_end_args(struct fgt_json *json)
{
	fgt_json_end_object(json);
	fgt_json_end_object(json);
}

void fgt_chrome_put_name(struct fgt_json *json, const char *kind, uint64_t pid,
			 uint64_t tid, const char *name)
{
	begin_metadata_of(json, kind, pid, tid);
	fgt_json_put_string(json, "name", name);
	fgt_chrome_end_args(json);
}

static void begin_metadata(struct chrome *chrome, const char *name)
{
	begin_metadata_of(&chrome->json, name, chrome->pid, chrome->tid);
}

/* Three decimals are enough for a rate, and readable. */
static double rounded(double hz)
{
	return hz < 1e12 ? (double)(uint64_t)(hz * 1000 + 0.5) / 1000 : hz;
}

static double nominal_hz(const struct fgt_ring_slice *slice)
{
	return rounded(1e9 / (double)slice->period_ns);
}

static void put_process(struct chrome *chrome, uint32_t number)
{
	const struct fgt_process_info *process = &chrome->slice->process;
	struct fgt_process_of of = fgt_slice_process(chrome->slice, number);
	struct fgt_json *json = &chrome->json;
	char labels[256];

	chrome->pid = chrome->tid = fgt_chrome_id(of.pid);
	fgt_chrome_put_name(json, "process_name", chrome->pid, chrome->tid,
			    *of.title ? of.title : "process");
	snprintf(labels, sizeof(labels), "%s%slinux %s %s", process->host,
		 process->host[0] ? ", " : "", process->os_release,
		 process->arch);
	begin_metadata(chrome, "process_labels");
	fgt_json_put_string(json, "labels", labels);
	fgt_chrome_end_args(json);
	begin_metadata(chrome, "hz");
	fgt_json_put_double(json, "hz", rounded(chrome->slice->effective_hz));
	fgt_chrome_end_args(json);
	begin_metadata(chrome, "nominal_hz");
	fgt_json_put_double(json, "nominal_hz", nominal_hz(chrome->slice));
	fgt_chrome_end_args(json);
}

/* The main thread first, then by tid. */
static void put_thread(struct chrome *chrome, uint32_t index)
{
	const struct fgt_slice_thread *thread = &chrome->slice->threads[index];
	int32_t pid = fgt_slice_process_of(chrome->slice, index).pid;
	bool is_main = thread->tid == pid;
	char buffer[FGT_LEVEL_NAME_MAX];

	chrome->pid = fgt_chrome_id(pid);
	chrome->tid = fgt_chrome_id(thread->tid);
	fgt_chrome_put_name(
		&chrome->json, "thread_name", chrome->pid, chrome->tid,
		fgt_level_thread_name(chrome->slice, thread, buffer));
	begin_metadata(chrome, "thread_sort_index");
	fgt_json_put_uint(&chrome->json, "sort_index",
			  is_main ? 0 : (uint64_t)index + 1);
	fgt_chrome_end_args(&chrome->json);
}

/* JavaScript keeps integers up to 2^53. */
static void put_count(struct fgt_json *json, const char *key, uint64_t count)
{
	const uint64_t max = ((uint64_t)1 << 53) - 1;

	fgt_json_put_uint(json, key, count < max ? count : max);
}

static void put_notes(struct chrome *chrome)
{
	const struct fgt_ring_slice *slice = chrome->slice;
	struct fgt_json *json = &chrome->json;

	if (slice->note_count == 0)
		return;
	fgt_json_begin_object(json, "notes");
	for (uint32_t i = 0; i < slice->note_count; i++)
		fgt_json_put_string(
			json, fgt_slice_string(slice, slice->notes[i].key),
			fgt_slice_string(slice, slice->notes[i].value));
	fgt_json_end_object(json);
}

static void put_service(struct fgt_json *json,
			const struct fgt_service *service)
{
	for (size_t i = 0; i < FGT_SERVICE_TEXTS; i++)
		if (*fgt_service_text_of(service, i))
			fgt_json_put_string(json,
					    fgt_service_texts[i].attribute,
					    fgt_service_text_of(service, i));
}

/* What the slice is, and what it lacks. */
static void put_other_data(struct chrome *chrome)
{
	const struct fgt_ring_slice *slice = chrome->slice;
	const uint64_t first_ns = slice->tick_ns[0];
	const uint64_t last_ns = slice->tick_ns[slice->tick_count - 1];
	struct fgt_json *json = &chrome->json;
	uint64_t lowered;
	uint32_t slowest = fgt_pace_slowest(slice, &lowered);

	fgt_json_begin_object(json, "otherData");
	fgt_json_put_string(json, "tool", "fgtrace");
	fgt_json_put_string(json, "version", FGT_VERSION);
	fgt_json_put_string(json, "exe", slice->process.exe);
	put_service(json, &slice->process.service);
	fgt_json_put_time(json, "wall_clock_of_ts_0",
			  fgt_slice_wall_ns(slice, first_ns));
	fgt_json_put_uint_string(json, "wall_clock_of_ts_0_ns",
				 fgt_slice_wall_ns(slice, first_ns));
	fgt_json_put_uint_string(json, "monotonic_clock_of_ts_0_ns", first_ns);
	fgt_json_put_time(json, "requested_from",
			  fgt_slice_wall_ns(slice, slice->requested_from_ns));
	fgt_json_put_time(json, "requested_to",
			  fgt_slice_wall_ns(slice, slice->requested_to_ns));
	fgt_json_put_time(json, "covered_from",
			  fgt_slice_wall_ns(slice, first_ns));
	fgt_json_put_time(json, "covered_to",
			  fgt_slice_wall_ns(slice, last_ns));
	fgt_json_put_double(json, "effective_hz", rounded(slice->effective_hz));
	fgt_json_put_double(json, "nominal_hz", nominal_hz(slice));
	if (slowest > 1)
		fgt_json_put_double(json, "lowered_to_hz",
				    rounded(nominal_hz(slice) / slowest));
	fgt_json_put_uint(json, "ticks", slice->tick_count);
	put_count(json, "missed_ticks", slice->missed_ticks);
	put_count(json, "evicted_ticks", slice->evicted_ticks);
	put_count(json, "lapped_ticks", slice->lapped_ticks);
	if (chrome->arrows_left_out)
		put_count(json, "arrows_left_out", chrome->arrows_left_out);
	put_notes(chrome);
	fgt_json_end_object(json);
}

static int write_document(struct chrome *chrome)
{
	struct fgt_json *json = &chrome->json;
	int r;

	fgt_json_begin_object(json, NULL);
	fgt_json_begin_array(json, "traceEvents");
	for (uint32_t i = 0; i < fgt_slice_process_count(chrome->slice); i++)
		put_process(chrome, i);
	for (uint32_t i = 0; i < chrome->slice->thread_count; i++)
		put_thread(chrome, i);
	r = fgt_chrome_runs_put(chrome->slice, chrome->state_frames, json);
	if (r == 0)
		r = fgt_chrome_wakes_put(chrome->slice, json,
					 &chrome->arrows_left_out);
	if (r == 0)
		r = fgt_chrome_tasks_put(
			chrome->slice,
			fgt_chrome_id(chrome->slice->process.pid), json);
	if (r < 0)
		return r;
	fgt_json_newline(json);
	fgt_json_end_array(json);
	fgt_json_put_string(json, "displayTimeUnit", "ns");
	put_other_data(chrome);
	fgt_json_end_object(json);
	fgt_json_newline(json);
	return fgt_json_finish(json);
}

int fgt_chrome_write(const struct fgt_ring_slice *slice,
		     const struct fgt_format_options *options,
		     const struct fgt_sink *sink)
{
	struct chrome chrome = {
		.slice = slice,
		.state_frames = fgt_state_frames_or_leaf(options->state_frames),
	};

	fgt_json_init(&chrome.json, sink);
	return write_document(&chrome);
}
