/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What looks at the threads of one target need, at each tick and between
 * ticks. Belongs to the sampler's thread.
 */
#ifndef FGT_AGENT_CAPTURE_LOOK_LOOK_TARGET_H
#define FGT_AGENT_CAPTURE_LOOK_LOOK_TARGET_H

#include "agent/capture/look/look_thread.h"
#include "agent/capture/look/verdict.h"
#include "agent/capture/running/running.h"
#include "agent/capture/stacks/stacks.h"
#include "agent/capture/who_ran/who_ran.h"

/* One tick of one target. */
struct fgt_tick {
	uint64_t mono_ns, wall_ns;
	uint64_t number; /* of the target's tick */
	uint64_t missed; /* ticks before it that the sampler was too late for */
	uint64_t instant_ns; /* that it reports, where switches are known */
	uint64_t period_ns; /* that a tick of the target stands for */
	uint64_t event_ns; /* of CPU time, between samples of one thread */
	uint64_t timer_ns; /* the sampler's period */
	/* [FGT_SNAPSHOT_MAX_BYTES] each: a stack, and the one that a signal
	 * interrupted whose handler has its own. */
	uint8_t *buffer, *other_buffer;
	struct fgt_frame *frames; /* of the look that goes on */
	const struct fgt_running *running;
	void *running_state;
	/* Samples come at ticks, of every thread that is on a CPU, and with
	 * them the kernel's reports of births, names and mappings. */
	bool has_cpu_events;
};

struct fgt_look {
	struct fgt_process process;
	struct fgt_fd_budget *budget; /* the sampler's */
	struct fgt_thread_table threads;
	struct fgt_stacks stacks;
	const struct fgt_who_ran *who_ran;
	void *who_ran_state;
	struct fgt_switches *switches; /* the sampler's; NULL: not by these */

	uint64_t tick; /* number */
	uint64_t tick_ns, elapsed_ns; /* its instant, and since the last one */
	uint32_t random; /* see look_runnable.c */
	bool is_embedded; /* this very process */
	bool is_slowed; /* the rate is lowered: ticks are far apart */
	bool is_readable;
	bool is_traced; /* by a debugger */
	bool is_stop_possible; /* some thread may be stopped: ask each */
	uint64_t stop_tick; /* when that was last asked */
	int leader_stat_fd;

	/* Counted for the status. */
	uint64_t samples_running, samples_blocked; /* stacks read */
	uint64_t torn; /* thrown away: the thread moved meanwhile */
	uint64_t credited_ticks;
	uint64_t stopped_ns; /* threads were stopped, not yet charged */
};

/*
 * A kept stack in that state, below a leaf marker unless that is 0. If there is
 * none of these images: the stack that the ring has, below a marker that
 * names the reason.
 */
struct fgt_verdict fgt_look_kept(const struct fgt_look *target,
				 const struct fgt_kept_stack *kept,
				 uint32_t state, enum fgt_marker leaf);

#endif
