/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds the watchdog to the threads that it may give up, and children to the
 * log. Runs in the watchdog's thread, and in those that have a child.
 */
#include "agent/daemon/watch.h"

#include "agent/children/child_ends.h"
#include "agent/daemon/loop/aside.h"
#include "agent/daemon/loop/log.h"
#include "agent/files/open_file.h"

static void give_up(void *context, struct fgt_heartbeat *heartbeat,
		    uint64_t beat)
{
	const struct fgt_watched_parts *parts = context;

	fgt_sampler_give_up(parts->sampler, heartbeat, beat);
	fgt_jobs_give_up(parts->jobs, heartbeat, beat);
	fgt_aside_give_up(heartbeat, beat);
}

static void tend(void *context)
{
	const struct fgt_watched_parts *parts = context;

	fgt_sampler_tend(parts->sampler);
	fgt_jobs_tend(parts->jobs);
	fgt_aside_tend();
	fgt_child_ends_look();
}

int fgt_daemon_watch(struct fgt_watched_parts *parts,
		     const struct fgt_notify *notify,
		     struct fgt_watchdog **ret_watchdog)
{
	const struct fgt_watchdog_options options = {
		.notify = notify,
		.give_up = give_up,
		.tend = tend,
		.context = parts,
	};

	return fgt_watchdog_new(&options, ret_watchdog);
}

static void explain_end(const char *text)
{
	fgt_log(FGT_LOG_WARNING, "child_ended", "%s", text);
}

static void explain_files(uint32_t uid, const char *text)
{
	(void)uid;
	fgt_log(FGT_LOG_WARNING, "files_refused", "%s", text);
}

void fgt_children_begin(void)
{
	fgt_child_ends_watch(explain_end);
	fgt_reader_begin(explain_files);
}

void fgt_children_leave(void)
{
	fgt_child_ends_watch(NULL);
}

void fgt_children_done(void)
{
	fgt_reader_end();
}
