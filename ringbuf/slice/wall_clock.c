/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wall clock as it was: wall time → monotonic time through anchors.
 * Pure, except fgt_now_read(). Must not assume that anchors are sane.
 */
#include "ringbuf/slice/wall_clock.h"

#include <stddef.h>
#include <time.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/clock.h"

#define STEP_NS 50000000ull /* NTP slews at most 0.5 ms a second */
#define TRIES	5

void fgt_now_at_end(const struct fgt_ring_slice *slice, struct fgt_now *ret_now)
{
	ret_now->mono_ns = slice->tick_ns[slice->tick_count - 1];
	ret_now->wall_ns = fgt_slice_wall_ns(slice, ret_now->mono_ns);
}

void fgt_now_read(struct fgt_now *ret_now)
{
	uint64_t best_ns = UINT64_MAX;

	/* The thread may lose the CPU between two readings: the closest pair
	 * wins. */
	for (int i = 0; i < TRIES; i++) {
		uint64_t before = fgt_clock_ns(CLOCK_MONOTONIC);
		uint64_t wall = fgt_clock_ns(CLOCK_REALTIME);
		uint64_t width = fgt_clock_ns(CLOCK_MONOTONIC) - before;

		if (width >= best_ns)
			continue;
		best_ns = width;
		ret_now->mono_ns = before + width / 2;
		ret_now->wall_ns = wall;
	}
}

static struct fgt_anchor get_anchor(const struct fgt_anchor *anchors,
				    uint32_t count, const struct fgt_now *now,
				    uint32_t index)
{
	if (index < count)
		return anchors[index];
	return (struct fgt_anchor){ .mono_ns = now->mono_ns,
				    .wall_ns = now->wall_ns };
}

static uint64_t shift(const struct fgt_anchor *anchor, uint64_t wall_ns)
{
	uint64_t distance_ns, mono_ns;

	if (wall_ns <= anchor->wall_ns) {
		distance_ns = anchor->wall_ns - wall_ns;
		return anchor->mono_ns > distance_ns
			       ? anchor->mono_ns - distance_ns
			       : 0;
	}
	distance_ns = wall_ns - anchor->wall_ns;
	return __builtin_add_overflow(anchor->mono_ns, distance_ns, &mono_ns)
		       ? UINT64_MAX
		       : mono_ns;
}

uint64_t fgt_wall_to_mono(const struct fgt_anchor *anchors, uint32_t count,
			  const struct fgt_now *now, uint64_t wall_ns)
{
	struct fgt_anchor last = get_anchor(anchors, count, now, count), first;

	/* From the end: of two instants that showed it, the later one. */
	for (uint32_t i = count; i-- > 0;) {
		struct fgt_anchor from = anchors[i];
		struct fgt_anchor to = get_anchor(anchors, count, now, i + 1);
		uint64_t mono_ns = shift(&from, wall_ns);

		if (wall_ns < from.wall_ns)
			continue;
		if (mono_ns < to.mono_ns)
			return mono_ns;
		if (wall_ns < to.wall_ns)
			return to.mono_ns; /* skipped by a step forward */
	}
	if (wall_ns >= last.wall_ns)
		return shift(&last, wall_ns);
	first = get_anchor(anchors, count, now, 0);
	return shift(&first, wall_ns);
}

uint64_t fgt_wall_at(const struct fgt_anchor *anchors, uint32_t count,
		     uint64_t mono_ns)
{
	size_t passed =
		FGT_ARRAY_BISECT(at, count, anchors[at].mono_ns <= mono_ns);
	const struct fgt_anchor *anchor = anchors + (passed ? passed - 1 : 0);

	if (!count)
		return 0;
	/* Unsigned wrap-around makes this right on both sides of the anchor. */
	return anchor->wall_ns + (mono_ns - anchor->mono_ns);
}

bool fgt_wall_has_stepped(const struct fgt_anchor *anchors, uint32_t count,
			  const struct fgt_now *now)
{
	for (uint32_t i = 0; i < count; i++) {
		struct fgt_anchor to = get_anchor(anchors, count, now, i + 1);
		uint64_t mono_ns = to.mono_ns - anchors[i].mono_ns;
		uint64_t wall_ns = to.wall_ns - anchors[i].wall_ns;
		int64_t drift_ns = (int64_t)(wall_ns - mono_ns);

		if (drift_ns > (int64_t)STEP_NS || drift_ns < -(int64_t)STEP_NS)
			return true;
	}
	return false;
}
