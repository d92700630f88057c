/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds the watchdog to the sampler. Runs in the watchdog's thread.
 */
#include "agent/daemon/watch.h"

static void give_up(void *context, struct fgt_heartbeat *heartbeat,
		    uint64_t beat)
{
	fgt_sampler_give_up(context, heartbeat, beat);
}

static void tend(void *context)
{
	fgt_sampler_tend(context);
}

int fgt_daemon_watch(struct fgt_sampler *sampler,
		     const struct fgt_notify *notify,
		     struct fgt_watchdog **ret_watchdog)
{
	const struct fgt_watchdog_options options = {
		.notify = notify,
		.give_up = give_up,
		.tend = tend,
		.context = sampler,
	};

	return fgt_watchdog_new(&options, ret_watchdog);
}
