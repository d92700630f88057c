/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads profile.proto and profiles.proto by their numbers, not with the code of
 * the writer. Runs in tests only.
 */
#include "tests/unit/upload/proto_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

enum kind {
	NUMBER,
	STRING,
	HEX,
	PACKED,
	PACKED64,
	PROFILE,
	VALUE_TYPE,
	SAMPLE,
	LABEL,
	MAPPING,
	LOCATION,
	LINE,
	FUNCTION,
	REQUEST,
	RESOURCE_PROFILES,
	RESOURCE,
	SCOPE_PROFILES,
	SCOPE,
	OTLP_PROFILE,
	OTLP_SAMPLE,
	DICTIONARY,
	OTLP_MAPPING,
	OTLP_LOCATION,
	OTLP_FUNCTION,
	LINK,
	STACK,
	ATTRIBUTE,
	KEY_VALUE,
	VALUE,
	KIND_COUNT,
};

struct reader {
	const uint8_t *at, *end;
	struct fgt_sink text;
};

/* What a length-delimited field of a message holds. */
static const enum kind kinds[KIND_COUNT][16] = {
	[PROFILE] = { [1] = VALUE_TYPE,
		      [2] = SAMPLE,
		      [3] = MAPPING,
		      [4] = LOCATION,
		      [5] = FUNCTION,
		      [6] = STRING,
		      [11] = VALUE_TYPE,
		      [13] = PACKED },
	[SAMPLE] = { [1] = PACKED, [2] = PACKED, [3] = LABEL },
	[LOCATION] = { [4] = LINE },
	[REQUEST] = { [1] = RESOURCE_PROFILES, [2] = DICTIONARY },
	[RESOURCE_PROFILES] = { [1] = RESOURCE, [2] = SCOPE_PROFILES },
	[RESOURCE] = { [1] = KEY_VALUE },
	[SCOPE_PROFILES] = { [1] = SCOPE, [2] = OTLP_PROFILE },
	[SCOPE] = { [1] = STRING, [2] = STRING },
	[OTLP_PROFILE] = { [1] = VALUE_TYPE,
			   [2] = OTLP_SAMPLE,
			   [5] = VALUE_TYPE,
			   [11] = PACKED },
	[OTLP_SAMPLE] = { [2] = PACKED, [4] = PACKED, [5] = PACKED64 },
	[DICTIONARY] = { [1] = OTLP_MAPPING,
			 [2] = OTLP_LOCATION,
			 [3] = OTLP_FUNCTION,
			 [4] = LINK,
			 [5] = STRING,
			 [6] = ATTRIBUTE,
			 [7] = STACK },
	[OTLP_MAPPING] = { [5] = PACKED },
	[OTLP_LOCATION] = { [3] = LINE },
	[LINK] = { [1] = HEX, [2] = HEX },
	[STACK] = { [1] = PACKED },
	[ATTRIBUTE] = { [2] = VALUE },
	[KEY_VALUE] = { [1] = STRING, [2] = VALUE },
	[VALUE] = { [1] = STRING },
};

static bool has_lines(enum kind kind)
{
	return kind == PROFILE || kind == OTLP_PROFILE || kind == DICTIONARY;
}

static uint64_t read_varint(struct reader *reader)
{
	uint64_t value = 0;
	unsigned int shift = 0;

	do {
		assert_true(reader->at < reader->end && shift < 64);
		value |= (uint64_t)(*reader->at & 0x7f) << shift;
		shift += 7;
	} while (*reader->at++ & 0x80);
	return value;
}

static void put(const struct reader *reader, const char *text)
{
	assert_int_equal(fgt_sink_write(&reader->text, text, strlen(text)), 0);
}

static void put_number(const struct reader *reader, const char *before,
		       uint64_t number, const char *after)
{
	char text[48];

	snprintf(text, sizeof(text), "%s%llu%s", before,
		 (unsigned long long)number, after);
	put(reader, text);
}

static void put_hex(const struct reader *reader, const uint8_t *bytes,
		    size_t len)
{
	char text[8];

	for (size_t i = 0; i < len; i++) {
		snprintf(text, sizeof(text), "%02x", bytes[i]);
		put(reader, text);
	}
}

static uint64_t read_fixed64(struct reader *reader)
{
	uint64_t value = 0;

	assert_true(reader->end - reader->at >= 8);
	for (int i = 0; i < 8; i++)
		value |= (uint64_t)*reader->at++ << (8 * i);
	return value;
}

static void read_message(struct reader *reader, enum kind kind);

static void read_field(struct reader *reader, enum kind kind)
{
	size_t len = read_varint(reader);
	struct reader part = *reader;

	assert_true(len <= (size_t)(reader->end - reader->at));
	part.end = reader->at + len;
	reader->at += len;
	assert_int_not_equal(kind, NUMBER);
	if (kind == HEX) {
		put_hex(reader, part.at, len);
	} else if (kind == STRING) {
		put(reader, "\"");
		assert_int_equal(fgt_sink_write(&reader->text, part.at, len),
				 0);
		put(reader, "\"");
	} else if (kind == PACKED || kind == PACKED64) {
		const char *before = "[";

		for (; part.at < part.end; before = " ")
			put_number(reader, before,
				   kind == PACKED ? read_varint(&part)
						  : read_fixed64(&part),
				   "");
		put(reader, "]");
	} else {
		put(reader, "{");
		read_message(&part, kind);
		put(reader, "}");
	}
}

static void read_message(struct reader *reader, enum kind kind)
{
	const char *between = "";

	while (reader->at < reader->end) {
		uint64_t tag = read_varint(reader);

		put_number(reader, between, tag >> 3, ":");
		between = has_lines(kind) ? "\n" : " ";
		if ((tag & 7) == 0)
			put_number(reader, "", read_varint(reader), "");
		else if ((tag & 7) == 1)
			put_number(reader, "", read_fixed64(reader), "");
		else if ((tag & 7) == 2 && tag >> 3 < 16)
			read_field(reader, kinds[kind][tag >> 3]);
		else
			fail_msg("wire type of tag %d", (int)tag);
	}
}

/* The whole file must be one gzip member. */
static uint8_t *gunzip(const struct fixture_buffer *file, size_t *ret_len)
{
	z_stream stream = { .next_in = (uint8_t *)file->bytes,
			    .avail_in = (uInt)file->len };
	size_t capacity = 1 << 20;
	uint8_t *bytes = malloc(capacity);

	assert_non_null(bytes);
	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	stream.next_out = bytes;
	stream.avail_out = (uInt)capacity;
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	assert_int_equal(stream.avail_in, 0);
	*ret_len = stream.total_out;
	inflateEnd(&stream);
	return bytes;
}

struct fixture_buffer pprof_text(const struct fgt_ring_slice *slice,
				 enum fgt_state_frames state_frames)
{
	const struct fgt_format_options options = { .state_frames =
							    state_frames };

	return pprof_text_with(slice, &options);
}

struct fixture_buffer otlp_text(const struct fgt_ring_slice *slice,
				const struct fgt_format_options *options)
{
	struct fixture_buffer file, text;
	struct fgt_sink sink = fixture_buffer_sink(&file);
	struct reader reader = { .text = fixture_buffer_sink(&text) };

	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(fgt_format_write(slice, FGT_KIND_OTLP, options, &sink),
			 0);
	reader.at = (const uint8_t *)file.bytes;
	reader.end = reader.at + file.len;
	read_message(&reader, REQUEST);
	put(&reader, "\n");
	fixture_buffer_done(&file);
	return text;
}

struct fixture_buffer pprof_text_with(const struct fgt_ring_slice *slice,
				      const struct fgt_format_options *options)
{
	struct fixture_buffer file, text;
	struct fgt_sink sink = fixture_buffer_sink(&file);
	struct reader reader = { .text = fixture_buffer_sink(&text) };
	uint8_t *bytes;
	size_t len;

	assert_true(fgt_slice_is_valid(slice));
	assert_int_equal(
		fgt_format_write(slice, FGT_KIND_PPROF, options, &sink), 0);
	bytes = gunzip(&file, &len);
	reader.at = bytes;
	reader.end = bytes + len;
	read_message(&reader, PROFILE);
	put(&reader, "\n");
	free(bytes);
	fixture_buffer_done(&file);
	return text;
}
