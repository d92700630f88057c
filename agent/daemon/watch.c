/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds the watchdog to the threads that it may give up. Runs in the watchdog's
 * thread.
 */
#include "agent/daemon/watch.h"

#include "agent/daemon/loop/aside.h"

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
