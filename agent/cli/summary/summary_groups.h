/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads with similar names, and how many of them did what: "conn-*" 1996:
 * poll 1331, futex 665.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_SUMMARY_SUMMARY_GROUPS_H
#define FGT_AGENT_CLI_SUMMARY_SUMMARY_GROUPS_H

#include <stdint.h>
#include <stdio.h>

#include "ringbuf/base/json.h"
#include "upload/why/group.h"

#define FGT_SUMMARY_GROUP_MIN	 8 /* threads; fewer are rows of their own */
#define FGT_SUMMARY_GROUP_STATES 4 /* of a group, the most frequent ones */

struct fgt_summary_thread;

struct fgt_summary_group {
	char pattern[FGT_GROUP_NAME_MAX];
	uint32_t threads;
	/* In what most samples of each thread were; by threads, then name. */
	struct {
		const char *name;
		uint32_t threads;
	} states[FGT_SUMMARY_GROUP_STATES];
	uint32_t state_count; /* of states[] in use */
	uint32_t others; /* threads in states that are not in states[] */
};

/* The groups of at least FGT_SUMMARY_GROUP_MIN threads, by threads, then
 * pattern. Names of states are borrowed. -ENOMEM. */
int fgt_summary_groups_new(const struct fgt_summary_thread *threads,
			   uint32_t thread_count,
			   struct fgt_summary_group **ret_groups,
			   uint32_t *ret_count);

/* A line each; nothing if there are none. */
void fgt_summary_groups_print(const struct fgt_summary_group *groups,
			      uint32_t count, FILE *file);
/* "thread_groups": […] into an open object. */
void fgt_summary_groups_put(const struct fgt_summary_group *groups,
			    uint32_t count, struct fgt_json *json);

#endif
