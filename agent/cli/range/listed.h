/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a list of processes, some of which are chosen.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_RANGE_LISTED_H
#define FGT_AGENT_CLI_RANGE_LISTED_H

#include <stdbool.h>
#include <stdint.h>

struct fgt_listed {
	int32_t pid, parent_pid;
	bool is_alive, is_chosen;
	uint64_t start_time; /* clock ticks since boot */
};

/* Ended ones last, else the oldest first. */
void fgt_listed_sort(struct fgt_listed *rows, uint32_t count);

/* Is that the name of a process, which may have been cut, or of its file, which
 * is not? */
bool fgt_listed_is_named(const char *name, const char *comm, const char *exe);

/* Chooses a process, and those below it, to any depth; no others. */
void fgt_listed_choose_below(struct fgt_listed *rows, uint32_t count,
			     int32_t pid);

#endif
