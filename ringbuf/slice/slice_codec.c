/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the .fgt form of a slice; slice_decode.c reads it. Runs in any
 * thread; must not change the slice nor hold more than one buffer of output.
 *
 * A file is the four bytes "FGT1" and one msgpack map with these keys, the
 * version first. Readers skip keys that they do not know; what changes the
 * meaning of a known key takes a new version. "Flat" is an array of the
 * records' fields one after the other; ids are positions in their table; link
 * is an id + 1, 0 for none; differences are taken modulo the field's width.
 *
 *   version      1
 *   process      map: pid uid start_time name exe host arch os_release
 *   range        [from, to] as requested, ns
 *   period       ns
 *   effective_hz float
 *   lost         [missed, evicted, lapped] ticks
 *   strings      the string table from id 1 on; bytes, UTF-8 as a rule
 *   anchors      flat, each: mono, wall; differences to the one before
 *   ticks        differences to the one before, ns
 *   paces        flat, each: difference of its first tick to the one before,
 *                periods that each tick from there on stands for; 1 before the
 *                first. Absent from files of before there were any
 *   threads      flat, each: tid, name, start_time
 *   images       maps: path build_id is_deleted bias start end dev ino
 *   symbols      flat, each: function, file, line, reason
 *   frames       flat, each: address, image (link), flags, symbol_first,
 *                symbol_count
 *   nodes        flat, each: distance back to the parent (0: none), frame
 *   states       flat, each: state, name
 *   runs         flat, each: difference of the thread to the run before, of
 *                first_tick to the end of the run before (from 0 with a new
 *                thread), tick_count, stack (link), state
 *   edges        flat, each: difference of the thread to the edge before, of
 *                tick to that one's (from 0 with a new thread), µs that it got
 *                a CPU before the tick, µs that it left one; 0: not known.
 *                Absent from files of before there were any
 *   tasks        flat, each: difference of the track to the task before,
 *                number, begin, end (ns; 0: open), parent (link), name, tid.
 *                This and what follows: absent from files of before there
 *                were any
 *   spans        flat, each: difference of the task to the span before, depth,
 *                number, begin, end, name, tid
 *   marks        flat, each: ns since the mark before, name, tid
 *   counters     flat, each: difference of the name to the counter before, ns,
 *                value (float)
 *   labels       flat, each: difference of the span to the label before, key,
 *                value
 */
#include "ringbuf/slice/slice_codec.h"

#include <errno.h>
#include <msgpack.h>

#include "ringbuf/base/sink.h"

static int put_bytes(void *context, const char *bytes, size_t len)
{
	fgt_sink_buffer_put(context, bytes, len);
	return 0;
}

static void pack_text(msgpack_packer *packer, const char *text)
{
	msgpack_pack_str_with_body(packer, text, strlen(text));
}

static void pack_u64(msgpack_packer *packer, const char *key, uint64_t value)
{
	pack_text(packer, key);
	msgpack_pack_uint64(packer, value);
}

static void pack_member(msgpack_packer *packer, const char *key,
			const char *text)
{
	pack_text(packer, key);
	pack_text(packer, text);
}

/* The counts were checked by is_encodable(). */
static void pack_table(msgpack_packer *packer, const char *key, uint32_t count,
		       unsigned int width)
{
	pack_text(packer, key);
	msgpack_pack_array(packer, (size_t)count * width);
}

static void pack_process(msgpack_packer *packer,
			 const struct fgt_process_info *process)
{
	pack_text(packer, "process");
	msgpack_pack_map(packer, 8);
	pack_text(packer, "pid");
	msgpack_pack_int32(packer, process->pid);
	pack_u64(packer, "uid", process->uid);
	pack_u64(packer, "start_time", process->start_time);
	pack_member(packer, "name", process->name);
	pack_member(packer, "exe", process->exe);
	pack_member(packer, "host", process->host);
	pack_member(packer, "arch", process->arch);
	pack_member(packer, "os_release", process->os_release);
}

static void pack_range(msgpack_packer *packer,
		       const struct fgt_ring_slice *slice)
{
	pack_text(packer, "range");
	msgpack_pack_array(packer, 2);
	msgpack_pack_uint64(packer, slice->requested_from_ns);
	msgpack_pack_uint64(packer, slice->requested_to_ns);
	pack_u64(packer, "period", slice->period_ns);
	pack_text(packer, "effective_hz");
	msgpack_pack_double(packer, slice->effective_hz);
	pack_text(packer, "lost");
	msgpack_pack_array(packer, 3);
	msgpack_pack_uint64(packer, slice->missed_ticks);
	msgpack_pack_uint64(packer, slice->evicted_ticks);
	msgpack_pack_uint64(packer, slice->lapped_ticks);
}

static void pack_strings(msgpack_packer *packer,
			 const struct fgt_strings *strings)
{
	uint32_t count = strings->count ? strings->count - 1 : 0;

	pack_table(packer, "strings", count, 1);
	for (uint32_t i = 0; i < count; i++)
		pack_text(packer, fgt_strings_get(strings, i + 1));
}

static void pack_clock(msgpack_packer *packer,
		       const struct fgt_ring_slice *slice)
{
	struct fgt_anchor last = { 0 };
	uint64_t last_tick = 0;

	pack_table(packer, "anchors", slice->anchor_count, 2);
	for (uint32_t i = 0; i < slice->anchor_count; i++) {
		const struct fgt_anchor *anchor = &slice->anchors[i];

		msgpack_pack_uint64(packer, anchor->mono_ns - last.mono_ns);
		msgpack_pack_uint64(packer, anchor->wall_ns - last.wall_ns);
		last = *anchor;
	}
	pack_table(packer, "ticks", slice->tick_count, 1);
	for (uint32_t i = 0; i < slice->tick_count; i++) {
		msgpack_pack_uint64(packer, slice->tick_ns[i] - last_tick);
		last_tick = slice->tick_ns[i];
	}
}

static void pack_paces(msgpack_packer *packer,
		       const struct fgt_ring_slice *slice)
{
	uint32_t last = 0;

	pack_table(packer, "paces", slice->pace_count, 2);
	for (uint32_t i = 0; i < slice->pace_count; i++) {
		const struct fgt_pace *pace = &slice->paces[i];

		msgpack_pack_uint32(packer, pace->first_tick - last);
		msgpack_pack_uint32(packer, pace->periods);
		last = pace->first_tick;
	}
}

static void pack_threads(msgpack_packer *packer,
			 const struct fgt_ring_slice *slice)
{
	pack_table(packer, "threads", slice->thread_count, 3);
	for (uint32_t i = 0; i < slice->thread_count; i++) {
		const struct fgt_slice_thread *thread = &slice->threads[i];

		msgpack_pack_int32(packer, thread->tid);
		msgpack_pack_uint32(packer, thread->name);
		msgpack_pack_uint64(packer, thread->start_time);
	}
}

static void pack_images(msgpack_packer *packer,
			const struct fgt_ring_slice *slice)
{
	pack_table(packer, "images", slice->image_count, 1);
	for (uint32_t i = 0; i < slice->image_count; i++) {
		const struct fgt_slice_image *image = &slice->images[i];

		msgpack_pack_map(packer, 8);
		pack_u64(packer, "path", image->path);
		pack_text(packer, "build_id");
		msgpack_pack_bin_with_body(packer, image->build_id,
					   image->build_id_len);
		pack_u64(packer, "is_deleted", image->is_deleted);
		pack_u64(packer, "bias", image->bias);
		pack_u64(packer, "start", image->start);
		pack_u64(packer, "end", image->end);
		pack_u64(packer, "dev", image->dev);
		pack_u64(packer, "ino", image->ino);
	}
}

static void pack_symbols(msgpack_packer *packer,
			 const struct fgt_ring_slice *slice)
{
	pack_table(packer, "symbols", slice->symbol_count, 4);
	for (uint32_t i = 0; i < slice->symbol_count; i++) {
		const struct fgt_symbol *symbol = &slice->symbols[i];

		msgpack_pack_uint32(packer, symbol->function);
		msgpack_pack_uint32(packer, symbol->file);
		msgpack_pack_uint32(packer, symbol->line);
		msgpack_pack_uint32(packer, symbol->reason);
	}
}

static void pack_stacks(msgpack_packer *packer,
			const struct fgt_ring_slice *slice)
{
	pack_table(packer, "frames", slice->frame_count, 5);
	for (uint32_t i = 0; i < slice->frame_count; i++) {
		const struct fgt_slice_frame *frame = &slice->frames[i];

		msgpack_pack_uint64(packer, frame->frame.address);
		msgpack_pack_uint32(packer, frame->frame.image);
		msgpack_pack_uint32(packer, frame->frame.flags);
		msgpack_pack_uint32(packer, frame->symbol_first);
		msgpack_pack_uint32(packer, frame->symbol_count);
	}
	pack_table(packer, "nodes", slice->node_count, 2);
	for (uint32_t i = 0; i < slice->node_count; i++) {
		uint32_t parent = slice->nodes[i].parent;

		msgpack_pack_uint32(packer,
				    parent == FGT_NODE_NONE ? 0 : i - parent);
		msgpack_pack_uint32(packer, slice->nodes[i].frame);
	}
}

static void pack_runs(msgpack_packer *packer,
		      const struct fgt_ring_slice *slice)
{
	uint32_t thread = 0, tick = 0;

	pack_table(packer, "states", slice->state_count, 2);
	for (uint32_t i = 0; i < slice->state_count; i++) {
		msgpack_pack_uint32(packer, slice->states[i].state);
		msgpack_pack_uint32(packer, slice->states[i].name);
	}
	pack_table(packer, "runs", slice->run_count, 5);
	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];

		if (run->thread != thread)
			tick = 0;
		msgpack_pack_uint32(packer, run->thread - thread);
		msgpack_pack_uint32(packer, run->first_tick - tick);
		msgpack_pack_uint32(packer, run->tick_count);
		msgpack_pack_uint32(packer, run->stack + 1); /* NONE: 0 */
		msgpack_pack_uint32(packer, run->state);
		thread = run->thread;
		tick = run->first_tick + run->tick_count;
	}
}

static void pack_edges(msgpack_packer *packer,
		       const struct fgt_ring_slice *slice)
{
	uint32_t thread = 0, tick = 0;

	pack_table(packer, "edges", slice->edge_count, 4);
	for (uint32_t i = 0; i < slice->edge_count; i++) {
		const struct fgt_edge *edge = &slice->edges[i];

		if (edge->thread != thread)
			tick = 0;
		msgpack_pack_uint32(packer, edge->thread - thread);
		msgpack_pack_uint32(packer, edge->tick - tick);
		msgpack_pack_uint32(packer, edge->on_us);
		msgpack_pack_uint32(packer, edge->off_us);
		thread = edge->thread;
		tick = edge->tick;
	}
}

static void pack_tasks(msgpack_packer *packer,
		       const struct fgt_ring_slice *slice)
{
	uint32_t track = 0;

	pack_table(packer, "tasks", slice->task_count, 7);
	for (uint32_t i = 0; i < slice->task_count; i++) {
		const struct fgt_slice_task *task = &slice->tasks[i];

		msgpack_pack_uint32(packer, task->track - track);
		msgpack_pack_uint64(packer, task->number);
		msgpack_pack_uint64(packer, task->begin_ns);
		msgpack_pack_uint64(packer, task->end_ns);
		msgpack_pack_uint32(packer, task->parent);
		msgpack_pack_uint32(packer, task->name);
		msgpack_pack_int32(packer, task->tid);
		track = task->track;
	}
}

static void pack_spans(msgpack_packer *packer,
		       const struct fgt_ring_slice *slice)
{
	uint32_t task = 0;

	pack_table(packer, "spans", slice->span_count, 7);
	for (uint32_t i = 0; i < slice->span_count; i++) {
		const struct fgt_slice_span *span = &slice->spans[i];

		msgpack_pack_uint32(packer, span->task - task);
		msgpack_pack_uint32(packer, span->depth);
		msgpack_pack_uint64(packer, span->number);
		msgpack_pack_uint64(packer, span->begin_ns);
		msgpack_pack_uint64(packer, span->end_ns);
		msgpack_pack_uint32(packer, span->name);
		msgpack_pack_int32(packer, span->tid);
		task = span->task;
	}
}

static void pack_remarks(msgpack_packer *packer,
			 const struct fgt_ring_slice *slice)
{
	uint64_t at_ns = 0;
	uint32_t name = 0, span = 0;

	pack_table(packer, "marks", slice->mark_count, 3);
	for (uint32_t i = 0; i < slice->mark_count; i++) {
		msgpack_pack_uint64(packer, slice->marks[i].at_ns - at_ns);
		msgpack_pack_uint32(packer, slice->marks[i].name);
		msgpack_pack_int32(packer, slice->marks[i].tid);
		at_ns = slice->marks[i].at_ns;
	}
	pack_table(packer, "counters", slice->counter_count, 3);
	for (uint32_t i = 0; i < slice->counter_count; i++) {
		msgpack_pack_uint32(packer, slice->counters[i].name - name);
		msgpack_pack_uint64(packer, slice->counters[i].at_ns);
		msgpack_pack_double(packer, slice->counters[i].value);
		name = slice->counters[i].name;
	}
	pack_table(packer, "labels", slice->label_count, 3);
	for (uint32_t i = 0; i < slice->label_count; i++) {
		msgpack_pack_uint32(packer, slice->labels[i].span - span);
		msgpack_pack_uint32(packer, slice->labels[i].key);
		msgpack_pack_uint32(packer, slice->labels[i].value);
		span = slice->labels[i].span;
	}
}

/* An array of msgpack has at most 2^32 - 1 elements. */
static bool is_encodable(const struct fgt_ring_slice *slice)
{
	const uint32_t count_max = UINT32_MAX / 7;

	return slice->run_count <= count_max &&
	       slice->edge_count <= count_max &&
	       slice->frame_count <= count_max &&
	       slice->symbol_count <= count_max &&
	       slice->thread_count <= count_max &&
	       slice->node_count <= count_max &&
	       slice->anchor_count <= count_max &&
	       slice->pace_count <= count_max &&
	       slice->task_count <= count_max &&
	       slice->span_count <= count_max &&
	       slice->mark_count <= count_max &&
	       slice->counter_count <= count_max &&
	       slice->label_count <= count_max &&
	       slice->state_count <= count_max;
}

int fgt_slice_encode(const struct fgt_ring_slice *slice,
		     const struct fgt_sink *sink)
{
	struct fgt_sink_buffer buffer;
	msgpack_packer packer;

	if (!is_encodable(slice))
		return -EOVERFLOW;
	fgt_sink_buffer_init(&buffer, sink);
	msgpack_packer_init(&packer, &buffer, put_bytes);
	fgt_sink_buffer_put(&buffer, FGT_SLICE_MAGIC, FGT_SLICE_MAGIC_LEN);
	msgpack_pack_map(&packer, FGT_SLICE_KEY_COUNT);
	pack_u64(&packer, "version", FGT_SLICE_VERSION);
	pack_process(&packer, &slice->process);
	pack_range(&packer, slice);
	pack_strings(&packer, &slice->strings);
	pack_clock(&packer, slice);
	pack_paces(&packer, slice);
	pack_threads(&packer, slice);
	pack_images(&packer, slice);
	pack_symbols(&packer, slice);
	pack_stacks(&packer, slice);
	pack_runs(&packer, slice);
	pack_edges(&packer, slice);
	pack_tasks(&packer, slice);
	pack_spans(&packer, slice);
	pack_remarks(&packer, slice);
	return fgt_sink_buffer_flush(&buffer);
}
