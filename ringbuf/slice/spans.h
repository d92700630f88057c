/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks, spans, marks, counters and labels of a slice.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_RINGBUF_SLICE_SPANS_H
#define FGT_RINGBUF_SLICE_SPANS_H

#include "ringbuf/slice/slice.h"

/* True if order, nesting and every index are as in slice.h. Tables that have
 * items must not be NULL. */
bool fgt_spans_are_valid(const struct fgt_ring_slice *slice);

/*
 * Copies what belongs to the ticks of result. Unless tid is 0: what that thread
 * reported and began, and the spans and tasks around it. -ENOMEM.
 */
int fgt_spans_narrow(const struct fgt_ring_slice *source, int32_t tid,
		     struct fgt_ring_slice *result);

/* Sorts counters as in slice.h; names have their ids already. A counter keeps
 * its value until the next one: of all values before the slice, the last one
 * moves to the slice's beginning. */
void fgt_spans_settle_counters(struct fgt_ring_slice *slice);

/* Clips [begin_ns, end_ns], end 0 open, to the slice's ticks and the period of
 * the last one; false if nothing is left. */
bool fgt_spans_clip(const struct fgt_ring_slice *slice, uint64_t begin_ns,
		    uint64_t end_ns, uint64_t *ret_begin_ns,
		    uint64_t *ret_end_ns);

/* The same, and false for a part without duration: readers of a trace would
 * take its begin and its end, at one instant, in any order. */
bool fgt_spans_clip_part(const struct fgt_ring_slice *slice, uint64_t begin_ns,
			 uint64_t end_ns, uint64_t *ret_begin_ns,
			 uint64_t *ret_end_ns);
/* The same of a task. */
bool fgt_spans_clip_task(const struct fgt_ring_slice *slice, uint32_t index,
			 uint64_t *ret_begin_ns, uint64_t *ret_end_ns);

/* True if [begin_ns, end_ns], end 0 open, overlaps the slice's ticks, or lies
 * in the requested range within one second of them. */
bool fgt_spans_belong(const struct fgt_ring_slice *slice, uint64_t begin_ns,
		      uint64_t end_ns);

/* The first label of a span, and how many it has. */
const struct fgt_slice_label *
fgt_spans_labels(const struct fgt_ring_slice *slice, uint32_t span,
		 uint32_t *ret_count);

#endif
