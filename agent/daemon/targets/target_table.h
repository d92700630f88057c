/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For this room only: the list of processes that are sampled, were sampled, or
 * cannot be (their identity, their causes, their owners); what puts a process
 * under the sampler and into the list and takes it out again (targets.c and
 * target_verb.c decide which); and how a process matches a rule.
 *
 * Runs in the thread of jobs; what target_list.c calls runs in the loop's, too,
 * under the lock of struct fgt_targets. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_TARGETS_TARGET_TABLE_H
#define FGT_AGENT_DAEMON_TARGETS_TARGET_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/daemon/socket/control.h"
#include "agent/daemon/socket/permission.h"
#include "agent/daemon/targets/targets.h"
#include "ringbuf/slice/slice.h"

#define FGT_TARGET_TABLE_MAX 1536 /* entries, those without a ring included */
/* Those without a ring, so that there is always an entry for a ring: as many as
 * the sampler has places, and those of ended processes. */
#define FGT_TARGET_NOTES_MAX 1152

enum fgt_origin {
	FGT_ORIGIN_ATTACHED,
	FGT_ORIGIN_CONFIGURED,
	FGT_ORIGIN_CHILD,
	FGT_ORIGIN_REGISTERED, /* by the process itself */
};

/* "attached", "configured", "child", "registered" */
const char *fgt_origin_name(enum fgt_origin origin);

struct fgt_target_entry {
	int32_t pid;
	int32_t parent_pid; /* of a child: the target that it came with; of
			     * others the process, as it was attached */
	uint64_t start_time;
	struct fgt_target *target; /* a reference; NULL: cannot be sampled,
				    * or was detached by hand */
	size_t ring_bytes; /* of its ring, at most */
	enum fgt_origin origin;
	bool is_with_children;
	uint32_t registered; /* how many of its connections stay open; jobs
			      * only */
	uint32_t charged_uid; /* the ordinary user who added it to a daemon
			       * that is not its own, 0 */
	uint64_t ended_ns; /* when it was seen to have ended, 0 */
	uint64_t retry_ns; /* without target: when to try again */
	bool is_new; /* fgt_attaching_settle() has not seen it; jobs only */
	bool is_seen; /* marks of a scan */
	bool is_wanted;
};

/* Embedded; pointers into it hold until the next _add or _remove. */
struct fgt_target_table {
	struct fgt_target_entry *entries;
	size_t count, capacity;
};

/* attach NAME: each process of this name that the user could trace. */
struct fgt_name_rule {
	char name[FGT_REQUEST_NAME + 1];
	struct fgt_peer peer; /* whose user asked */
	bool is_with_children;
};

struct fgt_targets {
	struct fgt_sampler *sampler;
	struct fgt_jobs *jobs;
	const struct fgt_config *config; /* NULL until the first rules */
	uint64_t kept_ns;
	uint64_t memory_limit; /* of this process: fgt_memory_limit() */
	atomic_bool is_leaving; /* relaxed: only ends the work sooner */
	/* Processes that could not be attached, without a line in
	 * the log. Jobs only. */
	struct fgt_targets_unlogged {
		uint32_t lines; /* that others have got in this scan */
		uint32_t noted; /* since the last line about them */
		uint32_t placeless; /* in this scan: no entry is left */
		int32_t pid; /* the last one */
		struct fgt_why why;
		uint64_t quiet_until_ns; /* no line before */
	} unlogged;
	struct fgt_target_table table;
	struct fgt_name_rule names[FGT_TARGETS_NAMES_MAX];
	size_t name_count;
	/*
	 * For the table and the names. Jobs are their one writer: they take the
	 * lock to write and read without it. Only a target's mutex nests
	 * inside.
	 */
	pthread_mutex_t lock;
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
/* May there be one more entry without a ring? */
bool fgt_target_table_has_place(const struct fgt_target_table *table);
/* Puts its target; the last entry takes its place. */
void fgt_target_table_remove(struct fgt_target_table *table, size_t index);

/* Children go with the target that they came with: those of an unwanted entry
 * become unwanted too, and theirs. */
void fgt_target_table_unwant_children(struct fgt_target_table *table);

bool fgt_target_entry_is_match(const struct fgt_target_entry *entry,
			       const struct fgt_selector *selector);
/* Runs and is sampled. */
bool fgt_target_entry_is_live(const struct fgt_target_entry *entry);
/* Its process is still there, at this moment. */
bool fgt_target_entry_is_running(const struct fgt_target_entry *entry);
/* May the peer see any of it, by what is true now? It has a target. */
bool fgt_target_entry_is_visible(const struct fgt_target_entry *entry,
				 const struct fgt_peer *peer);

/* ---- Attaching and detaching ------------------------------------------- */

/* Why an entry is made. */
struct fgt_attach_cause {
	enum fgt_origin origin;
	int32_t parent_pid;
	bool is_with_children;
	uint32_t charged_uid; /* as in the entry */
	struct fgt_peer peer; /* of _ATTACHED: whose user asked */
};

/* All of them: as jobs only. */

/*
 * start_time: the process that is meant. -ESRCH it has ended, -ENOSPC too many
 * targets or rings, -ESHUTDOWN, the sampler's errors; why is set. Of _ATTACHED
 * also -ENXIO, without why: the user could not trace it; and -ENOSPC:
 * FGT_TARGETS_PER_USER processes of the user are sampled already.
 */
int fgt_attaching_process(struct fgt_targets *targets, int32_t pid,
			  uint64_t start_time,
			  const struct fgt_attach_cause *cause,
			  struct fgt_why *why);

/* At the end of a job that has attached: waits once for the first tick of them
 * all. Those that it has given up are dropped; how many, with the why. */
size_t fgt_attaching_settle(struct fgt_targets *targets, struct fgt_why *why);

/* For rules and children: a failure is logged once, and the process is tried
 * again a minute later. Where there are too many such it is tried by each scan.
 * True: it is sampled now. */
bool fgt_attaching_found(struct fgt_targets *targets, int32_t pid,
			 uint64_t start_time,
			 const struct fgt_attach_cause *cause, uint64_t now_ns);

/* At the end of a scan: failures beyond the first ones, as one line a minute. */
void fgt_attaching_log_others(struct fgt_targets *targets, uint64_t now_ns);

/* Ends the sampling; the entry stays. */
void fgt_attaching_stop(struct fgt_targets *targets,
			const struct fgt_target_entry *entry,
			const char *reason);
/* The last entry takes its place. */
void fgt_attaching_remove(struct fgt_targets *targets, size_t index);

/* The entry at an index of the table leaves, with its ring; a rule does not
 * bring it back before the next configuration. reason: for the log. */
void fgt_attaching_detach(struct fgt_targets *targets, size_t index,
			  const char *reason);

/* ---- Memory and places (target_room.c) ----------------------------------- */

/* Bytes that all rings together may have. limit: of the process. */
uint64_t fgt_target_room_total(const struct fgt_config *config, uint64_t limit);

/*
 * As a job: how large the ring of a new target may be. Rings of ended programs
 * make room for it: the user's own, then other ordinary users'. -ENOSPC: the
 * user has as many or as much as it may have, with why.
 */
int fgt_target_room_take(struct fgt_targets *targets, int32_t pid,
			 uint64_t start_time,
			 const struct fgt_attach_cause *cause,
			 size_t *ret_ring_bytes, struct fgt_why *why);

/* As a job: drops rings that were kept long enough, and the oldest where there
 * are too many. */
void fgt_target_room_drop_ended(struct fgt_targets *targets, uint64_t now_ns);

/* ---- Does a process match? ---------------------------------------------- */

/*
 * name is the process's name (comm, which the kernel cuts at 15 bytes) or the
 * last part of its executable's path. exe may be "".
 */
bool fgt_rule_is_name(const char *name, const char *comm, const char *exe);

/* A pid only matches the process that had it when the rule was made: false
 * for rules of a pid. */
bool fgt_rule_is_match(const struct fgt_config_target *rule,
		       const struct fgt_process_info *info);

/* Is text, the whole of a /proc/PID/cgroup, in cgroup or below it? */
bool fgt_rule_is_cgroup(const char *cgroup, const char *text);

#endif
