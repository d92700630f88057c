/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time grammar of --from and --to, and durations (DESIGN §10).
 */
#ifndef FGT_AGENT_CLI_RANGE_TIME_SPEC_H
#define FGT_AGENT_CLI_RANGE_TIME_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/base/why.h"
#include "ringbuf/slice/wall_clock.h"

/* What a text names: an instant of one of the two clocks. */
struct fgt_time {
	bool is_wall; /* since the epoch; else CLOCK_MONOTONIC */
	bool is_count; /* written as m:NS */
	uint64_t ns;
};

/*
 * As fgt_time_parse(), but leaves the wall clock's instants on their clock, so
 * that they can be mapped by the anchors of their own time.
 */
int fgt_time_read(const char *text, const struct fgt_now *now,
		  struct fgt_time *ret_time, struct fgt_why *why);

/* The monotonic instant of a wall time if the clock never stepped. */
uint64_t fgt_time_to_mono(const struct fgt_time *time,
			  const struct fgt_now *now);

/*
 * "-10s" "-1500ms" "-2m" "now" "+5s"; RFC 3339; "2026-11-21 14:03:07[.fff]"
 * (local, or a zone follows); "HH:MM:SS[.fff]" (local, its most recent
 * occurrence), a comma as well as a point before the fraction; epoch seconds
 * "1763719200.25"; "m:<ns>" → CLOCK_MONOTONIC ns (times before boot become 0).
 * -EINVAL with why.
 */
int fgt_time_parse(const char *text, const struct fgt_now *now,
		   uint64_t *ret_mono_ns, struct fgt_why *why);

/* "5s", "1500ms", "2m", "0.5s", "10" (seconds) → ns, > 0. -EINVAL, -ERANGE. */
int fgt_duration_parse(const char *text, uint64_t *ret_ns, struct fgt_why *why);

#endif
