/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Perfetto trace: one sequence of packets. The first one has the clocks, the
 * defaults of all others and the images. Runs in any thread.
 */
#include "upload/format/perfetto/perfetto.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ringbuf/slice/pace.h"
#include "ringbuf/slice/processes.h"

enum {
	TRACE_PACKET = 1,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE_ID = 10,
	PACKET_CLOCK_ID = 58,
	SNAPSHOT_CLOCKS = 1,
	SNAPSHOT_PRIMARY_CLOCK,
	CLOCK_ID = 1,
	CLOCK_TIMESTAMP,
	CLOCK_UNIT_MULTIPLIER_NS = 4,
	DEFAULTS_CLOCK_ID = 58,
	DEFAULTS_STACK_SAMPLE = 100,
	STACK_SAMPLE_SOURCE = 1,
	STACK_SAMPLE_COUNTER,
	COUNTER_NAME = 2,
	COUNTER_UNIT,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,
	PROCESS_LABELS = 8,
	THREAD_PID = 1,
	THREAD_TID,
	THREAD_NAME = 5,
	ARGUMENT_TEXT = 6,
	ARGUMENT_NAME = 10,
	ARGUMENT_ENTRIES,

	SEQUENCE_ID = 1,
	SEQUENCE_BEGINS = 1, /* nothing that an earlier packet named is valid */
	UNIT_NANOSECONDS = 1,
	CLOCK_REALTIME_ID = 1,
	CLOCK_MONOTONIC_ID = 3,
	/* Of this sequence only: they count from the first tick on. An absolute
	 * time would be 8 bytes in each packet. */
	CLOCK_US_ID = 64,
	CLOCK_NS_ID,
	CLOCK_FIRST = 1, /* 0 is left out, and means no time */
	US_NS = 1000,
};

void fgt_perfetto_begin(struct fgt_perfetto *trace)
{
	fgt_protobuf_begin(&trace->out, TRACE_PACKET);
	fgt_protobuf_put_uint(&trace->out, PACKET_SEQUENCE_ID, SEQUENCE_ID);
}

void fgt_perfetto_begin_at(struct fgt_perfetto *trace, uint64_t mono_ns)
{
	uint64_t ns = mono_ns - trace->slice->tick_ns[0];
	bool is_whole = ns % US_NS == 0;

	fgt_perfetto_begin(trace);
	fgt_protobuf_put_uint(&trace->out, PACKET_TIMESTAMP,
			      (is_whole ? ns / US_NS : ns) + CLOCK_FIRST);
	if (!is_whole)
		fgt_protobuf_put_uint(&trace->out, PACKET_CLOCK_ID,
				      CLOCK_NS_ID);
}

void fgt_perfetto_end(struct fgt_perfetto *trace)
{
	fgt_protobuf_end(&trace->out);
	if (!trace->error)
		trace->error =
			fgt_perfetto_bundle_packet(&trace->bundle, &trace->out);
}

void fgt_perfetto_put_text(struct fgt_perfetto *trace, uint32_t field,
			   uint64_t iid, const char *text)
{
	fgt_protobuf_begin(&trace->out, field);
	fgt_protobuf_put_uint(&trace->out, FGT_INTERNED_IID, iid);
	fgt_protobuf_put_string(&trace->out, FGT_INTERNED_TEXT, text);
	fgt_protobuf_end(&trace->out);
}

/* ---- Events ------------------------------------------------------------- */

/* Puts the name into the packet that is open, where it is new. */
static uint64_t event_name(struct fgt_perfetto *trace, const char *name)
{
	uint32_t known = trace->event_names.count, id = 0;
	int r = fgt_strings_intern(&trace->event_names, name, strlen(name),
				   &id);

	if (r)
		trace->error = r;
	if (trace->event_names.count > known) {
		fgt_protobuf_begin(&trace->out, FGT_PACKET_INTERNED_DATA);
		fgt_perfetto_put_text(trace, FGT_INTERNED_EVENT_NAMES, id,
				      name);
		fgt_protobuf_end(&trace->out);
	}
	return id;
}

void fgt_perfetto_begin_event(struct fgt_perfetto *trace, uint64_t mono_ns,
			      uint32_t type, uint64_t track, const char *name)
{
	uint64_t name_iid;

	fgt_perfetto_begin_at(trace, mono_ns);
	name_iid = name ? event_name(trace, name) : 0;
	fgt_protobuf_begin(&trace->out, FGT_PACKET_TRACK_EVENT);
	fgt_protobuf_put_uint(&trace->out, FGT_EVENT_TYPE, type);
	fgt_protobuf_put_uint(&trace->out, FGT_EVENT_NAME_IID, name_iid);
	fgt_protobuf_put_uint(&trace->out, FGT_EVENT_TRACK_UUID, track);
}

void fgt_perfetto_end_event(struct fgt_perfetto *trace)
{
	fgt_protobuf_end(&trace->out);
	fgt_perfetto_end(trace);
}

static void put_annotation(struct fgt_perfetto *trace, uint32_t field,
			   const char *key, const char *text)
{
	fgt_protobuf_begin(&trace->out, field);
	fgt_protobuf_put_string(&trace->out, ARGUMENT_NAME, key);
	fgt_protobuf_put_string(&trace->out, ARGUMENT_TEXT, text);
	fgt_protobuf_end(&trace->out);
}

void fgt_perfetto_put_argument(struct fgt_perfetto *trace, const char *key,
			       const char *text)
{
	put_annotation(trace, FGT_EVENT_DEBUG_ANNOTATIONS, key, text);
}

void fgt_perfetto_begin_entries(struct fgt_perfetto *trace, const char *key)
{
	fgt_protobuf_begin(&trace->out, FGT_EVENT_DEBUG_ANNOTATIONS);
	fgt_protobuf_put_string(&trace->out, ARGUMENT_NAME, key);
}

void fgt_perfetto_put_entry(struct fgt_perfetto *trace, const char *key,
			    const char *text)
{
	put_annotation(trace, ARGUMENT_ENTRIES, key, text);
}

void fgt_perfetto_end_entries(struct fgt_perfetto *trace)
{
	fgt_protobuf_end(&trace->out);
}

/* ---- Tracks ------------------------------------------------------------- */

void fgt_perfetto_begin_track(struct fgt_perfetto *trace, uint64_t uuid,
			      const char *name, uint64_t parent)
{
	fgt_perfetto_begin(trace);
	fgt_protobuf_begin(&trace->out, FGT_PACKET_TRACK_DESCRIPTOR);
	fgt_protobuf_put_uint(&trace->out, FGT_TRACK_UUID, uuid);
	fgt_protobuf_put_uint(&trace->out, FGT_TRACK_PARENT_UUID, parent);
	if (name)
		fgt_protobuf_put_string(&trace->out, FGT_TRACK_NAME, name);
}

void fgt_perfetto_end_track(struct fgt_perfetto *trace)
{
	fgt_protobuf_end(&trace->out);
	fgt_perfetto_end(trace);
}

void fgt_perfetto_put_thread(struct fgt_perfetto *trace, uint64_t uuid,
			     uint32_t process, int32_t tid, const char *name)
{
	struct fgt_process_of of = fgt_slice_process(trace->slice, process);

	fgt_perfetto_begin_track(trace, uuid, NULL,
				 fgt_perfetto_process_uuid(process));
	fgt_protobuf_begin(&trace->out, FGT_TRACK_THREAD);
	fgt_protobuf_put_uint(&trace->out, THREAD_PID, fgt_perfetto_id(of.pid));
	fgt_protobuf_put_uint(&trace->out, THREAD_TID, fgt_perfetto_id(tid));
	fgt_protobuf_put_string(&trace->out, THREAD_NAME, name);
	fgt_protobuf_end(&trace->out);
	fgt_perfetto_end_track(trace);
}

static void put_process(struct fgt_perfetto *trace, uint32_t number)
{
	const struct fgt_process_info *process = &trace->slice->process;
	struct fgt_process_of of = fgt_slice_process(trace->slice, number);
	char system[128];

	snprintf(system, sizeof(system), "linux %s %s", process->os_release,
		 process->arch);
	fgt_perfetto_begin_track(trace, fgt_perfetto_process_uuid(number), NULL,
				 0);
	fgt_protobuf_begin(&trace->out, FGT_TRACK_PROCESS);
	fgt_protobuf_put_uint(&trace->out, PROCESS_PID,
			      fgt_perfetto_id(of.pid));
	fgt_protobuf_put_string(&trace->out, PROCESS_NAME,
				*of.title ? of.title : "process");
	if (process->host[0])
		fgt_protobuf_put_string(&trace->out, PROCESS_LABELS,
					process->host);
	fgt_protobuf_put_string(&trace->out, PROCESS_LABELS, system);
	fgt_protobuf_end(&trace->out);
	fgt_perfetto_end_track(trace);
}

static void put_thread(struct fgt_perfetto *trace, uint32_t index)
{
	const struct fgt_slice_thread *thread = &trace->slice->threads[index];
	const uint64_t uuid = fgt_perfetto_thread_uuid(index);
	char buffer[FGT_LEVEL_NAME_MAX];

	fgt_perfetto_put_thread(
		trace, uuid, thread->process, thread->tid,
		fgt_level_thread_name(trace->slice, thread, buffer));
	fgt_perfetto_begin_track(trace, fgt_perfetto_state_uuid(index), "state",
				 uuid);
	fgt_protobuf_begin(&trace->out, FGT_TRACK_STATE);
	fgt_protobuf_end(&trace->out);
	fgt_perfetto_end_track(trace);
}

/* ---- The first packet, and facts ---------------------------------------- */

static void put_clock(struct fgt_perfetto *trace, uint64_t id, uint64_t at,
		      uint64_t unit_ns)
{
	fgt_protobuf_begin(&trace->out, SNAPSHOT_CLOCKS);
	fgt_protobuf_put_uint(&trace->out, CLOCK_ID, id);
	fgt_protobuf_put_uint(&trace->out, CLOCK_TIMESTAMP, at);
	if (unit_ns > 1)
		fgt_protobuf_put_uint(&trace->out, CLOCK_UNIT_MULTIPLIER_NS,
				      unit_ns);
	fgt_protobuf_end(&trace->out);
}

/* Slices do not know CLOCK_BOOTTIME. */
static void put_clocks(struct fgt_perfetto *trace, uint64_t mono_ns,
		       uint64_t wall_ns, bool is_first)
{
	fgt_protobuf_begin(&trace->out, FGT_PACKET_CLOCK_SNAPSHOT);
	if (is_first) {
		put_clock(trace, CLOCK_US_ID, CLOCK_FIRST, US_NS);
		put_clock(trace, CLOCK_NS_ID, CLOCK_FIRST, 1);
	}
	put_clock(trace, CLOCK_MONOTONIC_ID, mono_ns, 1);
	put_clock(trace, CLOCK_REALTIME_ID, wall_ns, 1);
	fgt_protobuf_put_uint(&trace->out, SNAPSHOT_PRIMARY_CLOCK,
			      CLOCK_MONOTONIC_ID);
	fgt_protobuf_end(&trace->out);
}

static void put_defaults(struct fgt_perfetto *trace)
{
	fgt_protobuf_begin(&trace->out, FGT_PACKET_DEFAULTS);
	fgt_protobuf_put_uint(&trace->out, DEFAULTS_CLOCK_ID, CLOCK_US_ID);
	fgt_protobuf_begin(&trace->out, DEFAULTS_STACK_SAMPLE);
	fgt_protobuf_put_string(&trace->out, STACK_SAMPLE_SOURCE, "fgtrace");
	fgt_protobuf_begin(&trace->out, STACK_SAMPLE_COUNTER);
	fgt_protobuf_put_string(&trace->out, COUNTER_NAME, "wall time");
	fgt_protobuf_put_uint(&trace->out, COUNTER_UNIT, UNIT_NANOSECONDS);
	fgt_protobuf_end(&trace->out);
	fgt_protobuf_end(&trace->out);
	fgt_protobuf_end(&trace->out);
}

static void put_head(struct fgt_perfetto *trace)
{
	const struct fgt_ring_slice *slice = trace->slice;
	const uint64_t first_ns = slice->tick_ns[0];

	fgt_perfetto_begin(trace);
	fgt_protobuf_put_uint(&trace->out, FGT_PACKET_SEQUENCE_FLAGS,
			      SEQUENCE_BEGINS);
	fgt_protobuf_put_uint(&trace->out, FGT_PACKET_FIRST_ON_SEQUENCE, 1);
	put_defaults(trace);
	fgt_protobuf_begin(&trace->out, FGT_PACKET_INTERNED_DATA);
	fgt_perfetto_put_mappings(trace);
	fgt_protobuf_end(&trace->out);
	put_clocks(trace, first_ns, fgt_slice_wall_ns(slice, first_ns), true);
	fgt_perfetto_end(trace);
	for (uint32_t i = 0; i < slice->anchor_count; i++) {
		const struct fgt_anchor *anchor = &slice->anchors[i];

		if (anchor->mono_ns <= first_ns)
			continue;
		fgt_perfetto_begin(trace);
		put_clocks(trace, anchor->mono_ns, anchor->wall_ns, false);
		fgt_perfetto_end(trace);
	}
}

static void put_number(struct fgt_perfetto *trace, const char *key,
		       uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	fgt_perfetto_put_argument(trace, key, text);
}

static void put_rate(struct fgt_perfetto *trace, const char *key, double hz)
{
	char text[32];

	snprintf(text, sizeof(text), "%.3f", hz);
	fgt_perfetto_put_argument(trace, key, text);
}

/* Why it was cut. */
static void put_notes(struct fgt_perfetto *trace)
{
	const struct fgt_ring_slice *slice = trace->slice;

	if (slice->note_count == 0)
		return;
	fgt_perfetto_begin_entries(trace, "notes");
	for (uint32_t i = 0; i < slice->note_count; i++)
		fgt_perfetto_put_entry(
			trace, fgt_slice_string(slice, slice->notes[i].key),
			fgt_slice_string(slice, slice->notes[i].value));
	fgt_perfetto_end_entries(trace);
}

/* What the slice is, and what it lacks: an instant of the process. */
static void put_facts(struct fgt_perfetto *trace)
{
	const struct fgt_ring_slice *slice = trace->slice;
	const double nominal_hz = 1e9 / (double)slice->period_ns;
	uint64_t lowered;
	uint32_t slowest = fgt_pace_slowest(slice, &lowered);

	fgt_perfetto_begin_event(trace, slice->tick_ns[0], FGT_EVENT_INSTANT,
				 FGT_PERFETTO_PROCESS_UUID, "fgtrace slice");
	fgt_perfetto_put_argument(trace, "version", FGT_VERSION);
	fgt_perfetto_put_argument(trace, "exe", slice->process.exe);
	put_rate(trace, "effective_hz", slice->effective_hz);
	put_rate(trace, "nominal_hz", nominal_hz);
	if (slowest > 1)
		put_rate(trace, "lowered_to_hz", nominal_hz / slowest);
	put_number(trace, "ticks", slice->tick_count);
	put_number(trace, "missed_ticks", slice->missed_ticks);
	put_number(trace, "evicted_ticks", slice->evicted_ticks);
	put_number(trace, "lapped_ticks", slice->lapped_ticks);
	put_notes(trace);
	fgt_perfetto_end_event(trace);
}

static int write_trace(struct fgt_perfetto *trace)
{
	int r;

	put_head(trace);
	for (uint32_t i = 0; i < fgt_slice_process_count(trace->slice); i++)
		put_process(trace, i);
	for (uint32_t i = 0; i < trace->slice->thread_count; i++)
		put_thread(trace, i);
	put_facts(trace);
	r = fgt_perfetto_put_samples(trace);
	if (!r)
		r = fgt_perfetto_begin_wakes(trace);
	if (!r)
		r = fgt_perfetto_put_tasks(trace);
	if (!r) {
		fgt_perfetto_put_wakes(trace, UINT64_MAX);
		r = trace->error;
	}
	return r ? r : fgt_perfetto_bundle_finish(&trace->bundle, &trace->out);
}

int fgt_perfetto_write(const struct fgt_ring_slice *slice,
		       const struct fgt_format_options *options,
		       const struct fgt_sink *sink)
{
	struct fgt_perfetto trace = {
		.slice = slice,
		.state_frames = fgt_state_frames_or_leaf(options->state_frames),
		.next_uuid = fgt_perfetto_thread_uuid(slice->thread_count),
	};
	int r;

	fgt_perfetto_bundle_init(&trace.bundle, sink);
	fgt_protobuf_init(&trace.out, &trace.bundle.plain.sink);
	r = fgt_strings_init(&trace.event_names);
	if (!r)
		r = write_trace(&trace);
	fgt_strings_done(&trace.event_names);
	fgt_id_map_done(&trace.callstacks);
	fgt_id_map_done(&trace.frames);
	fgt_id_map_done(&trace.functions);
	fgt_id_map_done(&trace.source_paths);
	free(trace.frame_keys);
	fgt_arrows_done(&trace.arrows);
	fgt_protobuf_done(&trace.out);
	fgt_perfetto_bundle_done(&trace.bundle);
	return r;
}
