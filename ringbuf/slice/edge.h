/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The edges of a slice: when threads really began and ceased to be blocked.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_RINGBUF_SLICE_EDGE_H
#define FGT_RINGBUF_SLICE_EDGE_H

#include "ringbuf/slice/slice.h"

/* Orders edges by thread, then tick. */
void fgt_edges_sort(struct fgt_ring_slice *slice);

/* True if thread and tick exist, in order and each pair once. */
bool fgt_edges_are_valid(const struct fgt_ring_slice *slice);

/*
 * Copies the edges of the ticks that result has from first_tick on; threads:
 * new numbers of the threads + 1, 0 for those left out. -ENOMEM.
 */
int fgt_edges_narrow(const struct fgt_ring_slice *source,
		     const uint32_t *threads, uint32_t first_tick,
		     struct fgt_ring_slice *result);

/* The instant that lies us µs before a tick of the slice; 0 if us is 0, or if
 * it lies before the first tick. */
uint64_t fgt_edge_ns(const struct fgt_ring_slice *slice, uint32_t tick,
		     uint32_t us);

#endif
