/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks, spans and what else a program said, read from the .fgt form. Runs in
 * any thread; must not trust a byte: what was read has to pass
 * fgt_spans_are_valid().
 */
#include "ringbuf/slice/slice_tables.h"

static int32_t read_tid(struct fgt_msgpack_cursor *cursor)
{
	return (int32_t)fgt_msgpack_read_int(cursor, INT32_MIN, INT32_MAX);
}

int fgt_slice_read_tasks(struct fgt_msgpack_cursor *cursor,
			 struct fgt_ring_slice *slice)
{
	uint32_t track = 0;
	int r;

	r = FGT_READ_TABLE(cursor, 7, 7, slice->tasks, slice->task_count);
	if (r)
		return r;
	for (uint32_t i = 0; i < slice->task_count; i++) {
		struct fgt_slice_task *task = &slice->tasks[i];

		track += fgt_read_u32(cursor);
		task->track = track;
		task->number = fgt_read_u64(cursor);
		task->begin_ns = fgt_read_u64(cursor);
		task->end_ns = fgt_read_u64(cursor);
		task->parent = fgt_read_u32(cursor);
		task->name = fgt_read_u32(cursor);
		task->tid = read_tid(cursor);
	}
	return 0;
}

int fgt_slice_read_spans(struct fgt_msgpack_cursor *cursor,
			 struct fgt_ring_slice *slice)
{
	uint32_t task = 0;
	int r;

	r = FGT_READ_TABLE(cursor, 7, 7, slice->spans, slice->span_count);
	if (r)
		return r;
	for (uint32_t i = 0; i < slice->span_count; i++) {
		struct fgt_slice_span *span = &slice->spans[i];

		task += fgt_read_u32(cursor);
		span->task = task;
		span->depth = fgt_read_u32(cursor);
		span->number = fgt_read_u64(cursor);
		span->begin_ns = fgt_read_u64(cursor);
		span->end_ns = fgt_read_u64(cursor);
		span->name = fgt_read_u32(cursor);
		span->tid = read_tid(cursor);
	}
	return 0;
}

int fgt_slice_read_marks(struct fgt_msgpack_cursor *cursor,
			 struct fgt_ring_slice *slice)
{
	uint64_t at_ns = 0;
	int r;

	r = FGT_READ_TABLE(cursor, 3, 3, slice->marks, slice->mark_count);
	if (r)
		return r;
	for (uint32_t i = 0; i < slice->mark_count; i++) {
		struct fgt_slice_mark *mark = &slice->marks[i];

		at_ns += fgt_read_u64(cursor);
		mark->at_ns = at_ns;
		mark->name = fgt_read_u32(cursor);
		mark->tid = read_tid(cursor);
	}
	return 0;
}

int fgt_slice_read_counters(struct fgt_msgpack_cursor *cursor,
			    struct fgt_ring_slice *slice)
{
	uint32_t name = 0;
	int r;

	r = FGT_READ_TABLE(cursor, 3, 3, slice->counters, slice->counter_count);
	if (r)
		return r;
	for (uint32_t i = 0; i < slice->counter_count; i++) {
		struct fgt_slice_counter *counter = &slice->counters[i];

		name += fgt_read_u32(cursor);
		counter->name = name;
		counter->at_ns = fgt_read_u64(cursor);
		counter->value = fgt_msgpack_read_double(cursor);
	}
	return 0;
}

int fgt_slice_read_labels(struct fgt_msgpack_cursor *cursor,
			  struct fgt_ring_slice *slice)
{
	uint32_t span = 0;
	int r;

	r = FGT_READ_TABLE(cursor, 3, 3, slice->labels, slice->label_count);
	if (r)
		return r;
	for (uint32_t i = 0; i < slice->label_count; i++) {
		struct fgt_slice_label *label = &slice->labels[i];

		span += fgt_read_u32(cursor);
		label->span = span;
		label->key = fgt_read_u32(cursor);
		label->value = fgt_read_u32(cursor);
	}
	return 0;
}
