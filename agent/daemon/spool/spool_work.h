/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on the spool's disk, on a thread that may wait for it: one job each,
 * with what the spool's entries were, became and lost meanwhile.
 */
#ifndef FGT_AGENT_DAEMON_SPOOL_SPOOL_WORK_H
#define FGT_AGENT_DAEMON_SPOOL_SPOOL_WORK_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/daemon/loop/loop.h"
#include "upload/deliver/spool/backlog.h"
#include "upload/deliver/spool/spooled.h"

/* What an entry did. */
struct fgt_spool_event {
	bool is_gone; /* else it is there since then */
	enum fgt_spool_drop reason; /* of one that is gone */
	struct fgt_backlog_entry entry;
	char name[FGT_BACKLOG_NAME]; /* of its destination; "" if gone */
};

/* The thread's, except when no job is there. */
struct fgt_spool_store {
	struct fgt_spool_options options; /* callbacks are set here */
	struct fgt_spool *spool; /* NULL: not open */
	struct fgt_spool_work *work; /* that runs */
};

enum fgt_spool_work_kind {
	FGT_SPOOL_WORK_OPEN,
	FGT_SPOOL_WORK_ADD, /* pieces of fd, see delivery_pieces.h */
	FGT_SPOOL_WORK_HOLD, /* fd: the entry's file afterwards */
	FGT_SPOOL_WORK_RELEASE,
	FGT_SPOOL_WORK_REMOVE,
	FGT_SPOOL_WORK_CONDEMN,
	FGT_SPOOL_WORK_LOOK, /* for other processes' entries; ages */
};

struct fgt_spool_work {
	struct fgt_job job; /* done and context are the owner's */
	struct fgt_spool_store *store;
	enum fgt_spool_work_kind kind;
	struct fgt_spool_id id; /* of _HOLD, _RELEASE, _REMOVE, _CONDEMN */
	int fd; /* -1: none */
	/* For _ADD: where it goes, and as which user. */
	char name[FGT_BACKLOG_NAME];
	uint32_t uid, gid;
	struct fgt_payload_head head; /* of _HOLD, afterwards */

	/* Afterwards. It did not run: -ECANCELED. */
	int result;
	struct fgt_why why;
	bool is_flush_wanted; /* of _LOOK */
	struct fgt_spool_event *events;
	size_t event_count, event_capacity;
	uint64_t events_lost; /* for lack of memory */
};

/* Sets job.run, and what is above for the kind; the owner sets the rest. */
void fgt_spool_work_init(struct fgt_spool_work *work,
			 struct fgt_spool_store *store,
			 enum fgt_spool_work_kind kind);
/* Closes what it has. */
void fgt_spool_work_done(struct fgt_spool_work *work);

#endif
