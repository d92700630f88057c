/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler's thread and what it shares with its callers.
 */
#ifndef FGT_AGENT_CAPTURE_SAMPLING_H
#define FGT_AGENT_CAPTURE_SAMPLING_H

#include <pthread.h>

#include "agent/capture/budget/priority.h"
#include "agent/capture/lost.h"
#include "agent/capture/sampled.h"
#include "ringbuf/base/heartbeat.h"

#define FGT_TARGETS_MAX 256u

#define FGT_PACE_STEPS 6u

/* Which distance of ticks comes next (sampling_pace.c). */
struct fgt_sampling_pace {
	uint32_t random;
	uint32_t group_ticks, ticks_left; /* that have the same distance */
	uint32_t next; /* in order */
	uint8_t order[FGT_PACE_STEPS];
	int64_t balance_ns; /* of distances chosen longer than the mean */
};

/* Why a process is sampled no longer; %s: what its thread was doing. */
#define FGT_GIVEN_UP                                                            \
	"not sampled any more: %s does not return: its memory is locked, or a " \
	"file system does not answer: end that, then attach it again"

/* What the thread's calls write to. */
struct fgt_sampling_room {
	uint8_t *buffer; /* [2 * FGT_SNAPSHOT_MAX_BYTES] */
	struct fgt_frame *frames; /* as many as a stack may have */
};

/* A thread that was given up; its place is free when there is neither heartbeat
 * nor sampled. */
struct fgt_lost_thread {
	pthread_t thread;
	struct fgt_heartbeat *heartbeat; /* NULL: it has ended */
	struct fgt_sampled *sampled; /* to be freed by the sampler's thread */
	struct fgt_sampling_room room;
	struct fgt_attaching *attaching;
	struct fgt_lost process;
	const char *what; /* it was doing */
};

struct fgt_sampler {
	struct fgt_sampler_options options; /* max_cpu_percent: the mutex */
	struct fgt_image_cache *cache; /* borrowed */
	struct fgt_fd_budget budget;

	/*
	 * Protects what follows; nests inside nothing, and only a target's
	 * mutex nests inside it. changed: the thread has work, or has done it.
	 */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct fgt_sampled *targets[FGT_TARGETS_MAX];
	uint32_t target_count; /* only the thread takes any out, if it runs */
	struct fgt_capabilities capabilities;
	bool is_started, shall_stop;
	bool has_left; /* the thread is about to end */
	bool needs_thread; /* it was given up, and there is no other yet */
	bool has_taken_over; /* another thread was given up */
	struct fgt_heartbeat *heartbeat; /* the thread's; NULL: none */
	struct fgt_lost_thread lost_threads[FGT_LOST_MAX];
	struct fgt_losses losses;
	struct fgt_attaching *attaching; /* all that go on */

	/* The thread's own. */
	pthread_t thread;
	struct fgt_sampled *in_hand; /* its calls are about this target */
	uint64_t period_ns;
	const struct fgt_running *running;
	void *running_state;
	int perf_cpu_error; /* its events can never be switched on */
	struct fgt_switches *switches;
	int32_t own_tid; /* embedded only */
	int timer_fd; /* -1 where it is embedded */
	int last_pid_fd;
	uint64_t due_ns; /* when the timer fires next */
	uint64_t interval_ns; /* … and in this distance from then on */
	struct fgt_sampling_pace pace;
	uint64_t lead_ns; /* until then, from when perf's events fire */
	uint64_t delay_ns; /* from then until half of the samples are taken */
	uint64_t instant_ns; /* asked for last, of switches */
	bool is_armed;
	uint32_t timer_periods; /* from one expiration to the next */
	uint32_t periods_since_adapt;
	struct fgt_why limitation; /* of the sources that are open now */
	const char *signal_limit; /* what of it the source reported, or NULL */
	bool is_limit_logged; /* of an embedded one */
	struct fgt_sampling_room room;
	/* A copy of targets, stable during a tick. */
	struct fgt_sampled *ticking[FGT_TARGETS_MAX];
	uint32_t ticking_count;
	uint64_t period_number; /* since the start, also without targets */
	uint64_t last_ns; /* when that was */
	double max_cpu_percent;
	uint64_t cpu_ns; /* of the thread, up to where it was charged */
	uint64_t shared_ns; /* of it, for all targets alike */
	struct fgt_priority priority;
};

/* Opens what the thread needs and finds out what is permitted. -ENOMEM. */
int fgt_sampling_open(struct fgt_sampler *sampler);
void fgt_sampling_close(struct fgt_sampler *sampler);

int fgt_sampling_make_room(const struct fgt_sampler *sampler,
			   struct fgt_sampling_room *ret_room);
void fgt_sampling_free_room(struct fgt_sampling_room *room);

/* Perf's events of all CPUs, and what the kernel reports with them. */
bool fgt_sampling_has_cpu_events(const struct fgt_sampler *sampler);
/* What is permitted now takes the place of events of all CPUs that failed. */
void fgt_sampling_reopen_sources(struct fgt_sampler *sampler);
/* Of the kernel: the number of the youngest thread; -1. */
int fgt_sampling_open_last_pid(void);

/* Closes the provider of switches; targets go on with procfs. */
void fgt_sampling_drop_switches(struct fgt_sampler *sampler);

/* The thread. */
void *fgt_sampling_run(void *sampler);

/* Takes a target out; with the mutex held. It is the caller's then. */
struct fgt_sampled *fgt_sampling_remove(struct fgt_sampler *sampler,
					uint32_t index);

/*
 * ---- Threads that were given up (sampler_lost.c) ---------------------------
 */

/* fgt_sampled_new() in a thread that may be given up. */
int fgt_sampler_open_target(struct fgt_sampler *sampler, int32_t pid,
			    size_t ring_bytes, struct fgt_sampled **ret_sampled,
			    struct fgt_why *why);
/* With the mutex held: a target whose lost thread has ended, to be freed; NULL:
 * none. */
struct fgt_sampled *fgt_sampling_take_returned(struct fgt_sampler *sampler);
/* The provider of switches, and perhaps the source, are about to be closed. */
void fgt_sampling_leave_lost(struct fgt_sampler *sampler, uint64_t now_ns);

/* The calls that follow are about this target; NULL: about none. */
static inline void fgt_sampling_take_in_hand(struct fgt_sampler *sampler,
					     struct fgt_sampled *sampled)
{
	sampler->in_hand = sampled;
	fgt_heartbeat_set(sampler->heartbeat, FGT_STEP_WORK,
			  sampled ? sampled->look.process.pid : 0);
}

/* ---- One tick of one target (tick.c) ------------------------------------ */

/*
 * Begin, the samples that the source has, finish. A look at each thread returns
 * a verdict, which is written to the ring here.
 */
void fgt_tick_begin(struct fgt_sampled *sampled, const struct fgt_tick *tick);

/* Between begin and finish: a thread was on a CPU. */
void fgt_tick_sample(struct fgt_sampled *sampled, const struct fgt_tick *tick,
		     const struct fgt_running_sample *sample);
/* The kernel reported a birth, death, name, exec or mapping. */
void fgt_tick_task(struct fgt_sampled *sampled, uint32_t type,
		   const struct fgt_running_task *task);

/* Looks at all other threads and commits. False: the process has ended. */
bool fgt_tick_finish(const struct fgt_sampler *sampler,
		     struct fgt_sampled *sampled, const struct fgt_tick *tick);

/* Is there anything for the next function to do? */
static inline bool fgt_sampled_may_lack_maps(const struct fgt_sampled *sampled)
{
	const struct fgt_stacks *stacks = &sampled->look.stacks;

	return sampled->lacking.next || stacks->is_late ||
	       sampled->lacking.generation != stacks->generation;
}

/* Threads whose stacks led where no mapping was known (tick_lacking.c). */
void fgt_tick_look_where_maps_lacked(struct fgt_sampled *sampled,
				     const struct fgt_tick *tick);

/* It has begun, and its looks are not to be had any more: threads that have not
 * been looked at are marked. */
void fgt_tick_abandon(struct fgt_sampled *sampled);

/* ---- Perf (sampling_drain.c) ------------------------------------------- */

/* Samples, births, deaths and mappings since the last time. */
void fgt_sampling_drain(struct fgt_sampler *sampler,
			const struct fgt_tick *tick);
/* Throws away what the source has, in whatever state its last drain was
 * left. */
void fgt_sampling_discard(struct fgt_sampler *sampler);
/* After that tick: waits at most a millisecond for samples that it asked for
 * and whose stacks go on beyond them. */
void fgt_sampling_drain_awaited(struct fgt_sampler *sampler,
				const struct fgt_tick *tick);
/* What an embedded one cannot do, from the beginning or since the program has
 * taken its signal back or uses io_uring, is logged once. */
void fgt_sampling_check_signal(struct fgt_sampler *sampler, uint64_t now_ns);

/* ---- Rates and costs (sampling_rate.c) ---------------------------------- */

/*
 * A period of the sampler begins, the number period: is the target ticked in
 * it? Then also takes over the rate that is wanted.
 */
bool fgt_sampling_take_turn(struct fgt_sampled *sampled, uint64_t period);
/* What all targets share, as it is for this one: tick, rate, what it missed. */
struct fgt_tick fgt_sampling_tick_of(const struct fgt_sampled *sampled,
				     const struct fgt_tick *shared);

/* CPU time of this thread since it was last asked for. */
uint64_t fgt_sampling_take_cpu(struct fgt_sampler *sampler);
/* Charges each target an equal part of what was spent for all of them: as cost
 * of a tick if one was due, else as cost that no lower rate saves. */
void fgt_sampling_charge_shared(struct fgt_sampler *sampler);
/* Almost all of it goes into samples. */
void fgt_sampling_charge_drain(struct fgt_sampler *sampler, uint64_t cost_ns);
/* After a tick: charges it, lowers or raises the rate, and logs that. */
void fgt_sampling_decide_rate(struct fgt_sampler *sampler,
			      struct fgt_sampled *sampled,
			      const struct fgt_tick *tick);

/* ---- The timer (sampling_timer.c) -------------------------------------- */

/*
 * Sets perf's events, the reports of switches and the timer going. Fails only
 * where the events of all CPUs are open and cannot be switched on: its errno.
 */
int fgt_sampling_arm(struct fgt_sampler *sampler);
void fgt_sampling_disarm(struct fgt_sampler *sampler);

/* After a tick: after the last one of a group the next group begins, in
 * another distance. */
void fgt_sampling_change_pace(struct fgt_sampler *sampler);

/*
 * A sample of perf's was taken at taken_ns (CLOCK_MONOTONIC). The interrupts of
 * a virtual machine come some 0.05 ms late, in which threads go on.
 */
void fgt_sampling_note_delay(struct fgt_sampler *sampler, uint64_t taken_ns);

/* What threads do at this time (CLOCK_MONOTONIC) is shown at the tick that is
 * due. In the middle of when samples are taken: a thread that runs for less
 * than the distance to its sample has none. */
uint64_t fgt_sampling_instant(const struct fgt_sampler *sampler);

/* So many ticks were due since the one before: the periods that the present one
 * counts, those that were missed among them. */
uint64_t fgt_sampling_expire(struct fgt_sampler *sampler, uint64_t expirations);

/* Until the next tick is due; how many are by then. False: ask again. */
bool fgt_sampling_wait(const struct fgt_sampler *sampler,
		       uint64_t *ret_expirations);

/* ---- The distance of ticks (sampling_pace.c) ----------------------------- */

/* seed: any number. cpus: that have perf events, 0: none. */
void fgt_sampling_pace_init(struct fgt_sampling_pace *pace, uint32_t seed,
			    long cpus);
/* The distance of the next pace->ticks_left ticks; period_ns on average. */
uint64_t fgt_sampling_pace_next(struct fgt_sampling_pace *pace,
				uint64_t period_ns);

/* Where all targets are ticked rarely, the timer expires more rarely, too. */
void fgt_sampling_choose_timer_periods(struct fgt_sampler *sampler);

/*
 * First instant at which to tick: delay_ns after an instant that is a whole
 * number of periods after enabled_ns, and not before now_ns.
 */
uint64_t fgt_sampling_phase(uint64_t enabled_ns, uint64_t now_ns,
			    uint64_t period_ns, uint64_t delay_ns);

#endif
