/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watchdog of the daemon's threads, with what it does for the sampler's and
 * that of the jobs; what the log has about children.
 */
#ifndef FGT_AGENT_DAEMON_WATCH_H
#define FGT_AGENT_DAEMON_WATCH_H

#include "agent/capture/sampler.h"
#include "agent/daemon/loop/loop.h"
#include "agent/daemon/loop/watchdog.h"

/* Borrowed. */
struct fgt_watched_parts {
	struct fgt_sampler *sampler;
	struct fgt_jobs *jobs;
};

/* Starts it; both are borrowed. -ENOMEM, -EAGAIN. */
int fgt_daemon_watch(struct fgt_watched_parts *parts,
		     const struct fgt_notify *notify,
		     struct fgt_watchdog **ret_watchdog);

/* Before there are threads: readers can be asked, and the log has what becomes
 * of children. */
void fgt_children_begin(void);
/* The daemon leaves: a service manager ends its children, too. */
void fgt_children_leave(void);
/* Ends the readers. */
void fgt_children_done(void);

#endif
