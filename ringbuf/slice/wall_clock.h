/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wall clock as it was: from wall time to monotonic time through the
 * anchors of a ring or a slice, right also where the clock was set meanwhile.
 *
 * MT-Safe | AS-Safe
 */
#ifndef FGT_RINGBUF_SLICE_WALL_CLOCK_H
#define FGT_RINGBUF_SLICE_WALL_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/slice/slice.h"

/* Both clocks read at the same instant, passed in so that tests decide. */
struct fgt_now {
	uint64_t mono_ns; /* CLOCK_MONOTONIC */
	uint64_t wall_ns; /* CLOCK_REALTIME */
};

/* Both clocks, read as close together as possible. MT-Safe */
void fgt_now_read(struct fgt_now *ret_now);

/* The last tick of a slice, which is the now of a file. Pure. */
void fgt_now_at_end(const struct fgt_ring_slice *slice,
		    struct fgt_now *ret_now);

/*
 * The monotonic instant when the wall clock showed wall_ns, by anchors in
 * order of mono_ns (count 0: by now alone). now counts as the last anchor.
 * Shown twice (the clock was set back): the later one. Never shown (it was
 * set forward): the instant of the step. Saturates at 0 and UINT64_MAX. Pure.
 */
uint64_t fgt_wall_to_mono(const struct fgt_anchor *anchors, uint32_t count,
			  const struct fgt_now *now, uint64_t wall_ns);

/* What the wall clock showed at mono_ns, by the anchor at or before it (else
 * by the first; count 0: 0). Pure. */
uint64_t fgt_wall_at(const struct fgt_anchor *anchors, uint32_t count,
		     uint64_t mono_ns);

/* Whether the clock was set, by more than slewing explains. Pure. */
bool fgt_wall_has_stepped(const struct fgt_anchor *anchors, uint32_t count,
			  const struct fgt_now *now);

#endif
