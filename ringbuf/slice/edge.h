/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The edges of a slice: when threads really began and ceased to be blocked.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_RINGBUF_SLICE_EDGE_H
#define FGT_RINGBUF_SLICE_EDGE_H

#include "ringbuf/slice/slice.h"

/* Between two ticks of one thread. */
#define FGT_EDGE_LIST_MAX 16u

/* A thread blocks and gets a CPU again, in turn. */
struct fgt_edge_list {
	uint32_t count; /* 0: none, or not known */
	bool is_on_first;
	uint64_t ns[FGT_EDGE_LIST_MAX]; /* CLOCK_MONOTONIC, ascending */
};

/* Whether the last of count edges in turn is that it gets a CPU. */
static inline bool fgt_edges_are_on_last(bool is_on_first, uint32_t count)
{
	return is_on_first == count % 2;
}

/* The later of the two. */
static inline uint32_t fgt_edge_near_us(const struct fgt_edge *edge)
{
	return edge->on_us && (edge->on_us < edge->off_us || !edge->off_us)
		       ? edge->on_us
		       : edge->off_us;
}

/* Whether count edges in turn can lie between ticks with these states. A thread
 * that waits for a CPU may do so after a block, or have been put off. */
bool fgt_edges_are_possible(bool is_on_first, uint32_t count, uint32_t before,
			    uint32_t after);

/* Orders edges by thread, then tick, then time. */
void fgt_edges_sort(struct fgt_ring_slice *slice);

/* True if thread and tick exist, in that order, no two alike. */
bool fgt_edges_are_valid(const struct fgt_ring_slice *slice);

/*
 * A thread's edges of one tick. None if one lies before earliest_ns, or if they
 * cannot follow each other, whatever the slice claims.
 *
 * cursor: 0 at first; thread, then tick, must ascend from call to call.
 */
void fgt_edges_take(const struct fgt_ring_slice *slice, uint32_t *cursor,
		    uint32_t thread, uint32_t tick, uint64_t earliest_ns,
		    struct fgt_edge_list *ret_edges);

/*
 * Copies the edges of the ticks that result has from first_tick on; threads:
 * new numbers of the threads + 1, 0 for those left out. -ENOMEM.
 */
int fgt_edges_narrow(const struct fgt_ring_slice *source,
		     const uint32_t *threads, uint32_t first_tick,
		     struct fgt_ring_slice *result);

#endif
