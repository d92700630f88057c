/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the .fgt form that are flat arrays of fields: one description
 * for the writer (slice_codec.c) and the reader (slice_decode.c). The form
 * itself is described in ringbuf/README.md, "The .fgt format".
 *
 * MT-Safe | AS-Safe
 */
#ifndef FGT_RINGBUF_SLICE_SLICE_LAYOUT_H
#define FGT_RINGBUF_SLICE_SLICE_LAYOUT_H

#include <string.h>

#include "ringbuf/slice/slice.h"

/* How a field is written. Differences are modulo the width of the field. */
enum fgt_field_kind {
	FGT_FIELD_NONE, /* behind the last field */
	FGT_FIELD_U32,
	FGT_FIELD_U64,
	FGT_FIELD_I32,
	FGT_FIELD_DOUBLE,
	FGT_FIELD_DELTA32, /* minus the same field of the record before */
	FGT_FIELD_DELTA64,
	FGT_FIELD_LINK, /* + 1: FGT_NODE_NONE is 0 */
	FGT_FIELD_BACK, /* index of this record minus it; 0: FGT_NODE_NONE */
	/* A position that restarts at 0 where the GROUP before it changes. */
	FGT_FIELD_GROUP, /* as DELTA32 */
	FGT_FIELD_POSITION, /* minus the position where the last record ends */
	FGT_FIELD_LENGTH, /* as U32; this record ends so much later */
};

#define FGT_FIELDS_MAX 8 /* FGT_FIELD_NONE included */

struct fgt_field {
	uint8_t kind, offset; /* in its record */
};

struct fgt_table {
	const char *key;
	uint16_t array, count; /* offsets in struct fgt_ring_slice */
	uint16_t record_bytes, field_count;
	bool is_optional; /* younger than the format: may be absent */
	bool is_rare; /* left out of a file while it is empty */
	struct fgt_field fields[FGT_FIELDS_MAX];
};

#define FGT_TABLE_COUNT 23
extern const struct fgt_table fgt_slice_tables[FGT_TABLE_COUNT];

/* What the fields of one record depend on; zero for the first one. */
struct fgt_row {
	uint32_t index;
	uint32_t position; /* where the last record ends */
	const uint8_t *last; /* the record before; NULL at the first one */
};

static inline uint32_t fgt_load32(const uint8_t *record, uint8_t offset)
{
	uint32_t value = 0;

	if (record)
		memcpy(&value, record + offset, sizeof(value));
	return value;
}

static inline uint64_t fgt_load64(const uint8_t *record, uint8_t offset)
{
	uint64_t value = 0;

	if (record)
		memcpy(&value, record + offset, sizeof(value));
	return value;
}

static inline uint32_t fgt_table_count(const struct fgt_table *table,
				       const struct fgt_ring_slice *slice)
{
	return fgt_load32((const uint8_t *)slice + table->count, 0);
}

static inline const uint8_t *
fgt_table_records(const struct fgt_table *table,
		  const struct fgt_ring_slice *slice)
{
	const uint8_t *records;

	memcpy(&records, (const char *)slice + table->array, sizeof(records));
	return records;
}

#endif
