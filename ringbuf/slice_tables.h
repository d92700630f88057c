/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the .fgt form: one reader per key of the file's map. Part of
 * fgt_slice_decode(), which checks the bytes before and the slice after.
 */
#ifndef FGT_RINGBUF_SLICE_TABLES_H
#define FGT_RINGBUF_SLICE_TABLES_H

#include "ringbuf/msgpack_cursor.h"
#include "ringbuf/slice.h"
#include "ringbuf/why.h"

/*
 * Reads count pairs into an empty slice: each known key exactly once, others
 * skipped. The result is in bounds but not yet checked for sense. -EBADMSG,
 * -ENOMEM; why says what is wrong and where.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_slice_tables_read(struct fgt_msgpack_cursor *cursor, uint32_t count,
			  struct fgt_slice *slice, struct fgt_why *why);

#endif
