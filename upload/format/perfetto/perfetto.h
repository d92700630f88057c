/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the parts of a Perfetto trace: packets, tables of what packets name
 * by number, and the tracks. Field numbers are those of
 * google/perfetto:protos/perfetto/trace, which never change.
 *
 * MT-Unsafe for one trace | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_PERFETTO_PERFETTO_H
#define FGT_UPLOAD_FORMAT_PERFETTO_PERFETTO_H

#include "ringbuf/base/id_map.h"
#include "upload/format/parts/arrows.h"
#include "upload/format/parts/drawing.h"
#include "upload/format/parts/options.h"
#include "upload/format/parts/protobuf.h"

enum {
	FGT_PACKET_CLOCK_SNAPSHOT = 6,
	FGT_PACKET_TRACK_EVENT = 11,
	FGT_PACKET_INTERNED_DATA = 12,
	FGT_PACKET_SEQUENCE_FLAGS = 13,
	FGT_PACKET_DEFAULTS = 59,
	FGT_PACKET_TRACK_DESCRIPTOR = 60,
	FGT_PACKET_FIRST_ON_SEQUENCE = 87,
	FGT_PACKET_STACK_SAMPLE = 135,

	FGT_INTERNED_EVENT_NAMES = 2,
	FGT_INTERNED_FUNCTION_NAMES = 5,
	FGT_INTERNED_FRAMES,
	FGT_INTERNED_CALLSTACKS,
	FGT_INTERNED_BUILD_IDS = 16,
	FGT_INTERNED_MAPPING_PATHS,
	FGT_INTERNED_SOURCE_PATHS,
	FGT_INTERNED_MAPPINGS,
	FGT_INTERNED_TASK_CONTEXTS = 48,
	FGT_INTERNED_IID = 1, /* of all messages above */
	FGT_INTERNED_TEXT,

	FGT_TRACK_UUID = 1,
	FGT_TRACK_NAME,
	FGT_TRACK_PROCESS,
	FGT_TRACK_THREAD,
	FGT_TRACK_PARENT_UUID,
	FGT_TRACK_COUNTER = 8,
	FGT_TRACK_STATE = 18,

	FGT_EVENT_DEBUG_ANNOTATIONS = 4,
	FGT_EVENT_TYPE = 9,
	FGT_EVENT_NAME_IID,
	FGT_EVENT_TRACK_UUID,
	FGT_EVENT_DOUBLE_COUNTER_VALUE = 44,
	FGT_EVENT_FLOW_IDS = 47,
	FGT_EVENT_TERMINATING_FLOW_IDS,

	FGT_EVENT_BEGIN = 1,
	FGT_EVENT_END,
	FGT_EVENT_INSTANT,
	FGT_EVENT_COUNTER,
	FGT_EVENT_STATE,
};

/* Between out and the file. */
struct fgt_perfetto_bundle {
	struct fgt_memory_sink plain; /* whole packets, and what out writes */
	struct fgt_protobuf file;
	bool has_packed; /* the file has a bundle */
};

struct fgt_perfetto {
	const struct fgt_ring_slice *slice;
	enum fgt_state_frames state_frames;
	struct fgt_protobuf out;
	struct fgt_perfetto_bundle bundle;
	uint64_t next_uuid; /* of tracks; those of threads come first */
	struct fgt_arrows arrows;
	uint32_t next_arrow; /* that is not written yet */
	int error; /* of adding to a table, or of the sink; sticks */
	/* What readers have been given: id + 1, or the string's id, is the
	 * number. */
	struct fgt_strings event_names;
	struct fgt_id_map callstacks, frames, functions, source_paths;
	/* Of the callstack that is being written, leaf first. */
	uint64_t *frame_keys;
	uint32_t frame_key_count, frame_key_capacity;
};

/* Tracks. A thread has two, and is task context index + 1. */
#define FGT_PERFETTO_PROCESS_UUID 1u

/* The first one is the slice's own. */
static inline uint64_t fgt_perfetto_process_uuid(uint32_t number)
{
	return number ? (UINT64_C(1) << 40) + number
		      : FGT_PERFETTO_PROCESS_UUID;
}

static inline uint64_t fgt_perfetto_thread_uuid(uint32_t index)
{
	return 2 + 2 * (uint64_t)index;
}

static inline uint64_t fgt_perfetto_state_uuid(uint32_t index)
{
	return fgt_perfetto_thread_uuid(index) + 1;
}

/* To readers 0 is the idle thread. */
static inline uint64_t fgt_perfetto_id(int32_t id)
{
	return id > 0 ? (uint64_t)id : INT32_MAX;
}

/* It must not be moved afterwards; out writes to its plain.sink. */
void fgt_perfetto_bundle_init(struct fgt_perfetto_bundle *bundle,
			      const struct fgt_sink *target);
void fgt_perfetto_bundle_done(struct fgt_perfetto_bundle *bundle);
/* After each packet, and after the last one. -ENOMEM, or the sink's error. */
int fgt_perfetto_bundle_packet(struct fgt_perfetto_bundle *bundle,
			       struct fgt_protobuf *out);
int fgt_perfetto_bundle_finish(struct fgt_perfetto_bundle *bundle,
			       struct fgt_protobuf *out);

/* A packet without, or with, a time, which is not before the first tick. Whole
 * µs after it take fewer bytes. */
void fgt_perfetto_begin(struct fgt_perfetto *trace);
void fgt_perfetto_begin_at(struct fgt_perfetto *trace, uint64_t mono_ns);
void fgt_perfetto_end(struct fgt_perfetto *trace);

/* The track descriptor of a packet; parent 0: none. The packet, too, ends with
 * fgt_perfetto_end_track(). */
void fgt_perfetto_begin_track(struct fgt_perfetto *trace, uint64_t uuid,
			      const char *name, uint64_t parent);
void fgt_perfetto_end_track(struct fgt_perfetto *trace);

/* The track of a thread, whether the slice has samples of it or not. process:
 * its number in the slice. */
void fgt_perfetto_put_thread(struct fgt_perfetto *trace, uint64_t uuid,
			     uint32_t process, int32_t tid, const char *name);

/* A packet with an event, ended by fgt_perfetto_end_event(). name NULL or "":
 * none. */
void fgt_perfetto_begin_event(struct fgt_perfetto *trace, uint64_t mono_ns,
			      uint32_t type, uint64_t track, const char *name);
void fgt_perfetto_end_event(struct fgt_perfetto *trace);

/* "debug.KEY" of the event that is open; and one with entries "KEY.KEY". */
void fgt_perfetto_put_argument(struct fgt_perfetto *trace, const char *key,
			       const char *text);
void fgt_perfetto_begin_entries(struct fgt_perfetto *trace, const char *key);
void fgt_perfetto_put_entry(struct fgt_perfetto *trace, const char *key,
			    const char *text);
void fgt_perfetto_end_entries(struct fgt_perfetto *trace);

/* An interned text, within interned data. */
void fgt_perfetto_put_text(struct fgt_perfetto *trace, uint32_t field,
			   uint64_t iid, const char *text);

/* The slice's images, within interned data. */
void fgt_perfetto_put_mappings(struct fgt_perfetto *trace);

/*
 * The number of the callstack of what is shown, NULL: of no samples. Puts it
 * into the packet that is open, where it is new.
 */
uint64_t fgt_perfetto_callstack(struct fgt_perfetto *trace,
				const struct fgt_shown *shown);

/* What threads did: samples, and the state of each. -ENOMEM. */
int fgt_perfetto_put_samples(struct fgt_perfetto *trace);

/* Tasks with their spans, arrows from task to child task, marks and counters.
 * -ENOMEM. */
int fgt_perfetto_put_tasks(struct fgt_perfetto *trace);
/* Arrows between threads that wake each other, up to that time: on tracks that
 * have marks as well, and events of a track are in the order of time. */
int fgt_perfetto_begin_wakes(struct fgt_perfetto *trace); /* -ENOMEM */
void fgt_perfetto_put_wakes(struct fgt_perfetto *trace, uint64_t until_ns);

#endif
