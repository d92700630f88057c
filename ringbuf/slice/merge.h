/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several slices of one machine as one slice of several processes: one list of
 * ticks, one table of each kind.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_RINGBUF_SLICE_MERGE_H
#define FGT_RINGBUF_SLICE_MERGE_H

#include "ringbuf/slice/slice.h"

#define FGT_MERGE_MAX 4096u /* slices */

/*
 * slices: [count], valid, each of one process, with symbols and state names if
 * the result shall have them. The first thread of a process is named by its
 * title, if it has one. The first slice gives the result its process and
 * its notes; the service is that of the first one if all have the same, else
 * unknown. Ticks are united: where one slice has a lower pace, its runs go on
 * over the ticks of the others between its own, up to where edges or a wake-up
 * show that they ended. -EINVAL: none, too many, or
 * with different periods; -ENOMEM.
 */
int fgt_slice_merge(const struct fgt_ring_slice *const *slices, uint32_t count,
		    struct fgt_ring_slice **ret_slice);

/* ---- Between the parts of merging --------------------------------------- */

/* A slice on its way into the result, with the new numbers of its things. */
struct fgt_merge_source {
	const struct fgt_ring_slice *slice;
	uint32_t *ticks; /* [tick_count]: number in the result */
	uint32_t *ends; /* [tick_count]: after the last tick of the result that
			 * it stands for */
	uint32_t *images, *frames, *nodes;
	uint32_t first_wait, first_waker, first_task, first_track, first_span;
};

struct fgt_merge {
	struct fgt_merge_source *sources;
	uint32_t count;
	struct fgt_ring_slice *result;
	uint32_t run_capacity; /* of the result */
};

/* Texts get the result's string ids. -ENOMEM. */
int fgt_merge_string(const struct fgt_merge *merge,
		     const struct fgt_merge_source *source, uint32_t *id);

/* Ticks, paces, anchors, and what is counted of them. -ENOMEM. */
int fgt_merge_times(struct fgt_merge *merge);
/* Images, frames, symbols, nodes and states: equal ones once. -ENOMEM. */
int fgt_merge_stacks(struct fgt_merge *merge);
/* Tasks, spans, marks, counters and labels. -ENOMEM. */
int fgt_merge_spans(struct fgt_merge *merge);

#endif
