/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to lower the rate and when to raise it. Runs in the sampler's thread.
 *
 * Lowered at once to what would fit, after two seconds above the budget: one
 * burst (an attach, a dlopen) changes nothing, bursts that recur do. What a
 * higher rate would cost is not known: a tick that has more to look at costs
 * more, so the cost of a tick now times the rate then is an upper bound. If
 * that fits well for some seconds, the rate is raised. If it does not fit for
 * long though all is quiet, one step is tried; a trial that fails makes the
 * next one come later.
 */
#include "agent/capture/budget/rate.h"

#define SECOND_NS	  UINT64_C(1000000000)
#define SPAN_NS		  (SECOND_NS / 2)
#define OVER_NS		  (2 * SECOND_NS)
#define SHOWN_NS	  (2 * SECOND_NS) /* cost_percent is smoothed over */
#define PERIOD_MAX_NS	  (8 * SECOND_NS)
#define WAIT_NS		  (3 * SECOND_NS) /* of calm, before a raise */
#define WAIT_MAX_NS	  (60 * SECOND_NS)
#define TRIAL_WAIT_NS	  (15 * SECOND_NS)
#define TRIAL_WAIT_MAX_NS (960 * SECOND_NS)
#define RELAPSE_NS	  (20 * SECOND_NS) /* so soon, the raise was wrong */
#define RAISE_SHARE	  0.8 /* of the budget may be used up by a raise */

void fgt_rate_init(struct fgt_rate *rate, uint64_t period_ns)
{
	*rate = (struct fgt_rate){
		.periods = 1,
		.periods_max = 1,
		.wait_ns = WAIT_NS,
		.trial_wait_ns = TRIAL_WAIT_NS,
	};
	while (rate->periods_max * 2 * period_ns <= PERIOD_MAX_NS)
		rate->periods_max *= 2;
}

void fgt_rate_charge(struct fgt_rate *rate, uint64_t ticks_ns,
		     uint64_t fixed_ns)
{
	rate->span.ticks_ns += ticks_ns;
	rate->span.fixed_ns += fixed_ns;
}

/*
 * Percent of a core, had the periods to a tick been different: at most so much
 * with fewer, at least with more.
 */
static double cost_at(const struct fgt_rate *rate,
		      const struct fgt_expense *expense, uint32_t periods)
{
	double ticks_ns =
		(double)expense->ticks_ns * rate->periods / (double)periods;

	return ((double)expense->fixed_ns + ticks_ns) * 100 /
	       (double)expense->elapsed_ns;
}

static double cost_now(const struct fgt_rate *rate,
		       const struct fgt_expense *expense)
{
	return cost_at(rate, expense, rate->periods);
}

static uint64_t twice(uint64_t wait_ns, uint64_t most_ns)
{
	return wait_ns * 2 < most_ns ? wait_ns * 2 : most_ns;
}

static void set_periods(struct fgt_rate *rate, uint32_t periods)
{
	rate->periods = periods;
	rate->over_ns = 0;
	rate->episode = (struct fgt_expense){ 0 };
	rate->calm_ns = rate->still_ns = 0;
	rate->calm_periods = 0;
}

/* A raise that did not last was a mistake: the next one takes longer. */
static void learn(struct fgt_rate *rate)
{
	bool is_relapse = rate->since_raise_ns < RELAPSE_NS;

	if (!rate->has_raised)
		return;
	rate->has_raised = false;
	if (!is_relapse) {
		rate->wait_ns = WAIT_NS;
		rate->trial_wait_ns = TRIAL_WAIT_NS;
	} else if (rate->was_trial) {
		rate->trial_wait_ns =
			twice(rate->trial_wait_ns, TRIAL_WAIT_MAX_NS);
	} else {
		rate->wait_ns = twice(rate->wait_ns, WAIT_MAX_NS);
	}
}

/* The lower of two costs, of the last span and of all since it began: one burst
 * at either end is ignored. */
static const struct fgt_expense *modest(const struct fgt_rate *rate)
{
	return cost_now(rate, &rate->span) < cost_now(rate, &rate->episode)
		       ? &rate->span
		       : &rate->episode;
}

static void lower(struct fgt_rate *rate, double limit_percent)
{
	const struct fgt_expense *expense = modest(rate);
	uint32_t periods = rate->periods;

	if (cost_now(rate, expense) <= limit_percent)
		return;
	rate->is_exceeded = periods == rate->periods_max;
	if (rate->is_exceeded)
		return;
	do
		periods *= 2;
	while (periods < rate->periods_max &&
	       cost_at(rate, expense, periods) > limit_percent);
	learn(rate);
	set_periods(rate, periods);
}

static void raise_to(struct fgt_rate *rate, uint32_t periods, bool is_trial)
{
	rate->has_raised = true;
	rate->was_trial = is_trial;
	rate->since_raise_ns = 0;
	set_periods(rate, periods);
}

static void consider_raise(struct fgt_rate *rate, double limit_percent)
{
	uint64_t elapsed_ns = rate->span.elapsed_ns;
	uint32_t fits = rate->periods;

	if (rate->periods == 1)
		return;
	while (fits > 1 && cost_at(rate, &rate->span, fits / 2) <=
				   limit_percent * RAISE_SHARE)
		fits /= 2;
	if (fits == rate->periods) {
		rate->calm_ns = 0;
		rate->calm_periods = 0;
		rate->still_ns += elapsed_ns;
		if (rate->still_ns >= rate->trial_wait_ns)
			raise_to(rate, rate->periods / 2, true);
		return;
	}
	if (fits > rate->calm_periods)
		rate->calm_periods = fits;
	rate->calm_ns += elapsed_ns;
	if (rate->calm_ns >= rate->wait_ns)
		raise_to(rate, rate->calm_periods, false);
}

/* How long it has been too much: a quiet time counts for half as much. */
static void note_over(struct fgt_rate *rate, bool is_over)
{
	struct fgt_expense *episode = &rate->episode;
	const struct fgt_expense *span = &rate->span;

	if (is_over)
		rate->over_ns += span->elapsed_ns;
	else if (rate->over_ns > span->elapsed_ns / 2)
		rate->over_ns -= span->elapsed_ns / 2;
	else
		rate->over_ns = 0;
	if (!rate->over_ns) {
		*episode = (struct fgt_expense){ 0 };
		return;
	}
	episode->ticks_ns += span->ticks_ns;
	episode->fixed_ns += span->fixed_ns;
	episode->elapsed_ns += span->elapsed_ns;
}

static void decide(struct fgt_rate *rate, double limit_percent)
{
	bool is_over = cost_now(rate, &rate->span) > limit_percent;

	if (limit_percent <= 0) {
		rate->is_exceeded = false;
		if (rate->periods > 1)
			set_periods(rate, 1);
		return;
	}
	rate->since_raise_ns += rate->span.elapsed_ns;
	note_over(rate, is_over);
	if (!is_over) {
		rate->is_exceeded = false;
		consider_raise(rate, limit_percent);
		return;
	}
	rate->calm_ns = rate->still_ns = 0;
	rate->calm_periods = 0;
	if (rate->over_ns >= OVER_NS)
		lower(rate, limit_percent);
}

static void show_cost(struct fgt_rate *rate)
{
	double cost = cost_now(rate, &rate->span);
	double share = (double)rate->span.elapsed_ns / SHOWN_NS;

	if (!rate->is_shown || share > 1)
		share = 1;
	rate->is_shown = true;
	rate->cost_percent += (cost - rate->cost_percent) * share;
}

void fgt_rate_decide(struct fgt_rate *rate, uint64_t now_ns,
		     double limit_percent)
{
	rate->span.elapsed_ns = now_ns - rate->begun_ns;
	if (rate->has_begun && rate->span.elapsed_ns < SPAN_NS)
		return;
	if (rate->has_begun) {
		show_cost(rate);
		decide(rate, limit_percent);
	}
	rate->has_begun = true;
	rate->begun_ns = now_ns;
	rate->span = (struct fgt_expense){ 0 };
}

/*
 * A lowered rate takes effect with a tick's beginning: that tick stands for
 * more periods, and the next one comes so much later. What was due meanwhile
 * is not missed; what comes later than it was due is.
 */
void fgt_rate_take_turn(struct fgt_rate_turn *turn, uint64_t period,
			uint32_t wanted_periods)
{
	turn->is_due = !turn->has_begun || period >= turn->due_period;
	if (!turn->is_due)
		return;
	turn->missed = 0;
	if (!turn->has_begun)
		turn->due_period = period;
	else
		turn->missed = (period - turn->due_period) / turn->periods;
	turn->has_begun = true;
	turn->due_period += turn->missed * turn->periods;
	if (turn->periods != wanted_periods) {
		turn->due_period = period;
		turn->periods = wanted_periods;
	}
	turn->due_period += turn->periods;
}
