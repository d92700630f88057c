/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slice of a time of which nothing is recorded: what is known without ticks.
 * Any thread of any process.
 */
#include "ringbuf/ring/cut.h"

#include <errno.h>
#include <stdlib.h>

#include "ringbuf/base/clock.h"
#include "ringbuf/slice/slice.h"

int fgt_cut_blank(const struct fgt_region *region, uint64_t from_ns,
		  uint64_t to_ns, struct fgt_ring_slice **ret_slice)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	int error;

	if (from_ns >= to_ns)
		return -EINVAL;
	error = fgt_slice_new(&slice);
	if (error)
		return error;
	slice->anchors = calloc(1, sizeof(*slice->anchors));
	slice->tick_ns = calloc(2, sizeof(*slice->tick_ns));
	if (!slice->anchors || !slice->tick_ns)
		return -ENOMEM;
	slice->anchors[0].mono_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	slice->anchors[0].wall_ns = fgt_clock_ns(CLOCK_REALTIME);
	slice->anchor_count = 1;
	slice->tick_ns[0] = slice->requested_from_ns = from_ns;
	slice->tick_ns[1] = slice->requested_to_ns = to_ns;
	slice->tick_count = 2;
	slice->period_ns = fgt_region_period_ns(region);
	fgt_cut_process(region, &slice->process);
	*ret_slice = FGT_TAKE(slice);
	return 0;
}
