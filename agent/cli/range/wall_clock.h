/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wall clock as it was: from wall time to monotonic time through the
 * anchors of a slice, so that a clock that stepped meanwhile misleads nobody
 * (FAULTS T1).
 */
#ifndef FGT_AGENT_CLI_RANGE_WALL_CLOCK_H
#define FGT_AGENT_CLI_RANGE_WALL_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/cli/range/time_spec.h"
#include "ringbuf/slice/slice.h"

/* Both clocks, read as close together as can be. MT-Safe */
void fgt_now_read(struct fgt_now *ret_now);

/*
 * The monotonic instant when the wall clock showed wall_ns, by anchors in
 * order of mono_ns (count 0: by now alone). now counts as the last anchor.
 * Shown twice (the clock was set back): the later one. Never shown (it was
 * set forward): the instant of the step. Pure.
 */
uint64_t fgt_wall_to_mono(const struct fgt_anchor *anchors, uint32_t count,
			  const struct fgt_now *now, uint64_t wall_ns);

/* Whether the clock was set, by more than slewing explains. Pure. */
bool fgt_wall_has_stepped(const struct fgt_anchor *anchors, uint32_t count,
			  const struct fgt_now *now);

#endif
