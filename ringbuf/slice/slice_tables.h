/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the .fgt form: one reader per key of the file's map. Part of
 * fgt_slice_decode(), which checks the bytes before and the slice after.
 */
#ifndef FGT_RINGBUF_SLICE_SLICE_TABLES_H
#define FGT_RINGBUF_SLICE_SLICE_TABLES_H

#include "ringbuf/base/msgpack_cursor.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"

/*
 * Reads count pairs into an empty slice: each known key exactly once, others
 * skipped. The result is in bounds but not yet checked for sense. -EBADMSG,
 * -ENOMEM; why says what is wrong and where.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_slice_tables_read(struct fgt_msgpack_cursor *cursor, uint32_t count,
			  struct fgt_ring_slice *slice, struct fgt_why *why);

/* ---- Between its parts ------------------------------------------------- */

/*
 * The header of a flat array and the zeroed table for its records: at least
 * min_bytes of input stand for each. -ENOMEM; errors of the input stick.
 */
int fgt_slice_read_table(struct fgt_msgpack_cursor *cursor, unsigned int width,
			 unsigned int min_bytes, size_t size, void **ret_table,
			 uint32_t *ret_count);

#define FGT_READ_TABLE(cursor, width, min_bytes, table, count)                 \
	fgt_slice_read_table(cursor, width, min_bytes, sizeof(*(table)),       \
			     (void **)&(table), &(count))

static inline uint32_t fgt_read_u32(struct fgt_msgpack_cursor *cursor)
{
	return (uint32_t)fgt_msgpack_read_uint(cursor, UINT32_MAX);
}

static inline uint64_t fgt_read_u64(struct fgt_msgpack_cursor *cursor)
{
	return fgt_msgpack_read_uint(cursor, UINT64_MAX);
}

int fgt_slice_read_images(struct fgt_msgpack_cursor *cursor,
			  struct fgt_ring_slice *slice);
int fgt_slice_read_tasks(struct fgt_msgpack_cursor *cursor,
			 struct fgt_ring_slice *slice);
int fgt_slice_read_spans(struct fgt_msgpack_cursor *cursor,
			 struct fgt_ring_slice *slice);
int fgt_slice_read_marks(struct fgt_msgpack_cursor *cursor,
			 struct fgt_ring_slice *slice);
int fgt_slice_read_counters(struct fgt_msgpack_cursor *cursor,
			    struct fgt_ring_slice *slice);
int fgt_slice_read_labels(struct fgt_msgpack_cursor *cursor,
			  struct fgt_ring_slice *slice);

#endif
