/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pace of a slice: how many periods each tick stands for. More than one
 * where the rate was lowered on purpose; a tick that the sampler was too late
 * for is no pace, it is missed.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_RINGBUF_SLICE_PACE_H
#define FGT_RINGBUF_SLICE_PACE_H

#include "ringbuf/slice/slice.h"

#define FGT_PACE_MAX ((1u << 20) - 1) /* periods; 20 bits in a word */

/*
 * From first_tick on each tick stands for so many periods, 1 to FGT_PACE_MAX.
 * Call in order; a second call for the same tick replaces the first. -ENOMEM.
 */
int fgt_pace_add(struct fgt_ring_slice *slice, uint32_t first_tick,
		 uint32_t periods);

/* Copies those of these ticks. -ENOMEM. */
int fgt_pace_narrow(const struct fgt_ring_slice *source, uint32_t first_tick,
		    uint32_t tick_count, struct fgt_ring_slice *result);

/* Periods that a tick stands for: from it to the one after it. */
uint32_t fgt_pace_at(const struct fgt_ring_slice *slice, uint32_t tick);

/* The distance to the tick after it, as it was meant. */
uint64_t fgt_pace_ns(const struct fgt_ring_slice *slice, uint32_t tick);

/* Periods that these ticks stand for together: their weight in any sum. */
uint64_t fgt_pace_weight(const struct fgt_ring_slice *slice,
			 uint32_t first_tick, uint32_t tick_count);

/* The slowest pace: periods of its ticks, and of those ticks together. */
uint32_t fgt_pace_slowest(const struct fgt_ring_slice *slice,
			  uint64_t *ret_lowered_periods);

#endif
