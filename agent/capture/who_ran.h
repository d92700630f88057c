/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which threads ran since the last tick? One interface, several providers,
 * best first (DESIGN §4a). A provider that the kernel helps (scheduler hooks)
 * takes the place of one that polls without a change elsewhere.
 */
#ifndef FGT_AGENT_CAPTURE_WHO_RAN_H
#define FGT_AGENT_CAPTURE_WHO_RAN_H

#include "agent/capture/threads.h"

struct fgt_who_ran {
	const char *name; /* as status shows it */

	/* One state for one target. -ENOMEM, errno of what it needs. */
	int (*open)(const struct fgt_process *process,
		    struct fgt_threads *threads, void **ret_state);
	/*
	 * Sets has_run of the threads that ran since the last call (false for
	 * all other active ones), takes down their use and puts them among the
	 * active ones. Threads found gone are marked as ended.
	 */
	void (*tick)(void *state, uint64_t now_ns);
	/*
	 * Takes down the use of one thread now: 1 if it ran since it was last
	 * taken down, 0 if not, -ESRCH if it is gone. Tells whether a snapshot
	 * is torn.
	 */
	int (*look)(void *state, struct fgt_thread *thread);
	void (*close)(void *state);
};

/* The clock of the process as a gate, then schedstat of each thread. */
extern const struct fgt_who_ran fgt_who_ran_schedstat;

/* "runtime wait switches\n", as in /proc/PID/task/TID/schedstat. -EBADMSG. */
int fgt_cpu_use_parse(const char *text, struct fgt_cpu_use *ret_use);

#endif
