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
#include "agent/capture/budget/governor.h"

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

void fgt_governor_init(struct fgt_governor *governor, uint64_t period_ns)
{
	*governor = (struct fgt_governor){
		.periods = 1,
		.periods_max = 1,
		.wait_ns = WAIT_NS,
		.trial_wait_ns = TRIAL_WAIT_NS,
	};
	while (governor->periods_max * 2 * period_ns <= PERIOD_MAX_NS)
		governor->periods_max *= 2;
}

void fgt_governor_charge(struct fgt_governor *governor, uint64_t ticks_ns,
			 uint64_t fixed_ns)
{
	governor->span.ticks_ns += ticks_ns;
	governor->span.fixed_ns += fixed_ns;
}

/*
 * Percent of a core, had the periods to a tick been others: at most so much
 * with fewer, at least with more.
 */
static double cost_at(const struct fgt_governor *governor,
		      const struct fgt_expense *expense, uint32_t periods)
{
	double ticks_ns =
		(double)expense->ticks_ns * governor->periods / (double)periods;

	return ((double)expense->fixed_ns + ticks_ns) * 100 /
	       (double)expense->elapsed_ns;
}

static double cost_now(const struct fgt_governor *governor,
		       const struct fgt_expense *expense)
{
	return cost_at(governor, expense, governor->periods);
}

static uint64_t twice(uint64_t wait_ns, uint64_t most_ns)
{
	return wait_ns * 2 < most_ns ? wait_ns * 2 : most_ns;
}

static void set_periods(struct fgt_governor *governor, uint32_t periods)
{
	governor->periods = periods;
	governor->over_ns = 0;
	governor->episode = (struct fgt_expense){ 0 };
	governor->calm_ns = governor->still_ns = 0;
	governor->calm_periods = 0;
}

/* A raise that did not last was a mistake: the next one takes longer. */
static void learn(struct fgt_governor *governor)
{
	bool is_relapse = governor->since_raise_ns < RELAPSE_NS;

	if (!governor->has_raised)
		return;
	governor->has_raised = false;
	if (!is_relapse) {
		governor->wait_ns = WAIT_NS;
		governor->trial_wait_ns = TRIAL_WAIT_NS;
	} else if (governor->was_trial) {
		governor->trial_wait_ns =
			twice(governor->trial_wait_ns, TRIAL_WAIT_MAX_NS);
	} else {
		governor->wait_ns = twice(governor->wait_ns, WAIT_MAX_NS);
	}
}

/* By the last span or by all since it began, whichever asks for less: neither
 * a burst at the beginning nor one at the end speaks for the rest. */
static const struct fgt_expense *modest(const struct fgt_governor *governor)
{
	return cost_now(governor, &governor->span) <
			       cost_now(governor, &governor->episode)
		       ? &governor->span
		       : &governor->episode;
}

static bool lower(struct fgt_governor *governor, double limit_percent)
{
	const struct fgt_expense *expense = modest(governor);
	uint32_t periods = governor->periods;

	if (cost_now(governor, expense) <= limit_percent)
		return false;
	governor->is_exceeded = periods == governor->periods_max;
	if (governor->is_exceeded)
		return false;
	do
		periods *= 2;
	while (periods < governor->periods_max &&
	       cost_at(governor, expense, periods) > limit_percent);
	learn(governor);
	set_periods(governor, periods);
	return true;
}

static bool raise_to(struct fgt_governor *governor, uint32_t periods,
		     bool is_trial)
{
	governor->has_raised = true;
	governor->was_trial = is_trial;
	governor->since_raise_ns = 0;
	set_periods(governor, periods);
	return true;
}

static bool consider_raise(struct fgt_governor *governor, double limit_percent)
{
	uint64_t elapsed_ns = governor->span.elapsed_ns;
	uint32_t fits = governor->periods;

	if (governor->periods == 1)
		return false;
	while (fits > 1 && cost_at(governor, &governor->span, fits / 2) <=
				   limit_percent * RAISE_SHARE)
		fits /= 2;
	if (fits == governor->periods) {
		governor->calm_ns = 0;
		governor->calm_periods = 0;
		governor->still_ns += elapsed_ns;
		if (governor->still_ns < governor->trial_wait_ns)
			return false;
		return raise_to(governor, governor->periods / 2, true);
	}
	if (fits > governor->calm_periods)
		governor->calm_periods = fits;
	governor->calm_ns += elapsed_ns;
	if (governor->calm_ns < governor->wait_ns)
		return false;
	return raise_to(governor, governor->calm_periods, false);
}

static bool set_free(struct fgt_governor *governor)
{
	governor->is_exceeded = false;
	if (governor->periods == 1)
		return false;
	set_periods(governor, 1);
	return true;
}

/* How long it has been too much: a quiet time counts for half as much. */
static void note_over(struct fgt_governor *governor, bool is_over)
{
	struct fgt_expense *episode = &governor->episode;
	const struct fgt_expense *span = &governor->span;

	if (is_over)
		governor->over_ns += span->elapsed_ns;
	else if (governor->over_ns > span->elapsed_ns / 2)
		governor->over_ns -= span->elapsed_ns / 2;
	else
		governor->over_ns = 0;
	if (!governor->over_ns) {
		*episode = (struct fgt_expense){ 0 };
		return;
	}
	episode->ticks_ns += span->ticks_ns;
	episode->fixed_ns += span->fixed_ns;
	episode->elapsed_ns += span->elapsed_ns;
}

static bool decide(struct fgt_governor *governor, double limit_percent)
{
	bool is_over = cost_now(governor, &governor->span) > limit_percent;

	if (limit_percent <= 0)
		return set_free(governor);
	governor->since_raise_ns += governor->span.elapsed_ns;
	note_over(governor, is_over);
	if (!is_over) {
		governor->is_exceeded = false;
		return consider_raise(governor, limit_percent);
	}
	governor->calm_ns = governor->still_ns = 0;
	governor->calm_periods = 0;
	return governor->over_ns >= OVER_NS && lower(governor, limit_percent);
}

static void show_cost(struct fgt_governor *governor)
{
	double cost = cost_now(governor, &governor->span);
	double share = (double)governor->span.elapsed_ns / SHOWN_NS;

	if (!governor->is_shown || share > 1)
		share = 1;
	governor->is_shown = true;
	governor->cost_percent += (cost - governor->cost_percent) * share;
}

bool fgt_governor_decide(struct fgt_governor *governor, uint64_t now_ns,
			 double limit_percent)
{
	bool has_changed = false;

	governor->span.elapsed_ns = now_ns - governor->begun_ns;
	if (governor->has_begun && governor->span.elapsed_ns < SPAN_NS)
		return false;
	if (governor->has_begun) {
		show_cost(governor);
		has_changed = decide(governor, limit_percent);
	}
	governor->has_begun = true;
	governor->begun_ns = now_ns;
	governor->span = (struct fgt_expense){ 0 };
	return has_changed;
}
