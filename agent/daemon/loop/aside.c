/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of jobs that other threads ask. Runs in any thread; must not let
 * one of them wait for a process.
 */
#include "agent/daemon/loop/aside.h"

#include "ringbuf/base/heartbeat.h"
#include "ringbuf/base/owner.h"

static struct fgt_jobs *jobs; /* set before there are threads */

int fgt_aside_begin(struct fgt_loop *loop)
{
	return fgt_jobs_new_watched(loop, "thread of reads", &jobs);
}

void fgt_aside_stop(void)
{
	fgt_jobs_stop(jobs);
}

void fgt_aside_end(void)
{
	fgt_jobs_free(FGT_TAKE(jobs));
}

int fgt_aside_run(void (*run)(void *context), void *context, uint32_t uid)
{
	const struct fgt_heartbeat *own = fgt_heartbeat_of_caller();
	struct fgt_job job = { .run = run, .context = context };

	if (jobs && !(own && own->given_up))
		return fgt_jobs_ask(jobs, &job, uid);
	run(context);
	return 0;
}

void fgt_aside_give_up(struct fgt_heartbeat *heartbeat, uint64_t beat)
{
	if (jobs)
		fgt_jobs_give_up(jobs, heartbeat, beat);
}

void fgt_aside_tend(void)
{
	if (jobs)
		fgt_jobs_tend(jobs);
}
