/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes a recording is of.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_VERBS_PROCESSES_H
#define FGT_AGENT_CLI_VERBS_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "ringbuf/base/why.h"

#define FGT_PROCESSES_MAX 256u /* targets of one sampler */

struct fgt_processes {
	/* The oldest, or the one named, first. */
	int32_t pids[FGT_PROCESSES_MAX];
	/* Of each, as its number may be used again; 0: not known yet. */
	uint64_t start_times[FGT_PROCESSES_MAX];
	uint32_t count;
};

/* Those whose name, or whose file's, that is. -ESRCH: none; -E2BIG: too many;
 * errno of /proc; with why. */
int fgt_processes_named(const char *name, struct fgt_processes *ret_processes,
			struct fgt_why *why);

/* Adds those below them, to any depth, as far as there is room: how many more
 * there are. errno of /proc, with why. */
int fgt_processes_add_below(struct fgt_processes *processes,
			    struct fgt_why *why);

#endif
