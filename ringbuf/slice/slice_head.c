/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what the .fgt form of a slice has besides its tables. Runs in any
 * thread; must not trust a byte.
 */
#include "ringbuf/slice/slice_head.h"

#include <string.h>

/* NUL-terminated text of a fixed field; no NUL inside, nothing cut. */
static void read_text(struct fgt_msgpack_cursor *cursor, char *field,
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

#define READ_TEXT(cursor, field) read_text(cursor, field, sizeof(field))

int fgt_slice_read_process(struct fgt_msgpack_cursor *cursor,
			   struct fgt_ring_slice *slice)
{
	struct fgt_process_info *process = &slice->process;
	uint32_t count = fgt_msgpack_read_map(cursor);

	while (count-- && !cursor->error) {
		struct fgt_msgpack_text key = fgt_msgpack_read_str(cursor);

		if (fgt_msgpack_text_is(key, "pid"))
			process->pid = fgt_msgpack_read_i32(cursor);
		else if (fgt_msgpack_text_is(key, "uid"))
			process->uid = fgt_msgpack_read_u32(cursor);
		else if (fgt_msgpack_text_is(key, "start_time"))
			process->start_time = fgt_msgpack_read_u64(cursor);
		else if (fgt_msgpack_text_is(key, "name"))
			READ_TEXT(cursor, process->name);
		else if (fgt_msgpack_text_is(key, "exe"))
			READ_TEXT(cursor, process->exe);
		else if (fgt_msgpack_text_is(key, "host"))
			READ_TEXT(cursor, process->host);
		else if (fgt_msgpack_text_is(key, "arch"))
			READ_TEXT(cursor, process->arch);
		else if (fgt_msgpack_text_is(key, "os_release"))
			READ_TEXT(cursor, process->os_release);
		else if (fgt_msgpack_text_is(key, "title"))
			READ_TEXT(cursor, process->title);
		else if (fgt_msgpack_text_is(key, "ended_by"))
			READ_TEXT(cursor, slice->ended_by);
		else
			fgt_msgpack_skip(cursor);
	}
	return 0;
}

/* The text of the table that has this key; FGT_SERVICE_TEXTS: none. */
static size_t find_service_text(struct fgt_msgpack_text key)
{
	size_t i = 0;

	while (i < FGT_SERVICE_TEXTS &&
	       !fgt_msgpack_text_is(key, fgt_service_texts[i].key))
		i++;
	return i;
}

int fgt_slice_read_service(struct fgt_msgpack_cursor *cursor,
			   struct fgt_ring_slice *slice)
{
	struct fgt_service *service = &slice->process.service;
	uint32_t count = fgt_msgpack_read_map(cursor);

	while (count-- && !cursor->error) {
		size_t i = find_service_text(fgt_msgpack_read_str(cursor));

		if (i < FGT_SERVICE_TEXTS)
			read_text(cursor, fgt_service_text_at(service, i),
				  FGT_SERVICE_TEXT_MAX);
		else
			fgt_msgpack_skip(cursor);
	}
	return 0;
}

int fgt_slice_read_range(struct fgt_msgpack_cursor *cursor,
			 struct fgt_ring_slice *slice)
{
	if (fgt_msgpack_read_array(cursor) != 2)
		fgt_msgpack_refuse(cursor);
	slice->requested_from_ns = fgt_msgpack_read_u64(cursor);
	slice->requested_to_ns = fgt_msgpack_read_u64(cursor);
	return 0;
}

int fgt_slice_read_period(struct fgt_msgpack_cursor *cursor,
			  struct fgt_ring_slice *slice)
{
	slice->period_ns = fgt_msgpack_read_u64(cursor);
	return 0;
}

int fgt_slice_read_effective_hz(struct fgt_msgpack_cursor *cursor,
				struct fgt_ring_slice *slice)
{
	slice->effective_hz = fgt_msgpack_read_double(cursor);
	return 0;
}

int fgt_slice_read_lost(struct fgt_msgpack_cursor *cursor,
			struct fgt_ring_slice *slice)
{
	if (fgt_msgpack_read_array(cursor) != 3)
		fgt_msgpack_refuse(cursor);
	slice->missed_ticks = fgt_msgpack_read_u64(cursor);
	slice->evicted_ticks = fgt_msgpack_read_u64(cursor);
	slice->lapped_ticks = fgt_msgpack_read_u64(cursor);
	return 0;
}

int fgt_slice_read_brief(struct fgt_msgpack_cursor *cursor,
			 struct fgt_ring_slice *slice)
{
	if (fgt_msgpack_read_array(cursor) != 2)
		fgt_msgpack_refuse(cursor);
	slice->brief_threads = fgt_msgpack_read_u64(cursor);
	slice->brief_cpu_ns = fgt_msgpack_read_u64(cursor);
	return 0;
}

int fgt_slice_read_lost_wakes(struct fgt_msgpack_cursor *cursor,
			      struct fgt_ring_slice *slice)
{
	slice->lost_wakes = fgt_msgpack_read_u64(cursor);
	return 0;
}
