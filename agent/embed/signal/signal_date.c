/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/embed/signal/signal_date.h"

/* Handlers are late, by some µs or, where the CPU is busy, by more: an earlier
 * phase counts at once, a later one by such a part. */
#define LATE_PART 8u

static uint64_t after_tick(const struct fgt_kernel_ticks *ticks, uint64_t ns)
{
	uint64_t apart_ns = ticks->apart_ns;

	if (ns >= ticks->one_ns)
		return (ns - ticks->one_ns) % apart_ns;
	return apart_ns - 1 - (ticks->one_ns - ns - 1) % apart_ns;
}

static void note_tick(struct fgt_kernel_ticks *ticks, uint64_t ns)
{
	uint64_t late_ns = after_tick(ticks, ns);

	if (ticks->one_ns && late_ns <= ticks->apart_ns / 2)
		ns -= late_ns - late_ns / LATE_PART;
	ticks->one_ns = ns;
}

static uint64_t first_tick_from(const struct fgt_kernel_ticks *ticks,
				uint64_t ns)
{
	uint64_t late_ns = after_tick(ticks, ns);

	return late_ns ? ns + ticks->apart_ns - late_ns : ns;
}

void fgt_signal_date(struct fgt_kernel_ticks *ticks,
		     const struct fgt_signal_slot *slot,
		     struct fgt_running_sample *sample)
{
	uint64_t taken_ns = sample->time_ns, due_ns;
	uint64_t period_ns = slot->taken_period_ns, apart_ns = ticks->apart_ns;

	if (!apart_ns)
		return;
	if (!slot->is_after_call && !slot->is_of_long_call) {
		note_tick(ticks, taken_ns);
		return;
	}
	due_ns = taken_ns - (uint64_t)slot->overrun * period_ns - period_ns / 2;
	due_ns = first_tick_from(ticks, due_ns);
	if (due_ns >= taken_ns)
		return;
	sample->time_ns = due_ns;
	/* Without the call a signal would have come at each so many ticks. */
	if (period_ns > apart_ns)
		apart_ns *= (period_ns + apart_ns - 1) / apart_ns;
	sample->call_ns = (taken_ns - due_ns) / apart_ns * apart_ns;
}
