/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --from, --to and --last together. Pure: clocks and anchors are passed in.
 */
#include "agent/cli/range/range.h"

#include <errno.h>

static int read_end(const struct fgt_arguments *arguments, const char *name,
		    const struct fgt_now *now, bool *ret_is_given,
		    struct fgt_time *ret_time, struct fgt_why *why)
{
	const char *text = fgt_options_get(arguments, name);

	*ret_is_given = text;
	return text ? fgt_time_read(text, now, ret_time, why) : 0;
}

static int check_order(uint64_t from_ns, uint64_t to_ns, struct fgt_why *why)
{
	if (from_ns <= to_ns)
		return 0;
	return fgt_why_set(why, -EINVAL,
			   "--from lies %.3f s after --to; swap them or "
			   "move --to",
			   (double)(from_ns - to_ns) / 1e9);
}

int fgt_range_read(const struct fgt_arguments *arguments,
		   const struct fgt_now *now, uint64_t last_ns,
		   struct fgt_range *ret_range, struct fgt_why *why)
{
	const char *last = fgt_options_get(arguments, "last");
	struct fgt_range range = { .last_ns = last_ns };
	int r = last ? fgt_duration_parse(last, &range.last_ns, why) : 0;

	if (r == 0)
		r = read_end(arguments, "to", now, &range.has_to, &range.to,
			     why);
	if (r == 0)
		r = read_end(arguments, "from", now, &range.has_from,
			     &range.from, why);
	/* A wall clock that was set back may put a later reading earlier. */
	if (r == 0 && range.has_from && !range.from.is_wall &&
	    !range.to.is_wall)
		r = check_order(range.from.ns,
				range.has_to ? range.to.ns : now->mono_ns, why);
	if (r == 0)
		*ret_range = range;
	return r;
}

static uint64_t to_mono(const struct fgt_time *time,
			const struct fgt_ring_slice *anchored,
			const struct fgt_now *now)
{
	if (!time->is_wall)
		return time->ns;
	return fgt_wall_to_mono(anchored->anchors, anchored->anchor_count, now,
				time->ns);
}

int fgt_range_to_mono(const struct fgt_range *range,
		      const struct fgt_ring_slice *anchored,
		      const struct fgt_now *now, uint64_t *ret_from_ns,
		      uint64_t *ret_to_ns, struct fgt_why *why)
{
	uint64_t from_ns = 0, to_ns = now->mono_ns;
	int r;

	if (range->has_to)
		to_ns = to_mono(&range->to, anchored, now);
	if (range->has_from)
		from_ns = to_mono(&range->from, anchored, now);
	else if (range->last_ns && range->last_ns < to_ns)
		from_ns = to_ns - range->last_ns;
	r = check_order(from_ns, to_ns, why);
	if (r < 0)
		return r;
	*ret_from_ns = from_ns;
	*ret_to_ns = to_ns;
	return 0;
}
