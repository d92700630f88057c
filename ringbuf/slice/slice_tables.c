/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the .fgt form, read. Runs in any thread; must not trust a
 * byte: every count is bounded by the bytes that stand for it before anything
 * is allocated.
 */
#include "ringbuf/slice/slice_tables.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "ringbuf/slice/slice_codec.h"

/* fgt_slice_add_symbols() keeps no more inlined calls at one address. */
#define SYMBOLS_PER_FRAME_MAX 64

/* NUL-terminated text of a fixed field; no NUL inside, nothing cut. */
static void read_field(struct fgt_msgpack_cursor *cursor, char *field,
		       size_t size)
{
	struct fgt_msgpack_text text = fgt_msgpack_read_str(cursor);

	if (text.len >= size || memchr(text.bytes, 0, text.len)) {
		fgt_msgpack_refuse(cursor);
		return;
	}
	memcpy(field, text.bytes, text.len);
	field[text.len] = 0;
}

int fgt_slice_read_table(struct fgt_msgpack_cursor *cursor, unsigned int width,
			 unsigned int min_bytes, size_t size, void **ret_table,
			 uint32_t *ret_count)
{
	uint32_t count = fgt_msgpack_read_array(cursor);
	void *table;

	if (count % width ||
	    count / width > fgt_msgpack_cursor_left(cursor) / min_bytes) {
		fgt_msgpack_refuse(cursor);
		return 0;
	}
	if (!count)
		return 0;
	table = calloc(count / width, size);
	if (!table)
		return -ENOMEM;
	*ret_table = table;
	*ret_count = count / width;
	return 0;
}

static const struct text_field {
	const char *key;
	size_t offset, size;
} text_fields[] = {
#define TEXT_FIELD(field)                                                      \
	{                                                                      \
#field, offsetof(struct fgt_process_info, field),              \
			sizeof(((struct fgt_process_info *)0)->field)          \
	}
	TEXT_FIELD(name), TEXT_FIELD(exe),	  TEXT_FIELD(host),
	TEXT_FIELD(arch), TEXT_FIELD(os_release),
};

/* True if key names a text field. */
static bool read_process_text(struct fgt_msgpack_cursor *cursor,
			      struct fgt_msgpack_text key,
			      struct fgt_process_info *process)
{
	for (size_t i = 0; i < sizeof(text_fields) / sizeof(*text_fields); i++)
		if (fgt_msgpack_text_is(key, text_fields[i].key)) {
			read_field(cursor,
				   (char *)process + text_fields[i].offset,
				   text_fields[i].size);
			return true;
		}
	return false;
}

static int read_process(struct fgt_msgpack_cursor *cursor,
			struct fgt_ring_slice *slice)
{
	uint32_t count = fgt_msgpack_read_map(cursor);

	while (count-- && !cursor->error) {
		struct fgt_msgpack_text key = fgt_msgpack_read_str(cursor);

		if (fgt_msgpack_text_is(key, "pid"))
			slice->process.pid = (int32_t)fgt_msgpack_read_int(
				cursor, INT32_MIN, INT32_MAX);
		else if (fgt_msgpack_text_is(key, "uid"))
			slice->process.uid = fgt_read_u32(cursor);
		else if (fgt_msgpack_text_is(key, "start_time"))
			slice->process.start_time = fgt_read_u64(cursor);
		else if (!read_process_text(cursor, key, &slice->process))
			fgt_msgpack_skip(cursor);
	}
	return 0;
}

static int read_range(struct fgt_msgpack_cursor *cursor,
		      struct fgt_ring_slice *slice)
{
	if (fgt_msgpack_read_array(cursor) != 2)
		fgt_msgpack_refuse(cursor);
	slice->requested_from_ns = fgt_read_u64(cursor);
	slice->requested_to_ns = fgt_read_u64(cursor);
	return 0;
}

static int read_period(struct fgt_msgpack_cursor *cursor,
		       struct fgt_ring_slice *slice)
{
	slice->period_ns = fgt_read_u64(cursor);
	return 0;
}

static int read_effective_hz(struct fgt_msgpack_cursor *cursor,
			     struct fgt_ring_slice *slice)
{
	slice->effective_hz = fgt_msgpack_read_double(cursor);
	if (!isfinite(slice->effective_hz) || slice->effective_hz < 0)
		fgt_msgpack_refuse(cursor);
	return 0;
}

static int read_lost(struct fgt_msgpack_cursor *cursor,
		     struct fgt_ring_slice *slice)
{
	if (fgt_msgpack_read_array(cursor) != 3)
		fgt_msgpack_refuse(cursor);
	slice->missed_ticks = fgt_read_u64(cursor);
	slice->evicted_ticks = fgt_read_u64(cursor);
	slice->lapped_ticks = fgt_read_u64(cursor);
	return 0;
}

/* Ids are positions, so each string must be new and come through whole. */
static int read_strings(struct fgt_msgpack_cursor *cursor,
			struct fgt_ring_slice *slice)
{
	uint32_t count = fgt_msgpack_read_array(cursor);

	for (uint32_t i = 1; i <= count && !cursor->error; i++) {
		struct fgt_msgpack_text text = fgt_msgpack_read_str(cursor);
		uint32_t id;
		int r;

		if (cursor->error)
			break;
		if (text.len > FGT_STRING_MAX ||
		    memchr(text.bytes, 0, text.len)) {
			fgt_msgpack_refuse(cursor);
			break;
		}
		r = fgt_strings_intern(&slice->strings, text.bytes, text.len,
				       &id);
		if (r)
			return r;
		if (id != i)
			fgt_msgpack_refuse(cursor);
	}
	return 0;
}

static int read_anchors(struct fgt_msgpack_cursor *cursor,
			struct fgt_ring_slice *slice)
{
	struct fgt_anchor last = { 0 };
	int r;

	r = FGT_READ_TABLE(cursor, 2, 2, slice->anchors, slice->anchor_count);
	if (r)
		return r;
	for (uint32_t i = 0; i < slice->anchor_count; i++) {
		last.mono_ns += fgt_read_u64(cursor);
		last.wall_ns += fgt_read_u64(cursor);
		slice->anchors[i] = last;
	}
	return 0;
}

static int read_ticks(struct fgt_msgpack_cursor *cursor,
		      struct fgt_ring_slice *slice)
{
	uint64_t last = 0;
	int r;

	r = FGT_READ_TABLE(cursor, 1, 1, slice->tick_ns, slice->tick_count);
	if (r)
		return r;
	for (uint32_t i = 0; i < slice->tick_count; i++) {
		last += fgt_read_u64(cursor);
		slice->tick_ns[i] = last;
	}
	return 0;
}

static int read_paces(struct fgt_msgpack_cursor *cursor,
		      struct fgt_ring_slice *slice)
{
	struct fgt_pace pace = { .periods = 1 };
	int r;

	r = FGT_READ_TABLE(cursor, 2, 2, slice->paces, slice->pace_count);
	if (r)
		return r;
	for (uint32_t i = 0; i < slice->pace_count; i++) {
		uint32_t distance = fgt_read_u32(cursor);

		pace.first_tick += distance;
		pace.periods_before += (uint64_t)distance * pace.periods;
		pace.periods = fgt_read_u32(cursor);
		slice->paces[i] = pace;
	}
	return 0;
}

static int read_threads(struct fgt_msgpack_cursor *cursor,
			struct fgt_ring_slice *slice)
{
	int r;

	r = FGT_READ_TABLE(cursor, 3, 3, slice->threads, slice->thread_count);
	if (r)
		return r;
	for (uint32_t i = 0; i < slice->thread_count; i++) {
		struct fgt_slice_thread *thread = &slice->threads[i];

		thread->tid = (int32_t)fgt_msgpack_read_int(cursor, INT32_MIN,
							    INT32_MAX);
		thread->name = fgt_read_u32(cursor);
		thread->start_time = fgt_read_u64(cursor);
	}
	return 0;
}

static int read_symbols(struct fgt_msgpack_cursor *cursor,
			struct fgt_ring_slice *slice)
{
	int r;

	r = FGT_READ_TABLE(cursor, 4, 4, slice->symbols, slice->symbol_count);
	if (r)
		return r;
	slice->symbol_capacity = slice->symbol_count;
	for (uint32_t i = 0; i < slice->symbol_count; i++) {
		struct fgt_symbol *symbol = &slice->symbols[i];

		symbol->function = fgt_read_u32(cursor);
		symbol->file = fgt_read_u32(cursor);
		symbol->line = fgt_read_u32(cursor);
		symbol->reason = fgt_read_u32(cursor);
	}
	return 0;
}

static int read_frames(struct fgt_msgpack_cursor *cursor,
		       struct fgt_ring_slice *slice)
{
	int r;

	r = FGT_READ_TABLE(cursor, 5, 5, slice->frames, slice->frame_count);
	if (r)
		return r;
	for (uint32_t i = 0; i < slice->frame_count; i++) {
		struct fgt_slice_frame *frame = &slice->frames[i];

		frame->frame.address = fgt_read_u64(cursor);
		frame->frame.image = fgt_read_u32(cursor);
		frame->frame.flags = fgt_read_u32(cursor);
		frame->symbol_first = fgt_read_u32(cursor);
		frame->symbol_count = (uint32_t)fgt_msgpack_read_uint(
			cursor, SYMBOLS_PER_FRAME_MAX);
	}
	return 0;
}

static int read_nodes(struct fgt_msgpack_cursor *cursor,
		      struct fgt_ring_slice *slice)
{
	int r;

	r = FGT_READ_TABLE(cursor, 2, 2, slice->nodes, slice->node_count);
	if (r)
		return r;
	for (uint32_t i = 0; i < slice->node_count; i++) {
		uint32_t distance = fgt_read_u32(cursor);

		if (distance > i)
			fgt_msgpack_refuse(cursor);
		slice->nodes[i].parent = distance ? i - distance
						  : FGT_NODE_NONE;
		slice->nodes[i].frame = fgt_read_u32(cursor);
	}
	return 0;
}

static int read_states(struct fgt_msgpack_cursor *cursor,
		       struct fgt_ring_slice *slice)
{
	int r;

	r = FGT_READ_TABLE(cursor, 2, 2, slice->states, slice->state_count);
	if (r)
		return r;
	for (uint32_t i = 0; i < slice->state_count; i++) {
		slice->states[i].state = fgt_read_u32(cursor);
		slice->states[i].name = fgt_read_u32(cursor);
	}
	return 0;
}

static int read_runs(struct fgt_msgpack_cursor *cursor,
		     struct fgt_ring_slice *slice)
{
	uint32_t thread = 0, tick = 0;
	int r;

	r = FGT_READ_TABLE(cursor, 5, 5, slice->runs, slice->run_count);
	if (r)
		return r;
	for (uint32_t i = 0; i < slice->run_count; i++) {
		struct fgt_run *run = &slice->runs[i];
		uint32_t next = fgt_read_u32(cursor);

		if (next)
			tick = 0;
		thread += next;
		run->thread = thread;
		run->first_tick = tick + fgt_read_u32(cursor);
		run->tick_count = fgt_read_u32(cursor);
		run->stack = fgt_read_u32(cursor) - 1; /* 0: FGT_NODE_NONE */
		run->state = fgt_read_u32(cursor);
		tick = run->first_tick + run->tick_count;
	}
	return 0;
}

static int read_edges(struct fgt_msgpack_cursor *cursor,
		      struct fgt_ring_slice *slice)
{
	struct fgt_edge edge = { 0 };
	int r = FGT_READ_TABLE(cursor, 4, 4, slice->edges, slice->edge_count);

	for (uint32_t i = 0; i < slice->edge_count; i++) {
		uint32_t next = fgt_read_u32(cursor);

		edge.thread += next;
		edge.tick = fgt_read_u32(cursor) + (next ? 0 : edge.tick);
		edge.on_us = fgt_read_u32(cursor);
		edge.off_us = fgt_read_u32(cursor);
		slice->edges[i] = edge;
	}
	return r;
}

static const struct key {
	const char *name;
	int (*read)(struct fgt_msgpack_cursor *cursor,
		    struct fgt_ring_slice *slice);
} keys[] = {
	{ "process", read_process },
	{ "range", read_range },
	{ "period", read_period },
	{ "effective_hz", read_effective_hz },
	{ "lost", read_lost },
	{ "strings", read_strings },
	{ "anchors", read_anchors },
	{ "ticks", read_ticks },
	{ "threads", read_threads },
	{ "images", fgt_slice_read_images },
	{ "symbols", read_symbols },
	{ "frames", read_frames },
	{ "nodes", read_nodes },
	{ "states", read_states },
	{ "runs", read_runs },
	{ "paces", read_paces },
	{ "edges", read_edges },
	{ "tasks", fgt_slice_read_tasks },
	{ "spans", fgt_slice_read_spans },
	{ "marks", fgt_slice_read_marks },
	{ "counters", fgt_slice_read_counters },
	{ "labels", fgt_slice_read_labels },
};
#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))
/* The last seven are younger than the format: a file may be without them. */
#define REQUIRED_COUNT (KEY_COUNT - 7)

static size_t find_key(struct fgt_msgpack_text name)
{
	size_t i = 0;

	while (i < KEY_COUNT && !fgt_msgpack_text_is(name, keys[i].name))
		i++;
	return i;
}

int fgt_slice_tables_read(struct fgt_msgpack_cursor *cursor, uint32_t count,
			  struct fgt_ring_slice *slice, struct fgt_why *why)
{
	uint32_t seen = 0;

	while (count--) {
		size_t i = find_key(fgt_msgpack_read_str(cursor));
		int r;

		if (i == KEY_COUNT) {
			fgt_msgpack_skip(cursor);
			if (cursor->error)
				return fgt_why_set(why, -EBADMSG,
						   "damaged slice: a key is "
						   "not a string");
			continue;
		}
		if (seen & 1u << i)
			return fgt_why_set(why, -EBADMSG,
					   "damaged slice: two '%s' tables",
					   keys[i].name);
		seen |= 1u << i;
		r = keys[i].read(cursor, slice);
		if (r)
			return fgt_why_set(why, r, "no memory for the slice");
		if (cursor->error)
			return fgt_why_set(
				why, -EBADMSG,
				"damaged slice: bad '%s' near byte %zu",
				keys[i].name,
				cursor->error_at + FGT_SLICE_MAGIC_LEN);
	}
	for (size_t i = 0; i < REQUIRED_COUNT; i++)
		if (!(seen & 1u << i))
			return fgt_why_set(why, -EBADMSG,
					   "damaged slice: no '%s' table",
					   keys[i].name);
	return 0;
}
