/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of the daemon's loop: work that may take a second (attaching, detaching,
 * looking through the process table) runs on one thread, in order.
 */
#ifndef FGT_AGENT_DAEMON_LOOP_JOBS_H
#define FGT_AGENT_DAEMON_LOOP_JOBS_H

#include <stdbool.h>
#include <sys/queue.h>

#include "agent/daemon/loop/loop.h"
#include "ringbuf/base/owner.h"

struct fgt_jobs;

/* Embedded by its owner, which must not touch it until done or a withdrawal. */
struct fgt_job {
	void (*run)(void *context); /* on the thread of jobs */
	void (*done)(void *context); /* on the loop; may free the job */
	void *context;
	STAILQ_ENTRY(fgt_job) link;
};

/* Starts the thread. -ENOMEM, -EAGAIN. */
int fgt_jobs_new(struct fgt_loop *loop, struct fgt_jobs **ret_jobs);
/* Waits for the one that runs; those that have not begun are done unrun. */
void fgt_jobs_free(struct fgt_jobs *jobs);
FGT_DEFINE_AUTO(struct fgt_jobs *, fgt_jobs_free);

/* The loop's thread only. The owner bounds how many there are. */
void fgt_jobs_submit(struct fgt_jobs *jobs, struct fgt_job *job);
/* True: it had not begun, and will neither run nor be done. */
bool fgt_jobs_withdraw(struct fgt_jobs *jobs, struct fgt_job *job);

#endif
