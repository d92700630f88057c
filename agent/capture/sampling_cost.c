/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sampler's thread itself uses, and which target it is charged to.
 * Runs in that thread.
 */
#include "agent/capture/sampling.h"

#include <time.h>

#include "agent/capture/budget/pacing.h"
#include "ringbuf/base/clock.h"

/*
 * One that samples its own process asks the kernel for its own CPU time in
 * each tick anyway, at the same point of it; system calls are dear where they
 * cost a virtual machine an exit. 0: not known so.
 */
static uint64_t find_own_cpu(const struct fgt_sampler *sampler)
{
	const struct fgt_target *target;
	const struct fgt_thread *own;

	if (!sampler->own_tid || sampler->ticking_count != 1)
		return 0;
	target = sampler->ticking[0];
	if (target->pacing.periods > 1)
		return 0;
	own = fgt_thread_table_find(&target->threads, sampler->own_tid);
	return own ? fgt_thread_table_use(&target->threads, own).runtime_ns : 0;
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

void fgt_sampling_charge_shared(struct fgt_sampler *sampler)
{
	uint64_t each_ns = sampler->shared_ns / sampler->ticking_count;

	for (uint32_t i = 0; i < sampler->ticking_count; i++) {
		bool is_due = sampler->ticking[i]->pacing.is_due;

		fgt_pacing_charge(sampler->ticking[i], is_due ? each_ns : 0,
				  is_due ? 0 : each_ns);
	}
	sampler->shared_ns = 0;
}

void fgt_sampling_charge_drain(struct fgt_sampler *sampler, uint64_t cost_ns)
{
	uint64_t samples = 0;

	for (uint32_t i = 0; i < sampler->ticking_count; i++)
		samples += sampler->ticking[i]->pacing.samples;
	if (samples == 0)
		sampler->shared_ns += cost_ns;
	for (uint32_t i = 0; samples && i < sampler->ticking_count; i++) {
		struct fgt_target *target = sampler->ticking[i];

		fgt_pacing_charge(
			target, cost_ns * target->pacing.samples / samples, 0);
	}
}
