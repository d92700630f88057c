/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges in requests. Runs in any thread.
 */
#include "agent/cli/range/range_request.h"

#define AHEAD_MAX_NS UINT64_C(3600000000000)

void fgt_range_put(const struct fgt_range *range, struct fgt_builder *request)
{
	if (range->has_to)
		fgt_builder_uint(request,
				 fgt_time_is_wall(&range->to) ? "to_wall_ns"
							      : "to_ns",
				 range->to.ns);
	if (range->has_from)
		fgt_builder_uint(request,
				 fgt_time_is_wall(&range->from) ? "from_wall_ns"
								: "from_ns",
				 range->from.ns);
	else
		fgt_builder_uint(request, "last_ns", range->last_ns);
}

uint64_t fgt_range_wait_ns(const struct fgt_range *range)
{
	struct fgt_now now;
	uint64_t now_ns, wait_ns;

	fgt_now_read(&now);
	now_ns = fgt_time_is_wall(&range->to) ? now.wall_ns : now.mono_ns;
	wait_ns = range->has_to && range->to.ns > now_ns ? range->to.ns - now_ns
							 : 0;
	return wait_ns < AHEAD_MAX_NS ? wait_ns : AHEAD_MAX_NS;
}
