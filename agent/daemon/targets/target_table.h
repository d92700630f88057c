/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's list of processes that are sampled, were sampled, or cannot
 * be: who they are, why they are here, whose they are.
 */
#ifndef FGT_AGENT_DAEMON_TARGETS_TARGET_TABLE_H
#define FGT_AGENT_DAEMON_TARGETS_TARGET_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/daemon/socket/control.h"
#include "agent/daemon/socket/permission.h"
#include "agent/daemon/targets/selector.h"
#include "agent/daemon/targets/targets.h"

#define FGT_TARGET_TABLE_MAX 1536 /* entries, those without a ring included */

struct fgt_target_entry {
	int32_t pid;
	int32_t parent_pid; /* that it came with, if it is a child */
	uint64_t start_time;
	struct fgt_target *target; /* a reference; NULL: cannot be sampled,
				    * or was detached by hand */
	enum fgt_origin origin;
	bool is_with_children;
	uint32_t registered; /* how many of its connections stay open; jobs
			      * only */
	uint32_t charged_uid; /* the ordinary user who added it to a daemon
			       * that is not its own, 0 */
	struct fgt_owner owner;
	uint64_t hidden_until_ns; /* its ring holds ticks of another owner */
	uint64_t ended_ns; /* when it was seen to have ended, 0 */
	uint64_t retry_ns; /* without target: when to try again */
	bool is_seen; /* marks of a scan */
	bool is_wanted;
};

/* Embedded; pointers into it hold until the next _add or _remove. */
struct fgt_target_table {
	struct fgt_target_entry *entries;
	size_t count, capacity;
};

void fgt_target_table_done(struct fgt_target_table *table);

/* NULL if there is none. */
struct fgt_target_entry *
fgt_target_table_find(const struct fgt_target_table *table, int32_t pid,
		      uint64_t start_time);
/* The one that runs and has this pid; NULL if there is none. */
struct fgt_target_entry *
fgt_target_table_find_live(const struct fgt_target_table *table, int32_t pid);

/* An empty entry. NULL without memory or beyond FGT_TARGET_TABLE_MAX. */
struct fgt_target_entry *fgt_target_table_add(struct fgt_target_table *table,
					      int32_t pid, uint64_t start_time);
/* Puts its target; the last entry takes its place. */
void fgt_target_table_remove(struct fgt_target_table *table, size_t index);

/* Children go with the one that they came with: those of an unwanted entry
 * become unwanted too, and theirs. */
void fgt_target_table_unwant_children(struct fgt_target_table *table);

/* Reads the owner anew; a process that was another's, or more than its
 * user's, stays hidden for kept_ns. */
void fgt_target_entry_update_owner(struct fgt_target_entry *entry,
				   uint64_t now_ns, uint64_t kept_ns);

bool fgt_target_entry_is_visible_to(const struct fgt_target_entry *entry,
				    const struct fgt_peer *peer,
				    uint64_t now_ns);
bool fgt_target_entry_is_match(const struct fgt_target_entry *entry,
			       const struct fgt_selector *selector);
/* Runs and is sampled. */
bool fgt_target_entry_is_live(const struct fgt_target_entry *entry);

#endif
