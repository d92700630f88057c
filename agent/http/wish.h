/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request wants of a slice, read from its parameters.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_HTTP_WISH_H
#define FGT_AGENT_HTTP_WISH_H

#include <stdint.h>

#include "agent/http/query.h"
#include "agent/http/source.h"
#include "upload/format/format.h"
#include "upload/why/filter.h"

#define FGT_WEB_SECONDS_MAX 3600
#define FGT_WEB_HZ_MAX	    1000

/* The parameters that a route takes, a bit each. */
enum fgt_web_takes {
	FGT_WEB_TAKES_TARGET = 1 << 0, /* pid, name */
	FGT_WEB_TAKES_SECONDS = 1 << 1, /* seconds, wait */
	FGT_WEB_TAKES_HZ = 1 << 2,
	FGT_WEB_TAKES_RANGE = 1 << 3, /* from, to, last */
	FGT_WEB_TAKES_FORMAT = 1 << 4, /* format: any */
	FGT_WEB_TAKES_PROFILE = 1 << 5, /* format: pprof or folded */
	FGT_WEB_TAKES_STATES = 1 << 6, /* state_frames, tid */
	FGT_WEB_TAKES_LIVE = 1 << 7, /* tid; format, which is not read here */
	FGT_WEB_TAKES_SEVERAL = 1 << 8, /* children, all */
	FGT_WEB_TAKES_FILTER = 1 << 9, /* thread, state, function, … */
};

struct fgt_web_wish {
	struct fgt_web_cut cut;
	uint32_t hz; /* at most; 0: as it was recorded */
	enum fgt_format_kind format;
	enum fgt_state_frames state_frames;
	struct fgt_filter filter;
};

/* What a parameter that is not there means. */
struct fgt_web_defaults {
	double seconds;
	enum fgt_format_kind format;
	enum fgt_state_frames state_frames;
};

/*
 * takes: bits of enum fgt_web_takes. -EINVAL with why, "bad NAME: "VALUE":
 * CAUSE: REMEDY": a parameter that the route does not take, or a value that it
 * cannot have. Texts of the wish are the query's.
 */
int fgt_web_wish_read(const struct fgt_web_query *query, unsigned int takes,
		      const struct fgt_web_defaults *defaults,
		      struct fgt_web_wish *ret_wish, struct fgt_why *why);

#endif
