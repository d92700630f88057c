/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time grammar of --from and --to, and durations.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_RANGE_TIME_SPEC_H
#define FGT_AGENT_CLI_RANGE_TIME_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/why.h"
#include "ringbuf/slice/wall_clock.h"

#define FGT_TIME_TEXT_SIZE 40 /* of a written instant, NUL included */

/* How an instant was written: messages write instants in the same form. */
enum fgt_time_form {
	FGT_TIME_RELATIVE, /* -10s, now, +5s */
	FGT_TIME_MONOTONIC, /* m:NANOSECONDS */
	FGT_TIME_LOCAL, /* 14:03:07.5, 2026-11-21 14:03:07 */
	FGT_TIME_ZONED, /* 2026-11-21T14:03:07Z */
	FGT_TIME_EPOCH, /* 1763719200.25 */
};

/* What a text names: an instant of one of the two clocks. */
struct fgt_time {
	enum fgt_time_form form;
	uint64_t ns; /* since the epoch if fgt_time_is_wall(), else monotonic */
};

/*
 * "-10s" "-1500ms" "-2m" "now" "+5s"; RFC 3339; "2026-11-21 14:03:07[.fff]"
 * (local, or a zone follows); "HH:MM[:SS[.fff]]" (local, its most recent
 * occurrence); epoch seconds "1763719200.25"; "m:<ns>". Fractions of a second
 * of the clock may follow a comma. Instants before boot or 1970 become 0.
 * A wall time stays on its clock, so that the anchors of that time can map
 * it. -EINVAL with why.
 */
int fgt_time_read(const char *text, const struct fgt_now *now,
		  struct fgt_time *ret_time, struct fgt_why *why);
bool fgt_time_is_wall(const struct fgt_time *time);

/* "5s", "1500ms", "2m", "0.5s", "10" (seconds) → ns, > 0. -EINVAL, -ERANGE. */
int fgt_duration_parse(const char *text, uint64_t *ret_ns, struct fgt_why *why);

#endif
