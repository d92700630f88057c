/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --from, --to and --last together. Pure: clocks and anchors are passed in.
 */
#include "agent/cli/range/range.h"

#include <errno.h>

#include "agent/cli/range/wall_clock.h"

static int read_end(const struct fgt_arguments *arguments, const char *name,
		    const struct fgt_now *now, struct fgt_time *time,
		    struct fgt_why *why)
{
	const char *text = fgt_options_get(arguments, name);

	return text ? fgt_time_read(text, now, time, why) : 0;
}

int fgt_range_read(const struct fgt_arguments *arguments,
		   const struct fgt_now *now, uint64_t last_ns,
		   struct fgt_range *ret_range, struct fgt_why *why)
{
	const char *last = fgt_options_get(arguments, "last");
	bool is_from_given = fgt_options_has(arguments, "from");
	struct fgt_range range = { .to = { .ns = now->mono_ns } };
	int r = last ? fgt_duration_parse(last, &last_ns, why) : 0;

	if (r == 0)
		r = read_end(arguments, "to", now, &range.to, why);
	if (r < 0)
		return r;
	/* Only an end: as much before it as usual. */
	range.from = range.to;
	range.from.ns = last_ns == 0 || last_ns > range.to.ns
				? 0
				: range.to.ns - last_ns;
	if (is_from_given)
		r = read_end(arguments, "from", now, &range.from, why);
	if (r == 0)
		*ret_range = range;
	return r;
}

bool fgt_range_needs_anchors(const struct fgt_range *range)
{
	return range->from.is_wall || range->to.is_wall;
}

static uint64_t to_mono(const struct fgt_time *time,
			const struct fgt_ring_slice *anchored,
			const struct fgt_now *now)
{
	if (!time->is_wall)
		return time->ns;
	return fgt_wall_to_mono(anchored ? anchored->anchors : NULL,
				anchored ? anchored->anchor_count : 0, now,
				time->ns);
}

int fgt_range_to_mono(const struct fgt_range *range,
		      const struct fgt_ring_slice *anchored,
		      const struct fgt_now *now, uint64_t *ret_from_ns,
		      uint64_t *ret_to_ns, struct fgt_why *why)
{
	uint64_t from_ns = to_mono(&range->from, anchored, now);
	uint64_t to_ns = to_mono(&range->to, anchored, now);

	if (from_ns > to_ns)
		return fgt_why_set(
			why, -EINVAL,
			"--from lies %.3f s after --to; swap them or "
			"move --to",
			(double)(from_ns - to_ns) / 1e9);
	*ret_from_ns = from_ns;
	*ret_to_ns = to_ns;
	return 0;
}
