/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --from, --to and --last together. Pure: clocks and anchors are passed in;
 * only the time zone is read from outside.
 */
#include "agent/cli/range/range.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define SECOND_NS   UINT64_C(1000000000)
#define AHEAD_MAX_S 3600 /* the agent waits for no longer */

static int read_end(const struct fgt_arguments *arguments, const char *name,
		    const struct fgt_now *now, bool *ret_is_given,
		    struct fgt_time *ret_time, struct fgt_why *why)
{
	const char *text = fgt_options_get(arguments, name);

	*ret_is_given = text;
	return text ? fgt_time_read(text, now, ret_time, why) : 0;
}

static int check_order(const struct fgt_range *range, uint64_t from_ns,
		       uint64_t to_ns, struct fgt_why *why)
{
	if (from_ns <= to_ns)
		return 0;
	if (!range->has_to && (from_ns - to_ns) / SECOND_NS >= AHEAD_MAX_S)
		return fgt_why_set(why, -EINVAL,
				   "--from is out of range: it lies more than "
				   "an hour in the future");
	return fgt_why_set(why, -EINVAL,
			   range->has_to ? "--from lies %.3f s after --to; "
					   "swap them or change --to"
					 : "--from lies %.3f s in the future: "
					   "add a later --to",
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
	if (r == 0 && range.has_from && !fgt_time_is_wall(&range.from) &&
	    !fgt_time_is_wall(&range.to))
		r = check_order(&range, range.from.ns,
				range.has_to ? range.to.ns : now->mono_ns, why);
	if (r == 0)
		*ret_range = range;
	return r;
}

static uint64_t to_mono(const struct fgt_time *time,
			const struct fgt_ring_slice *anchored,
			const struct fgt_now *now)
{
	if (!fgt_time_is_wall(time))
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
	r = check_order(range, from_ns, to_ns, why);
	if (r < 0)
		return r;
	*ret_from_ns = from_ns;
	*ret_to_ns = to_ns;
	return 0;
}

enum fgt_time_form fgt_range_form(const struct fgt_range *range)
{
	return range->has_from ? range->from.form
	       : range->has_to ? range->to.form
			       : FGT_TIME_RELATIVE;
}

static void write_relative(uint64_t mono_ns, const struct fgt_now *now,
			   char *ret_text, size_t size)
{
	bool is_past = mono_ns < now->mono_ns;
	uint64_t ns = is_past ? now->mono_ns - mono_ns : mono_ns - now->mono_ns;

	if (ns < SECOND_NS / 20)
		snprintf(ret_text, size, "now");
	else
		snprintf(ret_text, size, "%c%.1fs", is_past ? '-' : '+',
			 (double)ns / 1e9);
}

/* The date is left out of a local time of today. */
static void write_date(bool is_local, uint64_t wall_ns,
		       const struct fgt_now *now, char *ret_text, size_t size)
{
	time_t seconds = (time_t)(wall_ns / SECOND_NS);
	time_t now_s = (time_t)(now->wall_ns / SECOND_NS);
	struct tm broken, today;
	char date[32] = "", second[16];

	if (is_local) {
		localtime_r(&seconds, &broken);
		localtime_r(&now_s, &today);
		if (broken.tm_year != today.tm_year ||
		    broken.tm_yday != today.tm_yday)
			strftime(date, sizeof(date), "%Y-%m-%d ", &broken);
	} else {
		gmtime_r(&seconds, &broken);
		strftime(date, sizeof(date), "%Y-%m-%dT", &broken);
	}
	strftime(second, sizeof(second), "%H:%M:%S", &broken);
	snprintf(ret_text, size, "%s%s.%03u%s", date, second,
		 (unsigned int)(wall_ns % SECOND_NS / 1000000),
		 is_local ? "" : "Z");
}

void fgt_range_write(const struct fgt_range *range, const struct fgt_now *now,
		     uint64_t mono_ns, uint64_t wall_ns, char *ret_text,
		     size_t size)
{
	enum fgt_time_form form = fgt_range_form(range);

	switch (form) {
	case FGT_TIME_RELATIVE:
		write_relative(mono_ns, now, ret_text, size);
		break;
	case FGT_TIME_MONOTONIC:
		snprintf(ret_text, size, "m:%" PRIu64, mono_ns);
		break;
	case FGT_TIME_EPOCH:
		snprintf(ret_text, size, "%" PRIu64 ".%03u",
			 (uint64_t)(wall_ns / SECOND_NS),
			 (unsigned int)(wall_ns % SECOND_NS / 1000000));
		break;
	case FGT_TIME_LOCAL:
	case FGT_TIME_ZONED:
		write_date(form == FGT_TIME_LOCAL, wall_ns, now, ret_text,
			   size);
		break;
	}
}
