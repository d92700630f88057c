/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the .fgt form of a slice (ringbuf/README.md, "The .fgt format").
 * Runs in any thread; must not trust a byte: the whole file is checked before
 * the first allocation, every count is bounded by the bytes that stand for it,
 * and the result has to pass fgt_slice_is_valid().
 */
#include "ringbuf/slice/slice_codec.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "ringbuf/base/hash.h"
#include "ringbuf/base/msgpack_cursor.h"
#include "ringbuf/slice/processes.h"
#include "ringbuf/slice/slice_head.h"
#include "ringbuf/slice/slice_layout.h"

/* This form nests three deep; the rest is room for later versions. */
#define NESTING_MAX 16

/* The keys of an image take more; bounds what a count allocates. */
#define IMAGE_BYTES_MIN 48

/* ---- Members of the map that are no tables ------------------------------ */

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

/* ---- Tables ------------------------------------------------------------- */

/*
 * Reads the head of an array and returns zeroed records, at least min_bytes of
 * input for each of them. -ENOMEM; errors of the input stick.
 */
static int new_records(struct fgt_msgpack_cursor *cursor, unsigned int width,
		       unsigned int min_bytes, size_t size, void **ret_records,
		       uint32_t *ret_count)
{
	uint32_t count = fgt_msgpack_read_array(cursor);
	void *records;

	if (count % width ||
	    count / width > fgt_msgpack_cursor_left(cursor) / min_bytes) {
		fgt_msgpack_refuse(cursor);
		return 0;
	}
	if (!count)
		return 0;
	records = calloc(count / width, size);
	if (!records)
		return -ENOMEM;
	*ret_records = records;
	*ret_count = count / width;
	return 0;
}

static uint32_t read_back(struct fgt_msgpack_cursor *cursor, uint32_t index)
{
	uint32_t distance = fgt_msgpack_read_u32(cursor);

	if (distance > index)
		fgt_msgpack_refuse(cursor);
	return distance ? index - distance : FGT_NODE_NONE;
}

static uint32_t read_group(struct fgt_msgpack_cursor *cursor,
			   struct fgt_row *row)
{
	uint32_t difference = fgt_msgpack_read_u32(cursor);

	if (difference)
		row->position = 0;
	return difference;
}

static uint32_t read_field32(struct fgt_msgpack_cursor *cursor,
			     const struct fgt_field *field, struct fgt_row *row)
{
	uint32_t length;

	switch ((enum fgt_field_kind)field->kind) {
	case FGT_FIELD_I32:
		return (uint32_t)fgt_msgpack_read_i32(cursor);
	case FGT_FIELD_DELTA32:
		return fgt_msgpack_read_u32(cursor) +
		       fgt_load32(row->last, field->offset);
	case FGT_FIELD_LINK:
		return fgt_msgpack_read_u32(cursor) - 1;
	case FGT_FIELD_BACK:
		return read_back(cursor, row->index);
	case FGT_FIELD_GROUP:
		return read_group(cursor, row) +
		       fgt_load32(row->last, field->offset);
	case FGT_FIELD_POSITION:
		row->position += fgt_msgpack_read_u32(cursor);
		return row->position;
	case FGT_FIELD_LENGTH:
		length = fgt_msgpack_read_u32(cursor);
		row->position += length;
		return length;
	default:
		return fgt_msgpack_read_u32(cursor);
	}
}

static void read_field(struct fgt_msgpack_cursor *cursor,
		       const struct fgt_field *field, struct fgt_row *row,
		       uint8_t *record)
{
	uint64_t wide = 0;
	uint32_t narrow;
	double real;

	if (field->kind == FGT_FIELD_DOUBLE) {
		real = fgt_msgpack_read_double(cursor);
		memcpy(record + field->offset, &real, sizeof(real));
		return;
	}
	if (field->kind == FGT_FIELD_DELTA64)
		wide = fgt_load64(row->last, field->offset);
	if (field->kind == FGT_FIELD_DELTA64 || field->kind == FGT_FIELD_U64) {
		wide += fgt_msgpack_read_u64(cursor);
		memcpy(record + field->offset, &wide, sizeof(wide));
		return;
	}
	narrow = read_field32(cursor, field, row);
	memcpy(record + field->offset, &narrow, sizeof(narrow));
}

static int read_table(struct fgt_msgpack_cursor *cursor,
		      const struct fgt_table *table,
		      struct fgt_ring_slice *slice)
{
	struct fgt_row row = { 0 };
	void *records = NULL;
	uint32_t count = 0;
	uint8_t *record;
	int r = new_records(cursor, table->field_count, table->field_count,
			    table->record_bytes, &records, &count);

	memcpy((char *)slice + table->array, &records, sizeof(records));
	memcpy((char *)slice + table->count, &count, sizeof(count));
	record = records;
	for (; row.index < count; row.index++, record += table->record_bytes) {
		for (unsigned int i = 0; i < table->field_count; i++)
			read_field(cursor, &table->fields[i], &row, record);
		row.last = record;
	}
	return r;
}

static void read_build_id(struct fgt_msgpack_cursor *cursor,
			  struct fgt_slice_image *image)
{
	struct fgt_msgpack_text id = fgt_msgpack_read_bin(cursor);

	if (id.len > sizeof(image->build_id)) {
		fgt_msgpack_refuse(cursor);
		return;
	}
	memcpy(image->build_id, id.bytes, id.len);
	image->build_id_len = (uint32_t)id.len;
}

static void read_image(struct fgt_msgpack_cursor *cursor,
		       struct fgt_slice_image *image)
{
	uint32_t count = fgt_msgpack_read_map(cursor);

	while (count-- && !cursor->error) {
		struct fgt_msgpack_text key = fgt_msgpack_read_str(cursor);

		if (fgt_msgpack_text_is(key, "path"))
			image->path = fgt_msgpack_read_u32(cursor);
		else if (fgt_msgpack_text_is(key, "build_id"))
			read_build_id(cursor, image);
		else if (fgt_msgpack_text_is(key, "is_deleted"))
			image->is_deleted = fgt_msgpack_read_u32(cursor);
		else if (fgt_msgpack_text_is(key, "bias"))
			image->bias = fgt_msgpack_read_u64(cursor);
		else if (fgt_msgpack_text_is(key, "start"))
			image->start = fgt_msgpack_read_u64(cursor);
		else if (fgt_msgpack_text_is(key, "end"))
			image->end = fgt_msgpack_read_u64(cursor);
		else if (fgt_msgpack_text_is(key, "dev"))
			image->dev = fgt_msgpack_read_u64(cursor);
		else if (fgt_msgpack_text_is(key, "ino"))
			image->ino = fgt_msgpack_read_u64(cursor);
		else
			fgt_msgpack_skip(cursor);
	}
}

static int read_images(struct fgt_msgpack_cursor *cursor,
		       struct fgt_ring_slice *slice)
{
	void *images = NULL;
	int r = new_records(cursor, 1, IMAGE_BYTES_MIN, sizeof(*slice->images),
			    &images, &slice->image_count);

	slice->images = images;
	for (uint32_t i = 0; i < slice->image_count; i++)
		read_image(cursor, &slice->images[i]);
	return r;
}

/* Sets what follows from the tables. */
static void settle_tables(struct fgt_ring_slice *slice)
{
	struct fgt_pace last = { .periods = 1 };

	slice->symbol_capacity = slice->symbol_count;
	for (uint32_t i = 0; i < slice->pace_count; i++) {
		struct fgt_pace *pace = &slice->paces[i];

		pace->periods_before =
			last.periods_before +
			(uint64_t)(pace->first_tick - last.first_tick) *
				last.periods;
		last = *pace;
	}
}

/* ---- The map ------------------------------------------------------------ */

static const struct member {
	const char *key;
	int (*read)(struct fgt_msgpack_cursor *cursor,
		    struct fgt_ring_slice *slice);
	bool is_optional;
} members[] = {
	{ "process", fgt_slice_read_process, false },
	{ "service", fgt_slice_read_service, true },
	{ "range", fgt_slice_read_range, false },
	{ "period", fgt_slice_read_period, false },
	{ "effective_hz", fgt_slice_read_effective_hz, false },
	{ "lost", fgt_slice_read_lost, false },
	{ "brief", fgt_slice_read_brief, true },
	{ "lost_wakes", fgt_slice_read_lost_wakes, true },
	{ "strings", read_strings, false },
	{ "images", read_images, false },
};
#define MEMBER_COUNT (sizeof(members) / sizeof(*members))
#define KEY_COUNT    (MEMBER_COUNT + FGT_TABLE_COUNT)

/* Members first, then tables. */
static const char *key_at(size_t i)
{
	return i < MEMBER_COUNT ? members[i].key
				: fgt_slice_tables[i - MEMBER_COUNT].key;
}

static bool is_optional(size_t i)
{
	return i < MEMBER_COUNT
		       ? members[i].is_optional
		       : fgt_slice_tables[i - MEMBER_COUNT].is_optional;
}

static size_t find_key(struct fgt_msgpack_text key)
{
	size_t i = 0;

	while (i < KEY_COUNT && !fgt_msgpack_text_is(key, key_at(i)))
		i++;
	return i;
}

/* Reads one pair. seen: a bit for each key that was there before. */
static int read_pair(struct fgt_msgpack_cursor *cursor,
		     struct fgt_ring_slice *slice, uint64_t *seen,
		     struct fgt_why *why)
{
	size_t i = find_key(fgt_msgpack_read_str(cursor));
	int r;

	if (i == KEY_COUNT) {
		fgt_msgpack_skip(cursor);
		return cursor->error ? fgt_why_set(why, -EBADMSG,
						   "damaged slice: a key is "
						   "not a string")
				     : 0;
	}
	if (*seen & UINT64_C(1) << i)
		return fgt_why_set(why, -EBADMSG,
				   "damaged slice: two '%s' tables", key_at(i));
	*seen |= UINT64_C(1) << i;
	if (i < MEMBER_COUNT)
		r = members[i].read(cursor, slice);
	else
		r = read_table(cursor, &fgt_slice_tables[i - MEMBER_COUNT],
			       slice);
	if (r)
		return fgt_why_set(why, r, FGT_NO_MEMORY);
	if (cursor->error)
		return fgt_why_set(
			why, -EBADMSG, "damaged slice: bad '%s' near byte %zu",
			key_at(i), cursor->error_at + FGT_SLICE_MAGIC_LEN);
	return 0;
}

static int read_pairs(struct fgt_msgpack_cursor *cursor, uint32_t count,
		      struct fgt_ring_slice *slice, struct fgt_why *why)
{
	uint64_t seen = 0;

	_Static_assert(KEY_COUNT <= 64, "a bit for each key");
	while (count--) {
		int r = read_pair(cursor, slice, &seen, why);

		if (r)
			return r;
	}
	for (size_t i = 0; i < KEY_COUNT; i++)
		if (!(seen & UINT64_C(1) << i) && !is_optional(i))
			return fgt_why_set(why, -EBADMSG,
					   "damaged slice: no '%s' table",
					   key_at(i));
	settle_tables(slice);
	if (!fgt_run_waits_settle(slice))
		return fgt_why_set(why, -EBADMSG,
				   "damaged slice: a wait of a run that does "
				   "not exist, or has another one");
	if (!fgt_members_settle(slice))
		return fgt_why_set(why, -EBADMSG,
				   "damaged slice: a process has a thread that "
				   "does not exist");
	return 0;
}

/* The version comes first, before anything that a later version may change. */
static int read_version(struct fgt_msgpack_cursor *cursor, struct fgt_why *why)
{
	struct fgt_msgpack_text key = fgt_msgpack_read_str(cursor);
	uint64_t version = fgt_msgpack_read_uint(cursor, UINT64_MAX);

	if (cursor->error || !fgt_msgpack_text_is(key, "version"))
		return fgt_why_set(why, -EBADMSG,
				   "damaged slice: it has no version");
	if (version != FGT_SLICE_VERSION)
		return fgt_why_set(why, -EPROTONOSUPPORT,
				   "slice of version %llu, this program reads "
				   "version %d: use a newer fgtrace",
				   (unsigned long long)version,
				   FGT_SLICE_VERSION);
	return 0;
}

bool fgt_slice_has_magic(const uint8_t *bytes, size_t len)
{
	return len >= FGT_SLICE_MAGIC_LEN &&
	       !memcmp(bytes, FGT_SLICE_MAGIC, FGT_SLICE_MAGIC_LEN - 1);
}

/* "FGT" and another digit is a later container. */
static int check_magic(const uint8_t *bytes, size_t len, struct fgt_why *why)
{
	if (!fgt_slice_has_magic(bytes, len))
		return fgt_why_set(why, -EBADMSG,
				   "not an fgtrace slice (.fgt file)");
	if (bytes[FGT_SLICE_MAGIC_LEN - 1] !=
	    FGT_SLICE_MAGIC[FGT_SLICE_MAGIC_LEN - 1])
		return fgt_why_set(why, -EPROTONOSUPPORT,
				   "slice file of another kind than %s: use a "
				   "newer fgtrace",
				   FGT_SLICE_MAGIC);
	return 0;
}

/* Files from before the checksum have none. */
static bool matches_checksum(const uint8_t *bytes, size_t len)
{
	uint32_t crc;

	if (len < FGT_SLICE_CHECKSUM_LEN + sizeof(crc))
		return true;
	len -= sizeof(crc);
	if (memcmp(bytes + len - FGT_SLICE_CHECKSUM_LEN, FGT_SLICE_CHECKSUM,
		   FGT_SLICE_CHECKSUM_LEN) != 0)
		return true;
	memcpy(&crc, bytes + len, sizeof(crc));
	return be32toh(crc) == fgt_crc32c(0, bytes, len);
}

/* A file that was cut off has no checksum any more. */
static int check_whole(const uint8_t *bytes, size_t len, struct fgt_why *why)
{
	if (!matches_checksum(bytes, len))
		return fgt_why_set(why, -EBADMSG,
				   "damaged slice: its bytes do not match its "
				   "checksum");
	if (fgt_msgpack_check(bytes + FGT_SLICE_MAGIC_LEN,
			      len - FGT_SLICE_MAGIC_LEN, NESTING_MAX) < 0)
		return fgt_why_set(
			why, -EBADMSG,
			"damaged slice: cut off at byte %zu, or with "
			"bytes that do not belong to it",
			len);
	return 0;
}

int fgt_slice_decode(const uint8_t *bytes, size_t len,
		     struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_msgpack_cursor cursor;
	uint32_t count;
	int r;

	r = check_magic(bytes, len, why);
	if (r == 0)
		r = check_whole(bytes, len, why);
	if (r)
		return r;
	fgt_msgpack_cursor_init(&cursor, bytes + FGT_SLICE_MAGIC_LEN,
				len - FGT_SLICE_MAGIC_LEN);
	count = fgt_msgpack_read_map(&cursor);
	r = read_version(&cursor, why);
	if (r)
		return r;
	r = fgt_slice_new(&slice);
	if (r)
		return fgt_why_set(why, r, FGT_NO_MEMORY);
	r = read_pairs(&cursor, count - 1, slice, why);
	if (r)
		return r;
	if (!fgt_slice_is_valid(slice))
		return fgt_why_set(why, -EBADMSG,
				   "damaged slice: its tables contradict each "
				   "other");
	*ret_slice = FGT_TAKE(slice);
	return 0;
}
