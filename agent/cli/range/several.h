/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One slice of several targets: which ones, then a slice of each, of the same
 * time, and one table of each kind.
 *
 * Any thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_RANGE_SEVERAL_H
#define FGT_AGENT_CLI_RANGE_SEVERAL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/cli/range/range.h"
#include "agent/protocol/message.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"

/* pid 0 and name NULL: the agent's only target. */
struct fgt_target_choice {
	int32_t pid;
	const char *name;
	bool with_children; /* of pid */
	bool is_all; /* targets */
};

/* Can several targets fit? Then the agent has to be asked for them first. */
static inline bool fgt_several_fit(const struct fgt_target_choice *choice)
{
	return choice->is_all || choice->with_children || choice->name;
}

struct fgt_several {
	struct fgt_target_choice choice;
	struct fgt_range range;
	/* One target's slice: by pid, or if that is 0 by the choice's name. */
	int (*cut)(void *context, int32_t pid, const struct fgt_range *range,
		   struct fgt_ring_slice **ret_slice, struct fgt_why *why);
	void *context;
};

/* Processes that could not be had, though they live and fit. */
struct fgt_several_missing {
	uint32_t count, of;
	struct fgt_why why; /* of the last one */
};

/*
 * targets: the agent's reply to that verb, or NULL where only one can fit. Those
 * without data in that time are left out. The errors of cut; -EINVAL: sampled
 * at different rates; -ENOMEM.
 */
int fgt_several_cut(const struct fgt_several *several,
		    const struct fgt_message *targets,
		    struct fgt_ring_slice **ret_slice,
		    struct fgt_several_missing *ret_missing,
		    struct fgt_why *why);

#endif
