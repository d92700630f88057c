/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timer of the sampler and the events that keep time with it.
 * Runs in the sampler's thread.
 */
#include "agent/capture/sampling.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"

#define INTERVAL_MAX_NS 200000000u
/* Perf's events fire, the timer does so much later. */
#define AFTER_PERF_NS 100000u
/* By which the delay follows half of the samples up, the other half down. */
#define DELAY_STEP_NS 500u

uint64_t fgt_sampling_phase(uint64_t enabled_ns, uint64_t now_ns,
			    uint64_t period_ns, uint64_t delay_ns)
{
	uint64_t first = enabled_ns + delay_ns;

	if (first >= now_ns)
		return first;
	return first + (now_ns - first + period_ns - 1) / period_ns * period_ns;
}

/* first_ns 0: it does not expire. */
static void set_timer(const struct fgt_sampler *sampler, uint64_t first_ns)
{
	struct itimerspec timer = {
		.it_value = fgt_timespec_of(first_ns),
		.it_interval = fgt_timespec_of(sampler->interval_ns),
	};

	if (sampler->timer_fd >= 0)
		timerfd_settime(sampler->timer_fd, TFD_TIMER_ABSTIME, &timer,
				NULL);
}

/* Without a descriptor, whose number the program might take for its own. */
static void sleep_until(uint64_t due_ns)
{
	const struct timespec due = fgt_timespec_of(due_ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) ==
	       EINTR)
		;
}

bool fgt_sampling_wait(const struct fgt_sampler *sampler,
		       uint64_t *ret_expirations)
{
	uint64_t now_ns;

	if (sampler->timer_fd >= 0)
		return read(sampler->timer_fd, ret_expirations,
			    sizeof(*ret_expirations)) ==
		       sizeof(*ret_expirations);
	sleep_until(sampler->due_ns);
	now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	*ret_expirations = 1;
	if (now_ns > sampler->due_ns)
		*ret_expirations +=
			(now_ns - sampler->due_ns) / sampler->interval_ns;
	return true;
}

/* Intervals differ, periods do not. */
static uint64_t periods_in(const struct fgt_sampler *sampler, uint64_t ns)
{
	return (ns + sampler->period_ns / 2) / sampler->period_ns;
}

uint64_t fgt_sampling_expire(struct fgt_sampler *sampler, uint64_t expirations)
{
	uint64_t missed_ns = (expirations - 1) * sampler->interval_ns;

	sampler->due_ns += missed_ns;
	return sampler->timer_periods + periods_in(sampler, missed_ns);
}

/* Periods that go by until first_ns; its expiration counts timer_periods. */
static void skip_periods(struct fgt_sampler *sampler, uint64_t first_ns)
{
	if (!sampler->last_ns || first_ns < sampler->last_ns)
		return;
	sampler->period_number +=
		periods_in(sampler, first_ns - sampler->last_ns);
	sampler->period_number -= sampler->timer_periods;
}

static void draw_interval(struct fgt_sampler *sampler)
{
	sampler->interval_ns = fgt_sampling_pace_next(
		&sampler->pace, sampler->period_ns * sampler->timer_periods);
}

static void set_lead(struct fgt_sampler *sampler,
		     const struct fgt_running_started *started)
{
	sampler->lead_ns = started->last_ns - started->first_ns + AFTER_PERF_NS;
	if (sampler->delay_ns > sampler->lead_ns)
		sampler->delay_ns = sampler->lead_ns;
}

void fgt_sampling_note_delay(struct fgt_sampler *sampler, uint64_t taken_ns)
{
	uint64_t fires_ns = sampler->due_ns - sampler->lead_ns;

	/* Of a tick that was missed. */
	if (taken_ns + AFTER_PERF_NS < fires_ns)
		return;
	if (taken_ns < fires_ns + sampler->delay_ns)
		sampler->delay_ns -= sampler->delay_ns < DELAY_STEP_NS
					     ? sampler->delay_ns
					     : DELAY_STEP_NS;
	else if (sampler->delay_ns + DELAY_STEP_NS <= sampler->lead_ns)
		sampler->delay_ns += DELAY_STEP_NS;
}

uint64_t fgt_sampling_instant(const struct fgt_sampler *sampler)
{
	return sampler->due_ns - sampler->lead_ns + sampler->delay_ns;
}

int fgt_sampling_arm(struct fgt_sampler *sampler)
{
	uint64_t now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	struct fgt_running_started started = { now_ns, now_ns };
	int rc = 0;

	draw_interval(sampler);
	if (sampler->switches &&
	    sampler->switches->provider->start(sampler->switches) < 0)
		fgt_sampling_drop_switches(sampler);
	if (sampler->running->start)
		rc = sampler->running->start(sampler->running_state,
					     sampler->interval_ns, &started);
	if (rc < 0)
		return rc;
	sampler->due_ns =
		fgt_sampling_phase(started.last_ns + sampler->interval_ns,
				   fgt_clock_ns(CLOCK_MONOTONIC),
				   sampler->interval_ns, AFTER_PERF_NS);
	set_lead(sampler, &started);
	skip_periods(sampler, sampler->due_ns);
	set_timer(sampler, sampler->due_ns);
	sampler->is_armed = true;
	return 0;
}

/*
 * Perf's events begin a new period when they get it: what has gone by since
 * those of the last tick fired is left out of the ticks of the group, so that
 * the mean stays.
 */
static void change_with_perf(struct fgt_sampler *sampler, uint64_t fired_ns)
{
	uint64_t gone_ns = fgt_clock_ns(CLOCK_MONOTONIC) - fired_ns;
	struct fgt_running_started started;

	if (gone_ns < sampler->interval_ns)
		sampler->interval_ns -= gone_ns / sampler->pace.group_ticks;
	sampler->running->change(sampler->running_state, sampler->interval_ns,
				 &started);
	sampler->due_ns =
		started.last_ns + sampler->interval_ns + AFTER_PERF_NS;
	set_lead(sampler, &started);
	/* A tick that took too long: those after it are missed. */
	if (started.last_ns - fired_ns >= sampler->interval_ns)
		sampler->period_number +=
			periods_in(sampler, started.last_ns - fired_ns);
}

void fgt_sampling_change_pace(struct fgt_sampler *sampler)
{
	uint64_t last_ns = sampler->due_ns - sampler->interval_ns;

	if (!sampler->is_armed || --sampler->pace.ticks_left)
		return;
	draw_interval(sampler);
	if (sampler->running->change)
		change_with_perf(sampler, last_ns - AFTER_PERF_NS);
	else
		sampler->due_ns = last_ns + sampler->interval_ns;
	set_timer(sampler, sampler->due_ns);
}

void fgt_sampling_disarm(struct fgt_sampler *sampler)
{
	if (!sampler->is_armed)
		return;
	if (sampler->running->stop)
		sampler->running->stop(sampler->running_state);
	if (sampler->switches)
		sampler->switches->provider->stop(sampler->switches);
	set_timer(sampler, 0);
	sampler->is_armed = false;
}

/* The rate that a target has, or is about to have. */
static uint32_t periods_of(const struct fgt_sampled *sampled)
{
	uint32_t wanted = sampled->rate.periods;

	return sampled->turn.periods < wanted ? sampled->turn.periods : wanted;
}

/* Perf's buffers, which hold records of all processes, and waiting callers
 * set a bound. */
static uint32_t timer_periods_max(const struct fgt_sampler *sampler)
{
	uint32_t periods = 1;

	while (periods * 2 * sampler->period_ns <= INTERVAL_MAX_NS)
		periods *= 2;
	return periods;
}

void fgt_sampling_choose_timer_periods(struct fgt_sampler *sampler)
{
	uint32_t periods = timer_periods_max(sampler);

	for (uint32_t i = 0; i < sampler->ticking_count; i++)
		if (periods_of(sampler->ticking[i]) < periods)
			periods = periods_of(sampler->ticking[i]);
	/* It may be about to stop, and must not stand for long. */
	if (sampler->running->is_holding &&
	    sampler->running->is_holding(sampler->running_state))
		periods = 1;
	if (periods == sampler->timer_periods)
		return;
	sampler->timer_periods = periods;
	/* The reports of switches must go on without a gap. */
	if (sampler->is_armed && sampler->running->stop)
		sampler->running->stop(sampler->running_state);
	sampler->is_armed = false;
}
