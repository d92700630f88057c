/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of OTLP. Runs in any thread; must not hold a stack: these are walked
 * in the slice again when they are written.
 */
#include "upload/format/otlp/otlp_dictionary.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/utf8.h"
#include "upload/format/parts/levels.h"

/* Fields of the messages in profiles.proto and common.proto. */
enum {
	DICTIONARY_MAPPING = 1,
	DICTIONARY_LOCATION,
	DICTIONARY_FUNCTION,
	DICTIONARY_LINK,
	DICTIONARY_STRING,
	DICTIONARY_ATTRIBUTE,
	DICTIONARY_STACK,
	MAPPING_MEMORY_START = 1,
	MAPPING_MEMORY_LIMIT,
	MAPPING_FILENAME = 4,
	MAPPING_ATTRIBUTES,
	LOCATION_MAPPING = 1,
	LOCATION_ADDRESS,
	LOCATION_LINE,
	LINE_FUNCTION = 1,
	LINE_LINE,
	FUNCTION_NAME = 1,
	FUNCTION_FILENAME = 3,
	LINK_TRACE_ID = 1,
	LINK_SPAN_ID,
	ATTRIBUTE_KEY = 1,
	ATTRIBUTE_VALUE,
	VALUE_STRING = 1,
	VALUE_INT = 3,
	STACK_LOCATIONS = 1,
};

/* Keys of locations that are no frame of the slice: of a function that has no
 * code (a state, a marker). */
#define NO_CODE (UINT64_C(1) << 32)
/* An attribute: its key, then the number. */
#define KEY_SHIFT  56
#define NUMBER_MAX ((UINT64_C(1) << KEY_SHIFT) - 1)

static const struct {
	const char *name;
	bool is_text;
} keys[FGT_OTLP_KEY_COUNT] = {
	[FGT_OTLP_THREAD_NAME] = { "thread.name", true },
	[FGT_OTLP_THREAD_ID] = { "thread.id", false },
	[FGT_OTLP_THREAD_STATE] = { "thread.state", true },
	[FGT_OTLP_PROCESS_ID] = { "process.pid", false },
	[FGT_OTLP_PROCESS_TITLE] = { "process.title", true },
	[FGT_OTLP_BUILD_ID] = { "process.executable.build_id.gnu", true },
	[FGT_OTLP_TICKS_MISSED] = { "fgtrace.ticks.missed", false },
	[FGT_OTLP_TICKS_EVICTED] = { "fgtrace.ticks.evicted", false },
	[FGT_OTLP_TICKS_LAPPED] = { "fgtrace.ticks.lapped", false },
};

int fgt_otlp_dictionary_init(struct fgt_otlp_dictionary *dictionary,
			     const struct fgt_ring_slice *slice,
			     enum fgt_state_frames state_frames)
{
	int r;

	*dictionary = (struct fgt_otlp_dictionary){
		.slice = slice,
		.state_frames = state_frames,
	};
	r = fgt_strings_init(&dictionary->strings);
	return r ? r : fgt_strings_init(&dictionary->values);
}

void fgt_otlp_dictionary_done(struct fgt_otlp_dictionary *dictionary)
{
	fgt_strings_done(&dictionary->strings);
	fgt_strings_done(&dictionary->values);
	fgt_id_map_done(&dictionary->mappings);
	fgt_id_map_done(&dictionary->locations);
	fgt_id_map_done(&dictionary->functions);
	fgt_id_map_done(&dictionary->links);
	fgt_id_map_done(&dictionary->attributes);
	fgt_id_map_done(&dictionary->stacks);
}

/* ---- Adding ------------------------------------------------------------- */

/* The index of the key; *ret_is_new may be NULL. */
static uint32_t add(struct fgt_otlp_dictionary *dictionary,
		    struct fgt_id_map *map, uint64_t key, bool *ret_is_new)
{
	uint32_t known = map->count, id = 0;
	int r = fgt_id_map_add(map, key, &id);

	if (ret_is_new)
		*ret_is_new = map->count > known;
	if (!r)
		return id + 1;
	dictionary->error = r;
	return 0;
}

/* As UTF-8, which readers demand: texts that are written alike are one. */
static uint32_t add_text(struct fgt_otlp_dictionary *dictionary,
			 struct fgt_strings *strings, const char *text)
{
	char clean[FGT_STRING_MAX];
	uint32_t id = 0;
	size_t len = fgt_utf8_clean(text, strlen(text), clean, sizeof(clean));
	int r = fgt_strings_intern(strings, clean, len, &id);

	if (r)
		dictionary->error = r;
	return id;
}

uint32_t fgt_otlp_string(struct fgt_otlp_dictionary *dictionary,
			 const char *text)
{
	return add_text(dictionary, &dictionary->strings, text);
}

uint32_t fgt_otlp_attribute(struct fgt_otlp_dictionary *dictionary,
			    enum fgt_otlp_key key, const char *text,
			    uint64_t number)
{
	uint32_t attribute;
	bool is_new;

	if (text)
		number = add_text(dictionary, &dictionary->values, text);
	else if (number > NUMBER_MAX)
		number = NUMBER_MAX;
	attribute = add(dictionary, &dictionary->attributes,
			(uint64_t)key << KEY_SHIFT | number, &is_new);
	if (is_new)
		fgt_otlp_string(dictionary, keys[key].name);
	return attribute;
}

uint32_t fgt_otlp_link(struct fgt_otlp_dictionary *dictionary, uint32_t link)
{
	return link ? add(dictionary, &dictionary->links, link, NULL) : 0;
}

static uint32_t add_build_id(struct fgt_otlp_dictionary *dictionary,
			     const struct fgt_slice_image *image)
{
	char hex[2 * FGT_BUILD_ID_MAX + 1] = "";

	for (uint32_t i = 0; i < image->build_id_len; i++)
		snprintf(hex + 2 * i, 3, "%02x", image->build_id[i]);
	return *hex ? fgt_otlp_attribute(dictionary, FGT_OTLP_BUILD_ID, hex, 0)
		    : 0;
}

static const char *path_of(const struct fgt_otlp_dictionary *dictionary,
			   const struct fgt_slice_image *image)
{
	return fgt_slice_string(dictionary->slice, image->path);
}

/* image: index + 1; 0: none. */
static uint32_t add_mapping(struct fgt_otlp_dictionary *dictionary,
			    uint32_t image)
{
	const struct fgt_slice_image *images = dictionary->slice->images;
	bool is_new;
	uint32_t mapping;

	if (!image)
		return 0;
	mapping = add(dictionary, &dictionary->mappings, image, &is_new);
	if (is_new) {
		fgt_otlp_string(dictionary,
				path_of(dictionary, &images[image - 1]));
		add_build_id(dictionary, &images[image - 1]);
	}
	return mapping;
}

static uint32_t add_function(struct fgt_otlp_dictionary *dictionary,
			     struct fgt_level level, uint32_t file)
{
	const struct fgt_ring_slice *slice = dictionary->slice;
	char buffer[FGT_LEVEL_NAME_MAX];
	uint64_t name = fgt_otlp_string(dictionary,
					fgt_level_name(slice, level, buffer));
	uint32_t filename =
		fgt_otlp_string(dictionary, fgt_slice_string(slice, file));

	return add(dictionary, &dictionary->functions, name << 32 | filename,
		   NULL);
}

/* index: 0 is the innermost call at that address. */
static uint32_t add_function_of(struct fgt_otlp_dictionary *dictionary,
				const struct fgt_slice_frame *frame,
				struct fgt_level level, uint32_t index)
{
	const struct fgt_symbol *symbols = dictionary->slice->symbols;

	return add_function(dictionary, level,
			    level.kind == FGT_LEVEL_FUNCTION
				    ? symbols[frame->symbol_first + index].file
				    : 0);
}

static uint32_t add_no_code(struct fgt_otlp_dictionary *dictionary,
			    struct fgt_level level)
{
	return add(dictionary, &dictionary->locations,
		   NO_CODE | add_function(dictionary, level, 0), NULL);
}

static uint32_t add_frame(struct fgt_otlp_dictionary *dictionary,
			  uint32_t index)
{
	const struct fgt_ring_slice *slice = dictionary->slice;
	const struct fgt_slice_frame *frame = &slice->frames[index];
	uint32_t location;
	bool is_new;

	if (frame->frame.flags & FGT_FRAME_MARKER)
		return add_no_code(dictionary,
				   fgt_level_of_frame(slice, index, 0));
	location = add(dictionary, &dictionary->locations, index, &is_new);
	if (!is_new)
		return location;
	add_mapping(dictionary, frame->frame.image);
	for (uint32_t i = 0; i < fgt_levels_of_frame(slice, index); i++)
		add_function_of(dictionary, frame,
				fgt_level_of_frame(slice, index, i), i);
	return location;
}

static uint32_t add_state(struct fgt_otlp_dictionary *dictionary,
			  uint32_t state)
{
	const struct fgt_level level = {
		FGT_LEVEL_STATE, fgt_levels_state_name(dictionary->slice, state)
	};

	return dictionary->state_frames == FGT_STATE_FRAMES_NO
		       ? 0
		       : add_no_code(dictionary, level);
}

static uint32_t add_unknown(struct fgt_otlp_dictionary *dictionary)
{
	return add_no_code(dictionary,
			   (struct fgt_level){ FGT_LEVEL_NO_STACK, 0 });
}

uint32_t fgt_otlp_stack(struct fgt_otlp_dictionary *dictionary, uint32_t node,
			uint32_t state)
{
	const struct fgt_slice_node *nodes = dictionary->slice->nodes;
	uint32_t location = add_state(dictionary, state), stack;
	bool is_new;

	stack = add(dictionary, &dictionary->stacks,
		    (uint64_t)node << 32 | location, &is_new);
	if (!is_new)
		return stack;
	if (node == FGT_NODE_NONE)
		add_unknown(dictionary);
	for (; node != FGT_NODE_NONE; node = nodes[node].parent)
		add_frame(dictionary, nodes[node].frame);
	return stack;
}

/* ---- Writing: finds what was added -------------------------------------- */

void fgt_otlp_put_value(struct fgt_protobuf *out, const char *text,
			uint64_t number)
{
	fgt_protobuf_begin(out, ATTRIBUTE_VALUE);
	if (text)
		fgt_protobuf_put_string(out, VALUE_STRING, text);
	else
		fgt_protobuf_put_uint(out, VALUE_INT, number);
	fgt_protobuf_end(out);
}

static void put_mapping(struct fgt_otlp_dictionary *dictionary,
			struct fgt_protobuf *out, uint64_t key)
{
	const struct fgt_slice_image *image =
		&dictionary->slice->images[key - 1];
	uint32_t build_id = add_build_id(dictionary, image);

	fgt_protobuf_put_uint(out, MAPPING_MEMORY_START, image->start);
	fgt_protobuf_put_uint(out, MAPPING_MEMORY_LIMIT, image->end);
	fgt_protobuf_put_uint(
		out, MAPPING_FILENAME,
		fgt_otlp_string(dictionary, path_of(dictionary, image)));
	if (!build_id)
		return;
	fgt_protobuf_begin(out, MAPPING_ATTRIBUTES);
	fgt_protobuf_put_packed(out, build_id);
	fgt_protobuf_end(out);
}

static void put_line(struct fgt_protobuf *out, uint32_t function, uint32_t line)
{
	fgt_protobuf_begin(out, LOCATION_LINE);
	fgt_protobuf_put_uint(out, LINE_FUNCTION, function);
	fgt_protobuf_put_uint(out, LINE_LINE, line);
	fgt_protobuf_end(out);
}

/* The address lies within the call, not behind it: where the same code is a
 * leaf and a caller, these are two locations. */
static void put_address(struct fgt_otlp_dictionary *dictionary,
			struct fgt_protobuf *out, const struct fgt_frame *frame)
{
	uint64_t address = frame->address;

	if (frame->image)
		address += dictionary->slice->images[frame->image - 1].bias;
	if (frame->flags & FGT_FRAME_CALLER)
		address--;
	fgt_protobuf_put_uint(out, LOCATION_MAPPING,
			      add_mapping(dictionary, frame->image));
	fgt_protobuf_put_uint(out, LOCATION_ADDRESS, address);
}

static void put_location(struct fgt_otlp_dictionary *dictionary,
			 struct fgt_protobuf *out, uint64_t key)
{
	const struct fgt_ring_slice *slice = dictionary->slice;
	const struct fgt_slice_frame *frame;
	uint32_t index = (uint32_t)key;

	if (key & NO_CODE) {
		put_line(out, index, 0);
		return;
	}
	frame = &slice->frames[index];
	put_address(dictionary, out, &frame->frame);
	for (uint32_t i = 0; i < fgt_levels_of_frame(slice, index); i++)
		put_line(out,
			 add_function_of(dictionary, frame,
					 fgt_level_of_frame(slice, index, i),
					 i),
			 frame->symbol_count
				 ? slice->symbols[frame->symbol_first + i].line
				 : 0);
}

static void put_function(struct fgt_otlp_dictionary *dictionary,
			 struct fgt_protobuf *out, uint64_t key)
{
	(void)dictionary;
	fgt_protobuf_put_uint(out, FUNCTION_NAME, key >> 32);
	fgt_protobuf_put_uint(out, FUNCTION_FILENAME, (uint32_t)key);
}

static void put_attribute(struct fgt_otlp_dictionary *dictionary,
			  struct fgt_protobuf *out, uint64_t key)
{
	uint64_t number = key & NUMBER_MAX;
	const char *text = NULL;

	key >>= KEY_SHIFT;
	if (keys[key].is_text)
		text = fgt_strings_get(&dictionary->values, (uint32_t)number);
	fgt_protobuf_put_uint(out, ATTRIBUTE_KEY,
			      fgt_otlp_string(dictionary, keys[key].name));
	fgt_otlp_put_value(out, text, number);
}

/* Leaf first. */
static void put_stack(struct fgt_otlp_dictionary *dictionary,
		      struct fgt_protobuf *out, uint64_t key)
{
	const struct fgt_slice_node *nodes = dictionary->slice->nodes;
	uint32_t node = (uint32_t)(key >> 32), state = (uint32_t)key;

	fgt_protobuf_begin(out, STACK_LOCATIONS);
	if (dictionary->state_frames == FGT_STATE_FRAMES_LEAF)
		fgt_protobuf_put_packed(out, state);
	if (node == FGT_NODE_NONE)
		fgt_protobuf_put_packed(out, add_unknown(dictionary));
	for (; node != FGT_NODE_NONE; node = nodes[node].parent)
		fgt_protobuf_put_packed(
			out, add_frame(dictionary, nodes[node].frame));
	if (state && dictionary->state_frames != FGT_STATE_FRAMES_LEAF)
		fgt_protobuf_put_packed(out, state);
	fgt_protobuf_end(out);
}

typedef void put_entry(struct fgt_otlp_dictionary *dictionary,
		       struct fgt_protobuf *out, uint64_t key);

static void put_table(struct fgt_otlp_dictionary *dictionary,
		      struct fgt_protobuf *out, uint32_t field,
		      const struct fgt_id_map *map, put_entry *put)
{
	fgt_protobuf_put_head(out, field, 0);
	for (uint32_t i = 0; i < map->count; i++) {
		fgt_protobuf_begin(out, field);
		put(dictionary, out, map->keys[i]);
		fgt_protobuf_end(out);
	}
}

static int digit_value(char digit)
{
	return digit <= '9' ? digit - '0' : digit - 'a' + 10;
}

/* hex: lower case. */
static void put_id(struct fgt_protobuf *out, uint32_t field, const char *hex,
		   size_t digits)
{
	uint8_t bytes[FGT_TRACE_ID_LEN / 2];

	for (size_t i = 0; i < digits / 2; i++)
		bytes[i] = (uint8_t)(digit_value(hex[2 * i]) << 4 |
				     digit_value(hex[2 * i + 1]));
	fgt_protobuf_put_bytes(out, field, bytes, digits / 2);
}

static void put_link(struct fgt_protobuf *out, const char *hex)
{
	fgt_protobuf_begin(out, DICTIONARY_LINK);
	put_id(out, LINK_TRACE_ID, hex, FGT_TRACE_ID_LEN);
	put_id(out, LINK_SPAN_ID, hex + FGT_TRACE_ID_LEN, FGT_TRACE_SPAN_LEN);
	fgt_protobuf_end(out);
}

/* Readers expect the first one to have ids, too, of zeros. */
static void put_links(const struct fgt_otlp_dictionary *dictionary,
		      const struct fgt_trace_links *links,
		      struct fgt_protobuf *out)
{
	char zeros[FGT_TRACE_LINK_LEN];

	memset(zeros, '0', sizeof(zeros));
	put_link(out, zeros);
	for (uint32_t i = 0; i < dictionary->links.count; i++)
		put_link(out,
			 fgt_trace_links_text(
				 links, (uint32_t)dictionary->links.keys[i]));
}

void fgt_otlp_dictionary_put(struct fgt_otlp_dictionary *dictionary,
			     const struct fgt_trace_links *links,
			     struct fgt_protobuf *out)
{
	put_table(dictionary, out, DICTIONARY_MAPPING, &dictionary->mappings,
		  put_mapping);
	put_table(dictionary, out, DICTIONARY_LOCATION, &dictionary->locations,
		  put_location);
	put_table(dictionary, out, DICTIONARY_FUNCTION, &dictionary->functions,
		  put_function);
	put_links(dictionary, links, out);
	for (uint32_t i = 0; i < dictionary->strings.count; i++)
		fgt_protobuf_put_string(
			out, DICTIONARY_STRING,
			fgt_strings_get(&dictionary->strings, i));
	put_table(dictionary, out, DICTIONARY_ATTRIBUTE,
		  &dictionary->attributes, put_attribute);
	put_table(dictionary, out, DICTIONARY_STACK, &dictionary->stacks,
		  put_stack);
}
