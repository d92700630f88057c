/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which threads ran since the last tick? One interface, several providers,
 * best first. A provider that the kernel helps (scheduler hooks)
 * takes the place of one that polls without a change elsewhere.
 *
 * Runs in the sampler's thread, except that the thread that attaches a target
 * opens its provider. MT-Unsafe for one target | AS-Unsafe
 */
#ifndef FGT_AGENT_CAPTURE_WHO_RAN_WHO_RAN_H
#define FGT_AGENT_CAPTURE_WHO_RAN_WHO_RAN_H

#include "agent/capture/threads/thread_table.h"
#include "agent/capture/who_ran/switches.h"

struct fgt_who_ran {
	const char *name; /* as status shows it */

	/* One state for one target; switches: NULL where the kernel does not
	 * report them. -ENOMEM, errno of what it needs. */
	int (*open)(const struct fgt_process *process,
		    struct fgt_thread_table *threads,
		    struct fgt_switches *switches, void **ret_state);
	/*
	 * Sets has_run of the threads that ran since the last call (false for
	 * all other active ones), takes down their use and puts them among the
	 * active ones. Threads found gone are marked as ended. Negative errno:
	 * this provider cannot go on with this target.
	 */
	int (*tick)(void *state, uint64_t now_ns);
	/*
	 * Takes down the use of one thread now: 1 if it ran since it was last
	 * taken down, 0 if not, -ESRCH if it is gone. Shows whether a snapshot
	 * is torn.
	 */
	int (*look)(void *state, struct fgt_thread *thread);
	/*
	 * Threads that ended before they were known, since some time before:
	 * differences count. threads is 0 where they are not counted, and
	 * cpu_ns then includes what other threads used between their last look
	 * and their end. False: not known.
	 */
	bool (*read_brief)(void *state, struct fgt_switch_brief *ret_brief);
	/* The use is exact at any instant, also of a thread on a CPU. */
	bool is_exact;
	/* tick() lists the threads itself, when one may have come or gone. */
	bool has_scan;
	/* A thread is about to be freed. NULL: nothing is kept of it. */
	void (*forget)(void *state, struct fgt_thread *thread);
	void (*close)(void *state);
};

/* The clock of the process as a gate, then schedstat of each thread. */
extern const struct fgt_who_ran fgt_who_ran_schedstat;

/* The same by the CPU clocks of threads, of which no descriptor need be kept:
 * for a process that samples itself. */
extern const struct fgt_who_ran fgt_who_ran_clock;

/* The kernel reports each context switch; needs perf events of every CPU for
 * the stacks of threads that are on one. */
extern const struct fgt_who_ran fgt_who_ran_switches;
/* Before the ticks of all targets that it provides for: takes what changed. */
void fgt_who_ran_take_switches(struct fgt_switches *switches);

/* ---- /proc/PID/task/TID/schedstat --------------------------------------- */

/* "runtime wait switches\n". -EBADMSG. */
int fgt_cpu_use_parse(const char *text, struct fgt_cpu_use *ret_use);

/* Keeps the file open as far as the budget goes. -ESRCH: the thread is gone;
 * -EBADMSG, errno of open and read. */
int fgt_schedstat_read(const struct fgt_thread_table *threads,
		       struct fgt_thread *thread, struct fgt_cpu_use *ret_use);

#endif
