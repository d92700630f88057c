/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate of each target, its texts, and what sampling costs: which target
 * the CPU time of the sampler's thread is charged to. Runs in that thread.
 */
#include "agent/capture/sampling.h"

#include <time.h>

#include "ringbuf/base/clock.h"

#define SECOND_NS    1000000000u
#define EVENT_MAX_NS 100000000u /* a tick shows no older stack */

/* ---- Turns -------------------------------------------------------------- */

static void take_rate(struct fgt_sampled *sampled, uint32_t before)
{
	uint32_t periods = sampled->turn.periods;

	sampled->status.rate_hz *= (double)before / periods;
	sampled->status.rate_periods = periods;
	fgt_ring_set_pace(sampled->ring, periods);
}

bool fgt_sampling_take_turn(struct fgt_sampled *sampled, uint64_t period)
{
	uint32_t before = sampled->turn.periods;

	sampled->samples = 0;
	fgt_rate_take_turn(&sampled->turn, period, sampled->rate.periods);
	if (sampled->turn.periods != before)
		take_rate(sampled, before);
	return sampled->turn.is_due;
}

struct fgt_tick fgt_sampling_tick_of(const struct fgt_sampled *sampled,
				     const struct fgt_tick *shared)
{
	const struct fgt_rate_turn *turn = &sampled->turn;
	struct fgt_tick tick = *shared;

	tick.missed = turn->missed;
	tick.period_ns = shared->timer_ns * turn->periods;
	tick.event_ns = tick.period_ns < EVENT_MAX_NS ? tick.period_ns
						      : EVENT_MAX_NS;
	/* What comes between two ticks is for the later one. */
	tick.number = sampled->look.tick + (!turn->is_due || shared->is_over);
	return tick;
}

/* ---- Costs -------------------------------------------------------------- */

/*
 * A sampler that samples its own process asks the kernel for its own CPU time
 * in each tick anyway, at the same point of it. A system call is saved: in some
 * virtual machines it costs an exit. 0: not known so.
 */
static uint64_t find_own_cpu(const struct fgt_sampler *sampler)
{
	const struct fgt_sampled *sampled;
	const struct fgt_thread *own;

	if (!sampler->own_tid || sampler->ticking_count != 1)
		return 0;
	sampled = sampler->ticking[0];
	if (sampled->turn.periods > 1)
		return 0;
	own = fgt_thread_table_find(&sampled->look.threads, sampler->own_tid);
	return own ? fgt_thread_table_use(&sampled->look.threads, own)
			       .runtime_ns
		   : 0;
}

uint64_t fgt_sampling_take_cpu(struct fgt_sampler *sampler)
{
	uint64_t before_ns = sampler->cpu_ns;
	uint64_t now_ns = find_own_cpu(sampler);

	if (!now_ns)
		now_ns = fgt_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	/* The clock was asked for at a later point than the tick asks. */
	if (now_ns < before_ns)
		return 0;
	sampler->cpu_ns = now_ns;
	return now_ns - before_ns;
}

/* CPU time of ticks, or what is spent whatever the rate. */
static void charge(struct fgt_sampled *sampled, uint64_t ticks_ns,
		   uint64_t fixed_ns)
{
	fgt_rate_charge(&sampled->rate, ticks_ns + sampled->look.stopped_ns,
			fixed_ns);
	sampled->look.stopped_ns = 0;
}

void fgt_sampling_charge_shared(struct fgt_sampler *sampler)
{
	uint64_t each_ns = sampler->shared_ns / sampler->ticking_count;

	for (uint32_t i = 0; i < sampler->ticking_count; i++) {
		bool is_due = sampler->ticking[i]->turn.is_due;

		charge(sampler->ticking[i], is_due ? each_ns : 0,
		       is_due ? 0 : each_ns);
	}
	sampler->shared_ns = 0;
}

void fgt_sampling_charge_drain(struct fgt_sampler *sampler, uint64_t cost_ns)
{
	uint64_t samples = 0;

	for (uint32_t i = 0; i < sampler->ticking_count; i++)
		samples += sampler->ticking[i]->samples;
	if (samples == 0)
		sampler->shared_ns += cost_ns;
	for (uint32_t i = 0; samples && i < sampler->ticking_count; i++) {
		struct fgt_sampled *sampled = sampler->ticking[i];

		charge(sampled, cost_ns * sampled->samples / samples, 0);
	}
}

/* ---- Lowering and raising ---------------------------------------------- */

/* Each rate that is lower than those before, once if that is not enough, and
 * once the full rate. */
static void log_change(struct fgt_sampled *sampled, const struct fgt_tick *tick,
		       bool was_lowered)
{
	const struct fgt_rate *rate = &sampled->rate;
	bool is_lowered = rate->periods > 1;
	char text[64];

	if (is_lowered && rate->periods > sampled->logged_periods) {
		sampled->logged_periods = rate->periods;
		fgt_sampled_log(sampled, sampled->status.rate_note);
	}
	if (rate->is_exceeded && !sampled->is_exceeded_logged)
		fgt_sampled_log(sampled, sampled->status.rate_note);
	sampled->is_exceeded_logged |= rate->is_exceeded;
	if (is_lowered || !was_lowered)
		return;
	snprintf(text, sizeof(text), "the rate is %.4g Hz again",
		 (double)SECOND_NS / (double)tick->timer_ns);
	fgt_sampled_log(sampled, text);
	sampled->is_exceeded_logged = false;
	sampled->logged_periods = 0;
}

static void describe(struct fgt_sampled *sampled, const struct fgt_tick *tick,
		     double limit_percent)
{
	const struct fgt_rate *rate = &sampled->rate;
	struct fgt_target_status *status = &sampled->status;
	char limit[48];

	status->cpu_percent = rate->cost_percent;
	status->rate_note[0] = '\0';
	if (rate->periods == 1)
		return;
	/* A program that records itself has set no limit, nor can it. */
	snprintf(limit, sizeof(limit),
		 sampled->look.is_embedded ? "within %.3g %% of a core"
					   : "sampling.max_cpu_percent = %.3g",
		 limit_percent);
	snprintf(status->rate_note, sizeof(status->rate_note),
		 "rate lowered to %.3g Hz, one tick in %u, to keep %s%s",
		 (double)SECOND_NS / (double)tick->timer_ns / rate->periods,
		 rate->periods, limit,
		 rate->is_exceeded ? "; it still costs more, and there "
				     "is nothing left to lower"
				   : "");
}

void fgt_sampling_decide_rate(struct fgt_sampler *sampler,
			      struct fgt_sampled *sampled,
			      const struct fgt_tick *tick)
{
	struct fgt_rate *rate = &sampled->rate;
	bool was_lowered = rate->periods > 1;

	charge(sampled, fgt_sampling_take_cpu(sampler), 0);
	fgt_rate_decide(rate, tick->mono_ns, sampler->max_cpu_percent);
	describe(sampled, tick, sampler->max_cpu_percent);
	log_change(sampled, tick, was_lowered);
}
