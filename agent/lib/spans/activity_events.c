/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the span log as trace events of Chrome's JSON array format. Runs
 * on the thread of the live file; holds one event at a time.
 */
#include <stdio.h>
#include <string.h>

#include "agent/lib/spans/activity.h"
#include "ringbuf/base/json.h"

/* Above all tids of Linux, as in slices. */
#define TRACKS_FIRST 0x40000000u

struct event_writer {
	struct fgt_json json;
	const struct fgt_sink *sink;
	int32_t pid;
	int error;
};

static void begin(struct event_writer *writer, const char *name, size_t len,
		  const char *phase, uint64_t tid, uint64_t mono_ns)
{
	struct fgt_json *json = &writer->json;

	fgt_json_init(json, writer->sink);
	fgt_json_begin_object(json, NULL);
	fgt_json_put_text(json, "name", name, len);
	fgt_json_put_string(json, "ph", phase);
	fgt_json_put_decimal(json, "ts", mono_ns, 3);
	fgt_json_put_uint(json, "pid", (uint32_t)writer->pid);
	fgt_json_put_uint(json, "tid", tid);
}

static void end(struct event_writer *writer)
{
	int r;

	fgt_json_end_object(&writer->json);
	r = fgt_json_finish(&writer->json);
	if (r == 0)
		r = fgt_sink_write(writer->sink, ",\n", 2);
	if (!writer->error)
		writer->error = r;
}

static void put_name(struct event_writer *writer, const char *kind,
		     uint64_t tid, const char *name, size_t len)
{
	begin(writer, kind, strlen(kind), "M", tid, 0);
	fgt_json_begin_object(&writer->json, "args");
	fgt_json_put_text(&writer->json, "name", name, len);
	fgt_json_end_object(&writer->json);
	end(writer);
}

static uint64_t tid_of(uint32_t track)
{
	return TRACKS_FIRST + (uint64_t)track;
}

/* On the parent's track, too, the time is the begin of the child. */
static void put_flow(struct event_writer *writer, const char *phase,
		     uint64_t tid, const struct fgt_span_record *record)
{
	char id[24];

	snprintf(id, sizeof(id), "%llx", (unsigned long long)record->number);
	begin(writer, "child-task", 10, phase, tid, record->begin_ns);
	fgt_json_put_string(&writer->json, "cat", "task");
	fgt_json_put_string(&writer->json, "id", id);
	if (*phase == 'f')
		fgt_json_put_string(&writer->json, "bp", "e");
	end(writer);
}

/* The id is that of log lines, see fgt_span_ids(). */
static void put_section(struct event_writer *writer, const char *phase,
			uint64_t mono_ns, const struct fgt_span_record *record)
{
	char id[FGT_NUMBER_TEXT_SIZE];

	begin(writer, record->text, record->text_len, phase,
	      tid_of(record->track), mono_ns);
	if (*phase == 'B') {
		fgt_number_text(record->number, id);
		fgt_json_begin_object(&writer->json, "args");
		fgt_json_put_string(&writer->json, "id", id);
		fgt_json_end_object(&writer->json);
	}
	end(writer);
}

static void put_task(struct event_writer *writer,
		     const struct fgt_span_record *record)
{
	put_name(writer, "thread_name", tid_of(record->track), record->text,
		 record->text_len);
	put_section(writer, "B", record->begin_ns, record);
	if (!record->parent_track)
		return;
	put_flow(writer, "s", tid_of(record->parent_track), record);
	put_flow(writer, "f", tid_of(record->track), record);
}

static void put_instant(struct event_writer *writer, uint64_t tid,
			const char *name, size_t len,
			const struct fgt_span_record *record)
{
	struct fgt_json *json = &writer->json;

	begin(writer, name, len, "i", tid, record->begin_ns);
	fgt_json_put_string(json, "s", "t");
	if (record->kind == FGT_SPAN_LABEL) {
		fgt_json_begin_object(json, "args");
		fgt_json_put_text(json, "value", record->text,
				  record->text_len);
		fgt_json_end_object(json);
	}
	end(writer);
}

static void put_counter(struct event_writer *writer,
			const struct fgt_span_record *record)
{
	begin(writer, record->text, record->text_len, "C",
	      (uint32_t)writer->pid, record->begin_ns);
	fgt_json_begin_object(&writer->json, "args");
	fgt_json_put_double(&writer->json, "value", record->value);
	fgt_json_end_object(&writer->json);
	end(writer);
}

int fgt_activity_put(const struct fgt_span_record *record, int32_t pid,
		     const struct fgt_sink *sink)
{
	struct event_writer writer = { .sink = sink, .pid = pid };

	if (record->is_again)
		return 0;
	switch (record->kind) {
	case FGT_SPAN_TASK_BEGIN:
		put_task(&writer, record);
		break;
	case FGT_SPAN_BEGIN:
		put_section(&writer, "B", record->begin_ns, record);
		break;
	case FGT_SPAN_TASK_END:
	case FGT_SPAN_END:
		put_section(&writer, "E", record->end_ns, record);
		break;
	case FGT_SPAN_MARK:
		put_instant(&writer, (uint32_t)record->tid, record->text,
			    record->text_len, record);
		break;
	case FGT_SPAN_COUNTER:
		put_counter(&writer, record);
		break;
	case FGT_SPAN_LABEL:
		put_instant(&writer, tid_of(record->track), record->key,
			    record->key_len, record);
		break;
	default:
		break;
	}
	return writer.error;
}

int fgt_activity_put_head(int32_t pid, const char *process, uint64_t mono_ns,
			  uint64_t wall_ns, const struct fgt_sink *sink)
{
	struct event_writer writer = { .sink = sink, .pid = pid };
	int r = fgt_sink_write(sink, "[\n", 2);

	if (r < 0)
		return r;
	put_name(&writer, "process_name", (uint32_t)pid, process,
		 strlen(process));
	begin(&writer, "clock", 5, "M", (uint32_t)pid, 0);
	fgt_json_begin_object(&writer.json, "args");
	fgt_json_put_uint_string(&writer.json, "monotonic_ns", mono_ns);
	fgt_json_put_time(&writer.json, "wall_clock", wall_ns);
	fgt_json_end_object(&writer.json);
	end(&writer);
	return writer.error;
}

int fgt_activity_put_lost(uint64_t lost, int32_t pid, uint64_t mono_ns,
			  const struct fgt_sink *sink)
{
	struct event_writer writer = { .sink = sink, .pid = pid };

	begin(&writer, "[events lost]", 13, "i", (uint32_t)pid, mono_ns);
	fgt_json_put_string(&writer.json, "s", "g");
	fgt_json_begin_object(&writer.json, "args");
	fgt_json_put_uint(&writer.json, "lost", lost);
	fgt_json_end_object(&writer.json);
	end(&writer);
	return writer.error;
}
