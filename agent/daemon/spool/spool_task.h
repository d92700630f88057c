/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the spooler share; only these include it. A task is one
 * entry that is kept or sent, or work on the whole spool.
 *
 * Runs in the loop's thread. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_SPOOL_SPOOL_TASK_H
#define FGT_AGENT_DAEMON_SPOOL_SPOOL_TASK_H

#include "agent/daemon/spool/spool_work.h"
#include "agent/daemon/spool/spooler.h"

struct fgt_spool_task {
	struct fgt_spool_work work; /* first: it is the job's context */
	struct fgt_spooler *spooler;
	struct fgt_timer timer; /* of one that is kept later */
	struct fgt_delivery_kept kept; /* of an _ADD; fd: in work */
	uint64_t bytes;
	unsigned int tries;
	LIST_ENTRY(fgt_spool_task) link;
};

struct fgt_spooler {
	struct fgt_loop *loop;
	struct fgt_deliveries *deliveries;
	struct fgt_jobs *jobs; /* NULL: there is no spool */
	struct fgt_spool_store store; /* the thread's */
	char *path;
	struct fgt_backlog backlog;
	struct fgt_delivery_keeper keeper;
	LIST_HEAD(, fgt_spool_task) tasks;
	struct fgt_timer tick;
	unsigned int ticks, at_work, sent, kept;
	uint64_t kept_bytes, spooled, delivered, failed;
	uint64_t dropped[FGT_SPOOL_DROPS];
	uint64_t unwritten; /* given up before they were on the disk */
	struct fgt_why why; /* why it is not open, or cannot be read */
	struct fgt_why last_error; /* of the disk, or a drop */
	uint64_t last_error_ns; /* wall clock */
	bool is_open, is_leaving;
	bool is_paused; /* until the next tick */
};

/* NULL without memory. */
struct fgt_spool_task *fgt_spool_task_new(struct fgt_spooler *spooler,
					  enum fgt_spool_work_kind kind);
void fgt_spool_task_free(struct fgt_spool_task *task);
void fgt_spool_task_submit(struct fgt_spool_task *task);
/* The same entry, for something else. */
void fgt_spool_task_resubmit(struct fgt_spool_task *task,
			     enum fgt_spool_work_kind kind);
/* What the status shows as the last error, now. */
void fgt_spooler_note_error(struct fgt_spooler *spooler,
			    const struct fgt_why *why);
/* On the loop, after the work; context: the task. */
void fgt_spool_task_done(void *context);

/* spooler_send.c: sends what may be sent now. */
void fgt_spooler_send_next(struct fgt_spooler *spooler);
/* The file of an entry is open, or cannot be opened. */
void fgt_spooler_hold_done(struct fgt_spool_task *task);

/* spooler_keep.c: a delivery has been encoded; context: the spooler. */
void fgt_spooler_keep(void *context, const struct fgt_delivery_kept *kept);
/* It is in the spool, or cannot be written. */
void fgt_spooler_add_done(struct fgt_spool_task *task);

#endif
