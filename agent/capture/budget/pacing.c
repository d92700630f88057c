/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which targets a period is for. Runs in the sampler's thread.
 *
 * A lowered rate takes effect with a tick's beginning: that tick stands for
 * more periods, and the next one comes so much later. What was due meanwhile
 * is not missed; what comes later than it was due is.
 */
#include "agent/capture/budget/pacing.h"

#include <stdio.h>

#define SECOND_NS    1000000000u
#define EVENT_MAX_NS 100000000u /* a tick shows no older stack */

void fgt_pacing_init(struct fgt_target *target, unsigned int hz)
{
	fgt_governor_init(&target->pacing.governor, SECOND_NS / hz);
	target->pacing.periods = 1;
	target->work.rate_periods = 1;
	target->work.rate_hz = hz;
}

static void take_rate(struct fgt_target *target)
{
	struct fgt_pacing *pacing = &target->pacing;
	uint32_t periods = pacing->governor.periods;

	target->work.rate_hz *= (double)pacing->periods / periods;
	target->work.rate_periods = pacing->periods = periods;
	fgt_ring_set_pace(target->ring, periods);
}

bool fgt_pacing_begin(struct fgt_target *target, uint64_t period)
{
	struct fgt_pacing *pacing = &target->pacing;

	pacing->samples = 0;
	pacing->is_due = target->tick == 0 || period >= pacing->due_period;
	if (!pacing->is_due)
		return false;
	pacing->missed = 0;
	if (target->tick == 0)
		pacing->due_period = period;
	else
		pacing->missed =
			(period - pacing->due_period) / pacing->periods;
	pacing->due_period += pacing->missed * pacing->periods;
	if (pacing->periods != pacing->governor.periods) {
		pacing->due_period = period;
		take_rate(target);
	}
	pacing->due_period += pacing->periods;
	return true;
}

struct fgt_tick fgt_pacing_tick(const struct fgt_target *target,
				const struct fgt_tick *shared)
{
	const struct fgt_pacing *pacing = &target->pacing;
	struct fgt_tick tick = *shared;

	tick.missed = pacing->missed;
	tick.period_ns = shared->timer_ns * pacing->periods;
	tick.event_ns = tick.period_ns < EVENT_MAX_NS ? tick.period_ns
						      : EVENT_MAX_NS;
	/* What comes between two ticks is for the later one. */
	tick.number = target->tick + !pacing->is_due;
	return tick;
}

/*
 * Events of CPUs say who runs at this very instant: between two ticks nobody
 * asked. Those of threads say where the CPU time went since the last one; they
 * are few, and the tick shows the latest.
 */
bool fgt_pacing_wants_sample(const struct fgt_target *target,
			     const struct fgt_tick *shared)
{
	if (target->pacing.is_due)
		return true;
	/* An exec is taken over in a tick. */
	return !shared->has_cpu_events && !target->has_exec && target->tick > 0;
}

void fgt_pacing_charge(struct fgt_target *target, uint64_t ticks_ns,
		       uint64_t fixed_ns)
{
	fgt_governor_charge(&target->pacing.governor,
			    ticks_ns + target->pacing.stopped_ns, fixed_ns);
	target->pacing.stopped_ns = 0;
}

static void tell(struct fgt_target *target, const struct fgt_tick *tick,
		 const char *text)
{
	if (tick->explain)
		tick->explain(tick->context, target->work.pid, text);
}

/* Once when it begins to be lowered, once if that is not enough, once when it
 * is as it was. */
static void tell_change(struct fgt_target *target, const struct fgt_tick *tick,
			bool was_lowered)
{
	const struct fgt_governor *governor = &target->pacing.governor;
	bool is_lowered = governor->periods > 1;
	char text[64];

	if (is_lowered != was_lowered && is_lowered)
		tell(target, tick, target->work.rate_note);
	if (governor->is_exceeded && !target->pacing.is_exceeded_told)
		tell(target, tick, target->work.rate_note);
	target->pacing.is_exceeded_told |= governor->is_exceeded;
	if (is_lowered == was_lowered || is_lowered)
		return;
	snprintf(text, sizeof(text), "the rate is %.4g Hz again",
		 (double)SECOND_NS / (double)tick->timer_ns);
	tell(target, tick, text);
	target->pacing.is_exceeded_told = false;
}

static void describe(struct fgt_target *target, const struct fgt_tick *tick,
		     double limit_percent)
{
	const struct fgt_governor *governor = &target->pacing.governor;
	struct fgt_target_status *work = &target->work;
	char limit[48];

	work->cpu_percent = governor->cost_percent;
	work->rate_note[0] = '\0';
	if (governor->periods == 1)
		return;
	/* Who records itself has set no limit, nor can. */
	snprintf(limit, sizeof(limit),
		 target->is_embedded ? "within %.3g %% of a core"
				     : "sampling.max_cpu_percent = %.3g",
		 limit_percent);
	snprintf(work->rate_note, sizeof(work->rate_note),
		 "rate lowered to %.3g Hz, one tick in %u, to keep %s%s",
		 (double)SECOND_NS / (double)tick->timer_ns / governor->periods,
		 governor->periods, limit,
		 governor->is_exceeded ? "; it still costs more, and there "
					 "is nothing left to lower"
				       : "");
}

void fgt_pacing_decide(struct fgt_target *target, const struct fgt_tick *tick,
		       double limit_percent)
{
	struct fgt_governor *governor = &target->pacing.governor;
	bool was_lowered = governor->periods > 1;

	(void)fgt_governor_decide(governor, tick->mono_ns, limit_percent);
	describe(target, tick, limit_percent);
	tell_change(target, tick, was_lowered);
}
