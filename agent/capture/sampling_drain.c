/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples and reports of the source, handed to their targets.
 * Runs in the sampler's thread.
 */
#include "agent/capture/sampling.h"

#include <time.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"

/* A sample that a tick asks for comes some 50 µs of CPU time after it. Later
 * than that much of it, or of the distance of ticks, it is no longer fresh. */
#define AWAITED_MAX_NS	1000000u
#define AWAITED_SHARE	8u
#define AWAITED_STEP_NS 50000

struct drain {
	struct fgt_sampler *sampler;
	const struct fgt_tick *tick;
	struct fgt_sampled *last; /* that was asked for */
};

static bool is_wanted(void *context, int32_t pid)
{
	struct drain *drain = context;
	struct fgt_sampler *sampler = drain->sampler;

	for (uint32_t i = 0; i < sampler->ticking_count; i++) {
		drain->last = sampler->ticking[i];
		if (drain->last->look.process.pid == pid)
			return true;
	}
	return false;
}

/*
 * Events of CPUs show which thread runs at this instant: between two ticks of
 * the target they are of no use. Those of threads show where the CPU time went
 * since the last one; they are few, and the tick shows the latest.
 */
static bool is_of_use(const struct fgt_sampled *sampled,
		      const struct fgt_tick *tick)
{
	if (sampled->turn.is_due && !tick->is_over)
		return true;
	/* An exec is taken over in a tick. */
	return !tick->has_cpu_events && !sampled->has_exec &&
	       sampled->look.tick > 0;
}

static void take_sample(void *context, const struct fgt_running_sample *sample)
{
	struct drain *drain = context;
	struct fgt_tick tick;

	if (!is_of_use(drain->last, drain->tick))
		return;
	if (drain->tick->has_cpu_events)
		fgt_sampling_note_delay(drain->sampler, sample->time_ns);
	tick = fgt_sampling_tick_of(drain->last, drain->tick);
	drain->last->samples++;
	fgt_sampling_take_in_hand(drain->sampler, drain->last);
	fgt_tick_sample(drain->last, &tick, sample);
}

static void take_task(void *context, uint32_t type,
		      const struct fgt_running_task *task)
{
	struct drain *drain = context;

	fgt_tick_task(drain->last, type, task);
}

static void take_lost(void *context)
{
	struct drain *drain = context;

	for (uint32_t i = 0; i < drain->sampler->ticking_count; i++) {
		drain->sampler->ticking[i]->look.threads.is_stale = true;
		drain->sampler->ticking[i]->look.stacks.is_stale = true;
		/* More than one exec may be among them. */
		drain->sampler->ticking[i]->execs += 2;
	}
}

static struct fgt_running_handler handler_of(struct drain *drain)
{
	return (struct fgt_running_handler){
		.is_wanted = is_wanted,
		.sample = take_sample,
		.task = take_task,
		.lost = take_lost,
		.context = drain,
	};
}

void fgt_sampling_drain(struct fgt_sampler *sampler,
			const struct fgt_tick *tick)
{
	struct drain drain = { .sampler = sampler, .tick = tick };
	const struct fgt_running_handler handler = handler_of(&drain);

	if (sampler->running->drain)
		sampler->running->drain(sampler->running_state, &handler);
}

static bool is_not_wanted(void *context, int32_t pid)
{
	(void)context;
	(void)pid;
	return false;
}

void fgt_sampling_discard(struct fgt_sampler *sampler)
{
	struct drain drain = { .sampler = sampler };
	struct fgt_running_handler handler = handler_of(&drain);

	handler.is_wanted = is_not_wanted;
	if (sampler->running->drain)
		sampler->running->drain(sampler->running_state, &handler);
	take_lost(&drain);
}

/* So that the ticks that come are not late, at any rate. */
static uint64_t awaited_until(const struct fgt_sampler *sampler,
			      const struct fgt_tick *tick)
{
	uint64_t most_ns = sampler->interval_ns / AWAITED_SHARE;

	return tick->mono_ns +
	       (most_ns < AWAITED_MAX_NS ? most_ns : AWAITED_MAX_NS);
}

void fgt_sampling_drain_awaited(struct fgt_sampler *sampler,
				const struct fgt_tick *tick)
{
	const struct timespec step = { .tv_nsec = AWAITED_STEP_NS };
	const struct fgt_running *running = sampler->running;
	struct fgt_tick over = *tick;
	struct drain drain = { .sampler = sampler, .tick = &over };
	const struct fgt_running_handler handler = handler_of(&drain);
	uint64_t until_ns = awaited_until(sampler, tick);

	over.is_over = true;
	if (!running->drain_awaited ||
	    fgt_clock_ns(CLOCK_MONOTONIC) >= until_ns)
		return;
	while (running->drain_awaited(sampler->running_state, &handler) &&
	       fgt_clock_ns(CLOCK_MONOTONIC) < until_ns)
		nanosleep(&step, NULL);
}

void fgt_sampling_check_signal(struct fgt_sampler *sampler, uint64_t now_ns)
{
	const char *limit = NULL;
	uint32_t threads = 0;

	if (!sampler->options.is_embedded)
		return;
	if (sampler->ticking_count)
		threads = sampler->ticking[0]->look.threads.sampled_count;
	if (sampler->running->limit)
		limit = sampler->running->limit(sampler->running_state, threads,
						now_ns);
	if (!limit && sampler->signal_limit) {
		sampler->limitation.text[0] = '\0'; /* it is over */
		sampler->signal_limit = NULL;
	}
	/* What all threads lack comes after what some do. */
	if (limit && limit != sampler->signal_limit &&
	    (sampler->signal_limit || !sampler->limitation.text[0])) {
		fgt_why_set(&sampler->limitation, 0, "%s", limit);
		sampler->signal_limit = limit;
		sampler->is_limit_logged = false;
	}
	/* A limitation that was known at the start is logged here, too. */
	if (!sampler->limitation.text[0] || sampler->is_limit_logged)
		return;
	sampler->is_limit_logged = true;
	if (sampler->options.explain)
		sampler->options.explain(sampler->options.context, getpid(),
					 sampler->limitation.text);
}
