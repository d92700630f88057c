/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --from, --to and --last together: a range of time.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_RANGE_RANGE_H
#define FGT_AGENT_CLI_RANGE_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/cli/options.h"
#include "agent/cli/range/time_spec.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"

/* Rows of a verb's table of flags. */
#define FGT_RANGE_OPTIONS                                                      \
	{ "from", 0, "T", "begin: -10s, now, 14:03:07, RFC 3339, epoch, m:NS", \
	  "last " },                                                           \
	{                                                                      \
		"to", 0, "T", "end, in the same forms", "last "                \
	}
#define FGT_RANGE_TEXT                                                          \
	"T is -10s, -1500ms, -2m (before now), now, +5s (slice waits for it), " \
	"14:03,\n14:03:07.5 or 14:03:07,5 (local, its most recent "             \
	"occurrence),\n\"2026-11-21 14:03:07\" (local, or a zone follows), "    \
	"2026-11-21T14:03:07Z or\n+02:00, 1763719200.25 (epoch seconds) or "    \
	"m:NANOSECONDS (monotonic).\n"

/* Two instants, each still on the clock that the text named. Without an end:
 * now, or the end of a target that has ended. Without a beginning: last_ns
 * before the end; last_ns 0: everything. */
struct fgt_range {
	bool has_from, has_to;
	struct fgt_time from, to;
	uint64_t last_ns;
};

/*
 * Reads the flags against now. last_ns: the default of --last. -EINVAL with
 * why, also if from > to, unless an end is on the wall clock.
 */
int fgt_range_read(const struct fgt_arguments *arguments,
		   const struct fgt_now *now, uint64_t last_ns,
		   struct fgt_range *ret_range, struct fgt_why *why);

/* Both ends on CLOCK_MONOTONIC by a slice's anchors. -EINVAL if from > to,
 * with why. */
int fgt_range_to_mono(const struct fgt_range *range,
		      const struct fgt_ring_slice *anchored,
		      const struct fgt_now *now, uint64_t *ret_from_ns,
		      uint64_t *ret_to_ns, struct fgt_why *why);

/* The form in which the range was asked for. */
enum fgt_time_form fgt_range_form(const struct fgt_range *range);

/* An instant, known on both clocks, in that form, for messages. size:
 * FGT_TIME_TEXT_SIZE. */
void fgt_range_write(const struct fgt_range *range, const struct fgt_now *now,
		     uint64_t mono_ns, uint64_t wall_ns, char *ret_text,
		     size_t size);

#endif
