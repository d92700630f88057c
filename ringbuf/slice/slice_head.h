/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of the .fgt form whose values are no tables. Each function reads one
 * value into the slice and returns 0: errors stick to the cursor.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_RINGBUF_SLICE_SLICE_HEAD_H
#define FGT_RINGBUF_SLICE_SLICE_HEAD_H

#include "ringbuf/base/msgpack_cursor.h"
#include "ringbuf/slice/slice.h"

int fgt_slice_read_process(struct fgt_msgpack_cursor *cursor,
			   struct fgt_ring_slice *slice);
int fgt_slice_read_service(struct fgt_msgpack_cursor *cursor,
			   struct fgt_ring_slice *slice);
int fgt_slice_read_range(struct fgt_msgpack_cursor *cursor,
			 struct fgt_ring_slice *slice);
int fgt_slice_read_period(struct fgt_msgpack_cursor *cursor,
			  struct fgt_ring_slice *slice);
int fgt_slice_read_effective_hz(struct fgt_msgpack_cursor *cursor,
				struct fgt_ring_slice *slice);
int fgt_slice_read_lost(struct fgt_msgpack_cursor *cursor,
			struct fgt_ring_slice *slice);
int fgt_slice_read_lost_wakes(struct fgt_msgpack_cursor *cursor,
			      struct fgt_ring_slice *slice);
int fgt_slice_read_brief(struct fgt_msgpack_cursor *cursor,
			 struct fgt_ring_slice *slice);

#endif
