/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a tick lasts: until the next one, unless ticks are missing.
 */
#ifndef FGT_UPLOAD_FORMAT_TIMELINE_H
#define FGT_UPLOAD_FORMAT_TIMELINE_H

#include <stdbool.h>

#include "ringbuf/slice.h"

/*
 * True if what lies between tick and the next one is unknown: two or more
 * ticks were missed. (One is bridged; half a period is left for jitter.)
 */
static inline bool fgt_timeline_is_gap(const struct fgt_slice *slice,
				       uint32_t tick)
{
	const uint64_t period_ns = slice->period_ns;

	if (tick + 1 >= slice->tick_count || period_ns > UINT64_MAX / 4)
		return false;
	return slice->tick_ns[tick + 1] - slice->tick_ns[tick] >
	       2 * period_ns + period_ns / 2;
}

/* The instant up to which the sample at tick holds. */
static inline uint64_t fgt_timeline_end_ns(const struct fgt_slice *slice,
					   uint32_t tick)
{
	uint64_t end_ns = slice->tick_ns[tick] + slice->period_ns;

	if (end_ns < slice->tick_ns[tick])
		end_ns = UINT64_MAX;
	if (tick + 1 < slice->tick_count && !fgt_timeline_is_gap(slice, tick))
		return slice->tick_ns[tick + 1];
	return end_ns;
}

#endif
