/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The duration of a tick: until the next one, unless ticks are missing.
 *
 * MT-Safe for slices that are only read | AS-Safe
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_TIMELINE_H
#define FGT_UPLOAD_FORMAT_PARTS_TIMELINE_H

#include <stdbool.h>

#include "ringbuf/slice/pace.h"

/*
 * True if the next tick comes more than two and a half periods after tick. The
 * time decides, not the number of missing ticks: what is bridged is shown for
 * that time. One missing tick is bridged, unless the next one is late as well;
 * two are where the distance of ticks is at its shortest, 13/16 of a period.
 * The period is that of the tick, so a lowered rate is not a gap.
 */
static inline bool fgt_timeline_is_gap(const struct fgt_ring_slice *slice,
				       uint32_t tick)
{
	const uint64_t pace_ns = fgt_pace_ns(slice, tick);

	if (tick + 1 >= slice->tick_count || pace_ns >= UINT64_MAX / 4)
		return false;
	return slice->tick_ns[tick + 1] - slice->tick_ns[tick] >
	       2 * pace_ns + pace_ns / 2;
}

/* The instant at which the sample at tick ends. */
static inline uint64_t fgt_timeline_end_ns(const struct fgt_ring_slice *slice,
					   uint32_t tick)
{
	uint64_t end_ns = slice->tick_ns[tick] + fgt_pace_ns(slice, tick);

	if (end_ns < slice->tick_ns[tick])
		end_ns = UINT64_MAX;
	if (tick + 1 < slice->tick_count && !fgt_timeline_is_gap(slice, tick))
		return slice->tick_ns[tick + 1];
	return end_ns;
}

#endif
