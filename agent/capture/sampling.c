/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler's thread: waits for the timer, ticks all targets.
 *
 * Perf's events and the timer run with the same period on the same clock, so
 * they keep their distance: the timer is set a little after the events, and
 * the samples of a tick are there when it runs. The period changes with each
 * group of ticks: sampling_pace.c.
 */
#include "agent/capture/sampling.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture/waits/pressures.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd.h"

#define SECOND_NS 1000000000u

/* ---- The tick ---------------------------------------------------------- */

/* Once for all targets; the only one of an embedded sampler asks itself. */
static int64_t read_last_pid(const struct fgt_sampler *sampler)
{
	if (fgt_sampling_has_cpu_events(sampler))
		return 0;
	if (sampler->options.is_embedded)
		return FGT_LAST_PID_ASK;
	return fgt_thread_table_last_pid(sampler->last_pid_fd);
}

static struct fgt_tick make_tick(const struct fgt_sampler *sampler)
{
	return (struct fgt_tick){
		.mono_ns = fgt_clock_ns(CLOCK_MONOTONIC),
		.wall_ns = fgt_clock_ns(CLOCK_REALTIME),
		.instant_ns = sampler->instant_ns,
		.fired_ns = fgt_sampling_instant(sampler),
		.period_ns = sampler->period_ns,
		.timer_ns = sampler->period_ns,
		.last_pid = read_last_pid(sampler),
		.buffer = sampler->room.buffer,
		.other_buffer = sampler->room.buffer + FGT_SNAPSHOT_MAX_BYTES,
		.frames = sampler->room.frames,
		.running = sampler->running,
		.running_state = sampler->running_state,
		.has_cpu_events = fgt_sampling_has_cpu_events(sampler),
	};
}

struct fgt_sampled *fgt_sampling_remove(struct fgt_sampler *sampler,
					uint32_t index)
{
	struct fgt_sampled *sampled = sampler->targets[index];

	sampler->targets[index] = sampler->targets[--sampler->target_count];
	return sampled;
}

/* The target has ended, or is no longer sampled. */
static void let_go(struct fgt_sampler *sampler, struct fgt_sampled *sampled,
		   bool is_alive)
{
	fgt_sampling_take_in_hand(sampler, sampled);
	fgt_sampled_stop(sampled, fgt_clock_ns(CLOCK_MONOTONIC), is_alive);
	fgt_sampling_take_in_hand(sampler, NULL);
	pthread_mutex_lock(&sampler->mutex);
	for (uint32_t i = 0; i < sampler->target_count; i++)
		if (sampler->targets[i] == sampled)
			fgt_sampling_remove(sampler, i);
	pthread_cond_broadcast(&sampler->changed);
	pthread_mutex_unlock(&sampler->mutex);
	fgt_sampled_free(sampled);
}

/* Those whose rate is lowered sit out most periods. False: all of them. */
static bool begin_ticks(struct fgt_sampler *sampler,
			const struct fgt_tick *shared)
{
	bool is_any_due = false;

	for (uint32_t i = 0; i < sampler->ticking_count; i++) {
		struct fgt_sampled *sampled = sampler->ticking[i];
		struct fgt_tick tick;

		if (!fgt_sampling_take_turn(sampled, sampler->period_number))
			continue;
		is_any_due = true;
		tick = fgt_sampling_tick_of(sampled, shared);
		fgt_tick_begin(sampled, &tick);
	}
	return is_any_due;
}

static void finish_tick(struct fgt_sampler *sampler, uint32_t index,
			const struct fgt_tick *shared)
{
	struct fgt_sampled *sampled = sampler->ticking[index];
	struct fgt_tick tick = fgt_sampling_tick_of(sampled, shared);

	fgt_sampling_take_in_hand(sampler, sampled);
	if (!fgt_tick_finish(sampler, sampled, &tick)) {
		sampler->ticking[index] =
			sampler->ticking[--sampler->ticking_count];
		let_go(sampler, sampled, false);
		return;
	}
	fgt_sampling_decide_rate(sampler, sampled, &tick);
}

/* Wakes the callers that wait for a first tick. */
static void announce(struct fgt_sampler *sampler)
{
	pthread_mutex_lock(&sampler->mutex);
	for (uint32_t i = 0; i < sampler->target_count; i++)
		sampler->targets[i]->has_ticked |=
			sampler->targets[i]->look.tick > 0;
	pthread_cond_broadcast(&sampler->changed);
	pthread_mutex_unlock(&sampler->mutex);
}

/* The program that records itself has closed them. */
static void reopen_fds(struct fgt_sampler *sampler, const struct fgt_tick *tick)
{
	if (!sampler->budget.has_lost)
		return;
	sampler->budget.has_lost = false;
	fgt_fd_close(sampler->last_pid_fd);
	sampler->last_pid_fd = fgt_sampling_open_last_pid();
	for (uint32_t i = 0; i < sampler->ticking_count; i++)
		fgt_sampled_reopen_fds(sampler->ticking[i], tick);
}

static void drain(struct fgt_sampler *sampler, const struct fgt_tick *tick,
		  bool is_any_due)
{
	/* All of it is a single target's, and charged when its tick ends. */
	bool is_shared = sampler->ticking_count > 1 || !is_any_due;

	if (is_shared)
		sampler->shared_ns += fgt_sampling_take_cpu(sampler);
	fgt_sampling_drain(sampler, tick);
	if (is_shared)
		fgt_sampling_charge_drain(sampler,
					  fgt_sampling_take_cpu(sampler));
}

static void tick_all(struct fgt_sampler *sampler, uint64_t periods)
{
	const struct fgt_tick tick = make_tick(sampler);
	bool is_news = false, is_any_due;

	fgt_sampling_charge_shared(sampler);
	sampler->period_number += periods;
	sampler->last_ns = tick.mono_ns;
	reopen_fds(sampler, &tick);
	if (sampler->running->poll)
		sampler->running->poll(sampler->running_state);
	fgt_sampling_check_signal(sampler, tick.mono_ns);
	is_any_due = begin_ticks(sampler, &tick);
	if (is_any_due && sampler->switches)
		fgt_who_ran_take_switches(sampler->switches);
	drain(sampler, &tick, is_any_due);
	fgt_sampling_take_in_hand(sampler, NULL);
	for (uint32_t i = sampler->ticking_count; i-- > 0;) {
		is_news |= sampler->ticking[i]->look.tick == 1;
		if (sampler->ticking[i]->turn.is_due)
			finish_tick(sampler, i, &tick);
	}
	if (is_news)
		announce(sampler);
	if (is_any_due)
		fgt_sampling_drain_awaited(sampler, &tick);
	fgt_sampling_take_in_hand(sampler, NULL);
	/* No look has to wait for it. */
	if (!sampler->options.is_embedded)
		fgt_pressures_note(tick.mono_ns);
}

/* Too many stacks longer than a sample may hold: more room, once a second. */
static void adapt(struct fgt_sampler *sampler)
{
	int rc;

	if (!fgt_sampling_has_cpu_events(sampler) ||
	    (sampler->periods_since_adapt += sampler->timer_periods) *
			    sampler->period_ns <
		    SECOND_NS)
		return;
	sampler->periods_since_adapt = 0;
	rc = sampler->running->adapt(sampler->running_state);
	if (rc > 0)
		sampler->is_armed = false;
	else if (rc < 0)
		fgt_sampling_reopen_sources(sampler);
}

/* What is left when events cannot be switched on has none to switch on. */
static void arm(struct fgt_sampler *sampler)
{
	int rc = fgt_sampling_arm(sampler);

	if (rc == 0)
		return;
	sampler->perf_cpu_error = rc;
	fgt_sampling_reopen_sources(sampler);
	(void)fgt_sampling_arm(sampler);
}

/* Copies the targets; waits while there are none. False: the end. */
static bool take_orders(struct fgt_sampler *sampler)
{
	struct fgt_sampled *returned = NULL;
	bool shall_go_on;

	fgt_heartbeat_set(sampler->heartbeat, FGT_STEP_IDLE, 0);
	pthread_mutex_lock(&sampler->mutex);
	if (!sampler->shall_stop && sampler->target_count == 0)
		fgt_sampling_disarm(sampler);
	while (!sampler->shall_stop && sampler->target_count == 0 &&
	       !(returned = fgt_sampling_take_returned(sampler)))
		pthread_cond_wait(&sampler->changed, &sampler->mutex);
	if (!returned)
		returned = fgt_sampling_take_returned(sampler);
	sampler->ticking_count = sampler->target_count;
	memcpy(sampler->ticking, sampler->targets,
	       sampler->target_count * sizeof(struct fgt_sampled *));
	sampler->max_cpu_percent = sampler->options.max_cpu_percent;
	shall_go_on = !sampler->shall_stop;
	pthread_mutex_unlock(&sampler->mutex);
	fgt_sampled_free(returned);
	return shall_go_on;
}

static void drop_detached(struct fgt_sampler *sampler)
{
	for (uint32_t i = sampler->ticking_count; i-- > 0;) {
		struct fgt_sampled *sampled = sampler->ticking[i];
		bool is_detached;

		pthread_mutex_lock(&sampler->mutex);
		is_detached = sampled->is_detached;
		pthread_mutex_unlock(&sampler->mutex);
		if (!is_detached)
			continue;
		sampler->ticking[i] =
			sampler->ticking[--sampler->ticking_count];
		let_go(sampler, sampled, true);
	}
}

/* Another user's processes may be hostile; none of it is sampled then. */
static bool is_excluded(struct fgt_sampler *sampler,
			const struct fgt_sampled *sampled)
{
	bool is_excluded;

	pthread_mutex_lock(&sampler->mutex);
	is_excluded = fgt_losses_is_excluded(&sampler->losses,
					     sampled->status.uid,
					     fgt_clock_ns(CLOCK_MONOTONIC));
	pthread_mutex_unlock(&sampler->mutex);
	return is_excluded;
}

static void exclude(struct fgt_sampler *sampler, struct fgt_sampled *sampled)
{
	const char *text = "not sampled any more: too many processes of its "
			   "user did not let themselves be read";

	fgt_target_give_up(sampled->target, fgt_clock_ns(CLOCK_MONOTONIC),
			   text);
	fgt_sampled_log(sampled, text);
	sampled->is_given_up = true;
	let_go(sampler, sampled, false);
}

/*
 * The thread before this one was given up in the middle of a tick: what it had
 * begun is ended, and the sources begin again.
 */
static void take_over(struct fgt_sampler *sampler)
{
	sampler->cpu_ns = sampler->shared_ns = 0;
	for (uint32_t i = sampler->ticking_count; i-- > 0;)
		if (sampler->ticking[i]->is_given_up)
			sampler->ticking[i] =
				sampler->ticking[--sampler->ticking_count];
	fgt_sampling_discard(sampler);
	for (uint32_t i = 0; i < sampler->ticking_count; i++)
		fgt_tick_abandon(sampler->ticking[i]);
	fgt_sampling_disarm(sampler);
	for (uint32_t i = sampler->ticking_count; i-- > 0;) {
		struct fgt_sampled *sampled = sampler->ticking[i];

		if (!is_excluded(sampler, sampled))
			continue;
		sampler->ticking[i] =
			sampler->ticking[--sampler->ticking_count];
		exclude(sampler, sampled);
	}
}

/* True: it takes over from one that was given up. */
static bool begin_heartbeat(struct fgt_sampler *sampler, jmp_buf *given_up)
{
	bool has_taken_over;

	if (!sampler->options.is_watched)
		return false;
	pthread_mutex_lock(&sampler->mutex);
	sampler->heartbeat = fgt_heartbeat_begin("sampler", given_up);
	has_taken_over = sampler->has_taken_over;
	sampler->has_taken_over = false;
	pthread_mutex_unlock(&sampler->mutex);
	return has_taken_over;
}

static void begin_thread(struct fgt_sampler *sampler, jmp_buf *given_up)
{
	prctl(PR_SET_NAME, "fgt-sampler");
	if (begin_heartbeat(sampler, given_up))
		take_over(sampler);
	fgt_sampling_take_cpu(sampler);
	/* In a process that records itself it is an ordinary thread. */
	if (sampler->options.is_embedded) {
		sampler->own_tid = gettid();
		if (!sampler->options.is_confined)
			fgt_priority_shorten_slice();
		return;
	}
	/* Without events of every CPU a thread must be found running: a
	 * real-time thread would put it aside instead of taking a free CPU. */
	fgt_priority_begin(&sampler->priority,
			   fgt_sampling_has_cpu_events(sampler),
			   fgt_clock_ns(CLOCK_MONOTONIC), sampler->cpu_ns);
}

/* What threads do then is shown at the tick that is due, even if it is late. */
static void ask_for_instant(struct fgt_sampler *sampler)
{
	uint64_t now_ns;

	if (!sampler->switches)
		return;
	now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	sampler->instant_ns = fgt_sampling_instant(sampler);
	/* Slots keep nothing of an instant that has passed. */
	if (sampler->instant_ns < now_ns)
		sampler->instant_ns = now_ns;
	fgt_switches_set_instant(sampler->switches, sampler->instant_ns);
}

/* What is counted once a second, up to now. */
static void show_last(struct fgt_sampled *sampled)
{
	if (sampled->is_stopped)
		return;
	fgt_sampled_count_brief(sampled, fgt_clock_ns(CLOCK_MONOTONIC));
	fgt_sampled_publish(sampled);
}

static void end_thread(struct fgt_sampler *sampler)
{
	fgt_sampling_disarm(sampler);
	for (uint32_t i = 0; i < sampler->ticking_count; i++) {
		fgt_sampling_take_in_hand(sampler, sampler->ticking[i]);
		show_last(sampler->ticking[i]);
	}
	if (!sampler->options.is_watched)
		return;
	pthread_mutex_lock(&sampler->mutex);
	sampler->heartbeat = NULL;
	fgt_heartbeat_end();
	sampler->has_left = true;
	pthread_cond_broadcast(&sampler->changed);
	pthread_mutex_unlock(&sampler->mutex);
}

static void run(struct fgt_sampler *sampler)
{
	uint64_t expirations;

	while (take_orders(sampler)) {
		fgt_heartbeat_set(sampler->heartbeat, FGT_STEP_WORK, 0);
		drop_detached(sampler);
		if (sampler->ticking_count == 0)
			continue;
		fgt_sampling_choose_timer_periods(sampler);
		if (!sampler->is_armed)
			arm(sampler);
		ask_for_instant(sampler);
		fgt_heartbeat_set(sampler->heartbeat, FGT_STEP_TIMER, 0);
		if (!fgt_sampling_wait(sampler, &expirations))
			continue;
		fgt_heartbeat_set(sampler->heartbeat, FGT_STEP_WORK, 0);
		tick_all(sampler, fgt_sampling_expire(sampler, expirations));
		sampler->due_ns += sampler->interval_ns;
		fgt_sampling_change_pace(sampler);
		adapt(sampler);
		if (!sampler->options.is_embedded)
			fgt_priority_review(&sampler->priority,
					    sampler->last_ns, sampler->cpu_ns);
	}
}

void *fgt_sampling_run(void *context)
{
	jmp_buf given_up;

	/* The call that never returned has returned; all is another
	 * thread's. */
	if (setjmp(given_up))
		return NULL;
	begin_thread(context, &given_up);
	run(context);
	end_thread(context);
	return NULL;
}
