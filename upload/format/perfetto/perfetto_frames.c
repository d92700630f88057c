/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a Perfetto trace: images, and as samples need them functions,
 * frames and callstacks. An inlined call is a frame at the same place. Runs in
 * any thread.
 */
#include <stdlib.h>

#include "ringbuf/base/array.h"
#include "upload/format/perfetto/perfetto.h"

enum {
	FRAME_FUNCTION_NAME_ID = 2,
	FRAME_MAPPING_ID,
	FRAME_REL_PC,
	FRAME_SOURCE_PATH_IID,
	FRAME_LINE_NUMBER,
	FRAME_KIND,
	KIND_NATIVE = 1,
	KIND_KERNEL,
	CALLSTACK_FRAME_IDS = 2,
	MAPPING_BUILD_ID = 2,
	MAPPING_START = 4,
	MAPPING_END,
	MAPPING_LOAD_BIAS,
	MAPPING_PATH_STRING_IDS,
};

/* Keys of frames: a level, or a level of a frame of the slice: 0 is the
 * innermost. Levels have kinds below 2^8. */
#define FRAME_SHIFT 40

static uint64_t key_of_frame(const struct fgt_ring_slice *slice, uint32_t frame,
			     uint32_t index)
{
	if (slice->frames[frame].frame.flags & FGT_FRAME_MARKER)
		return fgt_level_key(fgt_level_of_frame(slice, frame, index));
	return (uint64_t)(index + 1) << FRAME_SHIFT | frame;
}

/* ---- Images ------------------------------------------------------------- */

/* Readers drop stacks with a frame in no mapping: this is that of markers, and
 * of code that no file backs. */
static uint64_t no_image(const struct fgt_perfetto *trace)
{
	return (uint64_t)trace->slice->image_count + 1;
}

static void put_mapping(struct fgt_perfetto *trace, uint32_t index)
{
	const struct fgt_slice_image *image = &trace->slice->images[index];
	const uint64_t iid = (uint64_t)index + 1;

	fgt_protobuf_begin(&trace->out, FGT_INTERNED_BUILD_IDS);
	fgt_protobuf_put_uint(&trace->out, FGT_INTERNED_IID, iid);
	fgt_protobuf_put_bytes(&trace->out, FGT_INTERNED_TEXT, image->build_id,
			       image->build_id_len);
	fgt_protobuf_end(&trace->out);
	fgt_perfetto_put_text(trace, FGT_INTERNED_MAPPING_PATHS, iid,
			      fgt_slice_string(trace->slice, image->path));
	fgt_protobuf_begin(&trace->out, FGT_INTERNED_MAPPINGS);
	fgt_protobuf_put_uint(&trace->out, FGT_INTERNED_IID, iid);
	fgt_protobuf_put_uint(&trace->out, MAPPING_BUILD_ID, iid);
	fgt_protobuf_put_uint(&trace->out, MAPPING_START, image->start);
	fgt_protobuf_put_uint(&trace->out, MAPPING_END, image->end);
	fgt_protobuf_put_uint(&trace->out, MAPPING_LOAD_BIAS, image->bias);
	fgt_protobuf_put_uint(&trace->out, MAPPING_PATH_STRING_IDS, iid);
	fgt_protobuf_end(&trace->out);
}

void fgt_perfetto_put_mappings(struct fgt_perfetto *trace)
{
	for (uint32_t i = 0; i < trace->slice->image_count; i++)
		put_mapping(trace, i);
	fgt_protobuf_begin(&trace->out, FGT_INTERNED_MAPPINGS);
	fgt_protobuf_put_uint(&trace->out, FGT_INTERNED_IID, no_image(trace));
	fgt_protobuf_end(&trace->out);
}

/* ---- Frames ------------------------------------------------------------- */

/* The number of a key, from 1 on. */
static uint64_t number(struct fgt_perfetto *trace, struct fgt_id_map *map,
		       uint64_t key, bool *ret_is_new)
{
	uint32_t known = map->count, id = 0;
	int r = fgt_id_map_add(map, key, &id);

	if (r)
		trace->error = r;
	*ret_is_new = map->count > known;
	return (uint64_t)id + 1;
}

static uint64_t function_name(struct fgt_perfetto *trace,
			      struct fgt_level level)
{
	char buffer[FGT_LEVEL_NAME_MAX];
	bool is_new;
	uint64_t iid =
		number(trace, &trace->functions, fgt_level_key(level), &is_new);

	if (is_new)
		fgt_perfetto_put_text(
			trace, FGT_INTERNED_FUNCTION_NAMES, iid,
			fgt_level_name(trace->slice, level, buffer));
	return iid;
}

static uint64_t source_path(struct fgt_perfetto *trace, uint32_t file)
{
	bool is_new;
	uint64_t iid;

	if (!file)
		return 0;
	iid = number(trace, &trace->source_paths, file, &is_new);
	if (is_new)
		fgt_perfetto_put_text(trace, FGT_INTERNED_SOURCE_PATHS, iid,
				      fgt_slice_string(trace->slice, file));
	return iid;
}

static uint64_t kind_of(struct fgt_level level)
{
	if (level.kind == FGT_LEVEL_FUNCTION || level.kind == FGT_LEVEL_ADDRESS)
		return KIND_NATIVE;
	return level.kind == FGT_LEVEL_MARKER &&
			       (level.id == FGT_MARKER_KERNEL ||
				level.id == FGT_MARKER_KERNEL_DENIED)
		       ? KIND_KERNEL
		       : 0;
}

/* Where a function was. A caller has its return address: the call is before it,
 * and readers subtract nothing. */
static void put_place(struct fgt_perfetto *trace,
		      const struct fgt_slice_frame *frame,
		      const struct fgt_symbol *symbol, uint64_t path)
{
	const struct fgt_frame *place = &frame->frame;

	fgt_protobuf_put_uint(&trace->out, FRAME_MAPPING_ID,
			      place->image ? place->image : no_image(trace));
	fgt_protobuf_put_uint(&trace->out, FRAME_REL_PC,
			      place->address -
				      !!(place->flags & FGT_FRAME_CALLER));
	fgt_protobuf_put_uint(&trace->out, FRAME_SOURCE_PATH_IID, path);
	fgt_protobuf_put_uint(&trace->out, FRAME_LINE_NUMBER,
			      symbol ? symbol->line : 0);
}

static void put_frame(struct fgt_perfetto *trace, uint64_t iid, uint64_t key)
{
	const struct fgt_ring_slice *slice = trace->slice;
	const uint32_t index = (uint32_t)(key >> FRAME_SHIFT);
	const struct fgt_slice_frame *frame =
		index ? &slice->frames[(uint32_t)key] : NULL;
	const struct fgt_symbol *symbol = NULL;
	struct fgt_level level = fgt_level_of_key(key);
	uint64_t name_iid, path;

	if (frame)
		level = fgt_level_of_frame(slice, (uint32_t)key, index - 1);
	if (frame && frame->symbol_count)
		symbol = &slice->symbols[frame->symbol_first + index - 1];
	name_iid = function_name(trace, level);
	path = symbol ? source_path(trace, symbol->file) : 0;
	fgt_protobuf_begin(&trace->out, FGT_INTERNED_FRAMES);
	fgt_protobuf_put_uint(&trace->out, FGT_INTERNED_IID, iid);
	fgt_protobuf_put_uint(&trace->out, FRAME_FUNCTION_NAME_ID, name_iid);
	if (frame)
		put_place(trace, frame, symbol, path);
	else
		fgt_protobuf_put_uint(&trace->out, FRAME_MAPPING_ID,
				      no_image(trace));
	fgt_protobuf_put_uint(&trace->out, FRAME_KIND, kind_of(level));
	fgt_protobuf_end(&trace->out);
}

/* ---- Callstacks --------------------------------------------------------- */

/* At the end: closer to the root. */
static void push(struct fgt_perfetto *trace, uint64_t key)
{
	int r = FGT_ARRAY_GROW(trace->frame_keys, trace->frame_key_count,
			       trace->frame_key_capacity);

	if (r)
		trace->error = r;
	else
		trace->frame_keys[trace->frame_key_count++] = key;
}

static void push_level(struct fgt_perfetto *trace, uint32_t kind, uint32_t id)
{
	push(trace, fgt_level_key((struct fgt_level){ kind, id }));
}

static void push_stack(struct fgt_perfetto *trace, uint32_t node)
{
	const struct fgt_ring_slice *slice = trace->slice;

	for (; node != FGT_NODE_NONE; node = slice->nodes[node].parent) {
		uint32_t frame = slice->nodes[node].frame;
		uint32_t count = fgt_levels_of_frame(slice, frame);

		for (uint32_t i = 0; i < count; i++)
			push(trace, key_of_frame(slice, frame, i));
	}
}

static void push_shown(struct fgt_perfetto *trace,
		       const struct fgt_shown *shown, uint64_t state)
{
	trace->frame_key_count = 0;
	if (!shown) {
		push_level(trace, FGT_LEVEL_GAP, 0);
		return;
	}
	if (trace->state_frames == FGT_STATE_FRAMES_LEAF)
		push(trace, state);
	if (shown->stack == FGT_NODE_NONE)
		push_level(trace, FGT_LEVEL_NO_STACK, 0);
	else if (!shown->is_sampled &&
		 !fgt_levels_are_marked(trace->slice, shown->stack))
		push_level(trace, FGT_LEVEL_MARKER, FGT_MARKER_NOT_SAMPLED);
	push_stack(trace, shown->stack);
	if (fgt_state_is_at_root(trace->state_frames))
		push(trace, state);
}

/* Frames that are new precede it. */
static void put_callstack(struct fgt_perfetto *trace, uint64_t iid)
{
	uint64_t *keys = trace->frame_keys;

	fgt_protobuf_begin(&trace->out, FGT_PACKET_INTERNED_DATA);
	for (uint32_t i = trace->frame_key_count; i > 0; i--) {
		uint64_t key = keys[i - 1];
		bool is_new;

		keys[i - 1] = number(trace, &trace->frames, key, &is_new);
		if (is_new)
			put_frame(trace, keys[i - 1], key);
	}
	fgt_protobuf_begin(&trace->out, FGT_INTERNED_CALLSTACKS);
	fgt_protobuf_put_uint(&trace->out, FGT_INTERNED_IID, iid);
	for (uint32_t i = trace->frame_key_count; i > 0; i--)
		fgt_protobuf_put_uint(&trace->out, CALLSTACK_FRAME_IDS,
				      keys[i - 1]);
	fgt_protobuf_end(&trace->out);
	fgt_protobuf_end(&trace->out);
}

uint64_t fgt_perfetto_callstack(struct fgt_perfetto *trace,
				const struct fgt_shown *shown)
{
	const uint64_t gap = UINT64_MAX;
	uint64_t state = 0, iid, key = gap;
	bool is_new;

	if (shown) {
		struct fgt_level level = fgt_level_of_state(
			trace->slice, shown->state, shown->is_sampled);

		state = fgt_level_key(level);
		if (trace->state_frames == FGT_STATE_FRAMES_NO)
			level = (struct fgt_level){ 0 };
		/* String ids are far below 2^29. */
		key = (uint64_t)shown->stack << 32 | (uint64_t)level.id << 3 |
		      (level.kind == FGT_LEVEL_BLOCKED) << 2 |
		      (level.kind == FGT_LEVEL_RAN) << 1 | shown->is_sampled;
	}
	iid = number(trace, &trace->callstacks, key, &is_new);
	if (is_new) {
		push_shown(trace, shown, state);
		put_callstack(trace, iid);
	}
	return iid;
}
