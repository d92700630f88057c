/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler's side of a target: everything that its ticks need. Only the
 * sampler's thread touches it once the target has been handed over; what
 * others may see is in status, behind the mutex.
 */
#ifndef FGT_AGENT_CAPTURE_TARGET_SAMPLING_H
#define FGT_AGENT_CAPTURE_TARGET_SAMPLING_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/capture/budget/governor.h"
#include "agent/capture/running/running.h"
#include "agent/capture/sampler.h"
#include "agent/capture/stacks.h"
#include "agent/capture/target.h"
#include "agent/capture/who_ran/who_ran.h"

/* What all targets of one sampler share at a tick. */
struct fgt_tick {
	uint64_t mono_ns, wall_ns;
	uint64_t number; /* of the target's tick */
	uint64_t missed; /* ticks that the sampler was too late for */
	uint64_t instant_ns; /* that it tells of, where switches tell */
	uint64_t period_ns; /* that a tick of the target stands for */
	uint64_t event_ns; /* of CPU time, between samples of one thread */
	uint64_t timer_ns; /* the sampler's period */
	int64_t last_pid; /* see fgt_thread_table_scan() */
	int last_pid_fd;
	/* [FGT_SNAPSHOT_MAX_BYTES] each: a stack, and the one that a signal
	 * interrupted whose handler has its own. */
	uint8_t *buffer, *other_buffer;
	const struct fgt_running *running;
	void *running_state;
	/* Samples come at ticks, of every thread that is on a CPU, and with
	 * them the kernel's reports of births, names and mappings. */
	bool has_cpu_events;
	struct fgt_switches *switches; /* NULL: not permitted, not wanted */
	int32_t own_tid; /* of the sampler, where it is embedded; else 0 */
	const char *limitation; /* what is not permitted here, or "" */
	void (*explain)(void *context, int32_t pid, const char *text);
	void *context;
};

/* When a target is ticked, and at what cost; see pacing.h. */
struct fgt_pacing {
	struct fgt_governor governor;
	uint32_t periods; /* that each of its ticks stands for */
	uint64_t due_period; /* number of the sampler's period of its next */
	bool is_due; /* ticked in this period */
	uint64_t missed; /* ticks before it */
	uint32_t samples; /* taken from perf in this period */
	uint64_t stopped_ns; /* its threads stood still for us */
	bool is_exceeded_told;
};

struct fgt_target {
	atomic_uint references;
	struct fgt_process process;
	struct fgt_ring *ring;
	struct fgt_fd_budget *budget; /* the sampler's; NULL after the end */

	struct fgt_thread_table threads;
	struct fgt_stacks stacks;
	/* Threads whose stacks lacked maps; see look_where_maps_lacked(). */
	struct {
		uint64_t generation; /* of stacks, at their last look */
		uint32_t next; /* in threads.table, while it goes on */
		bool has_found;
		uint64_t begun_ns, pause_ns;
	} lacking;
	const struct fgt_who_ran *who_ran;
	void *who_ran_state;
	/* Who ran by procfs or clocks: always there to fall back to. */
	const struct fgt_who_ran *polling;
	void *polling_state;
	struct fgt_switches *switches; /* the sampler's; NULL: not by these */
	bool has_no_switches; /* they cannot be had for this target */
	const struct fgt_running *running; /* the sampler's */
	void *running_state;
	bool is_embedded; /* this very process */
	uint64_t faults; /* of pages, when its maps were last read */
	int memory_fd; /* /proc/PID/mem: reads nothing after an exec */
	uint64_t memory_probe; /* an address that it can read */

	struct fgt_pacing pacing;
	uint64_t tick; /* number */
	uint64_t tick_ns, elapsed_ns; /* its instant, and since the last one */
	uint32_t random; /* see look_runnable.c */
	uint64_t chores_ns; /* when the once-a-second work was done */
	bool has_run; /* any thread, since the last chores */
	bool is_readable;
	bool is_traced; /* by a debugger */
	bool is_stop_possible; /* some thread may be stopped: ask each */
	uint64_t stop_tick; /* when that was last asked */
	int leader_stat_fd;
	bool has_exec; /* the kernel told of one */
	bool is_explained;
	bool lacks_fds; /* as was explained last: see target_fds.h */
	const char *fds_limit; /* there was none left; NULL: there is */
	uint64_t claimed_ns; /* when it was last seen how many may be kept */
	/* Guarded by the sampler's mutex. */
	bool is_detached, has_ticked;
	uint64_t rate_ticks; /* for effective_hz */

	int spans_fd; /* memfd of what it says of itself, -1 */

	/* Protects status, limitation and spans_fd; nests inside nothing. */
	pthread_mutex_t mutex;
	struct fgt_target_status status;
	struct fgt_target_status work; /* the sampler's copy */
	bool has_new_texts; /* some of work's may not be in status */
};

/*
 * Opens a process as a target: checks access, makes the ring, reads the maps.
 * -ESRCH, -EPERM/-EACCES, -EINVAL, -ENOMEM with why.
 */
int fgt_target_new(int32_t pid, const struct fgt_sampler_options *options,
		   struct fgt_image_cache *cache, struct fgt_fd_budget *budget,
		   struct fgt_target **ret_target, struct fgt_why *why);

/* Lets go of everything but the ring and the status: the target has ended or
 * is no longer sampled. Sampler's thread, or before it was handed over. */
void fgt_target_stop(struct fgt_target *target, uint64_t now_ns, bool is_alive);

/* Shows what the ticks have counted in work to others; the texts, which are
 * too much for each tick, if they are new. */
void fgt_target_publish(struct fgt_target *target);

/* After an exec or a change of user: who is it now, may it be read? */
void fgt_target_reread(struct fgt_target *target, const struct fgt_tick *tick,
		       bool is_exec);

/* Who ran is told by the kernel from now on, if it can be; or no longer. */
void fgt_target_take_switches(struct fgt_target *target,
			      struct fgt_switches *switches, uint64_t now_ns);
void fgt_target_leave_switches(struct fgt_target *target, uint64_t now_ns);

/* Says something about a target once. */
void fgt_target_explain(struct fgt_target *target, const struct fgt_tick *tick,
			const char *text);

#endif
