/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that were woken and waited for a CPU, where the kernel does not
 * report switches. A thread that does not run is not looked at, so that the
 * ticks at which it waited are shown as its block. Once it has run, the
 * scheduler's count of its waits shows how many these were: the last ones
 * before it got its CPU. Runs in the sampler's thread; must not touch the
 * thread.
 */
#include "agent/capture/look/look_parts.h"

#define WAITED_MAX_TICKS 8u
#define WAIT_SHORT	 16u /* of a period: hardly any tick falls into it */

uint32_t fgt_waited_ticks(uint64_t waited_ns, uint64_t period_ns,
			  uint64_t unseen_ticks)
{
	uint64_t ticks = waited_ns / period_ns + 1;

	if (waited_ns < period_ns / WAIT_SHORT)
		return 0;
	if (ticks > unseen_ticks)
		ticks = unseen_ticks;
	return ticks < UINT8_MAX ? (uint32_t)ticks : UINT8_MAX;
}

/* With events of every CPU there is no account. grown_ns: since it blocked. */
static uint32_t take_counted(struct fgt_look *look, const struct fgt_tick *tick,
			     struct fgt_thread *thread, uint64_t grown_ns,
			     uint32_t ticks)
{
	struct fgt_thread_aside *aside =
		fgt_thread_store_aside(&look->threads.table, thread);
	uint64_t wait_ns = thread->active->use.wait_ns;
	uint64_t most_ns = WAITED_MAX_TICKS * tick->period_ns + grown_ns;
	int64_t waited_ns = (int64_t)(wait_ns - aside->shown_wait_ns);
	uint64_t paid;

	if (waited_ns < (int64_t)tick->period_ns)
		return 0;
	if (waited_ns > (int64_t)most_ns) {
		waited_ns = (int64_t)most_ns;
		aside->shown_wait_ns = wait_ns - most_ns;
	}
	paid = (uint64_t)waited_ns / tick->period_ns;
	if (ticks > paid)
		ticks = (uint32_t)paid;
	aside->shown_wait_ns += ticks * tick->period_ns;
	return ticks;
}

/* At the ticks since it blocked, the last one of which is before this one. */
static uint32_t take_waits(struct fgt_look *look, const struct fgt_tick *tick,
			   struct fgt_thread *thread)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	uint64_t unseen = look->tick - thread_look->still_tick - 1;
	uint64_t grown_ns;
	uint32_t ticks;

	if (look->is_embedded && thread->has_run)
		fgt_look_read_wait(look, thread);
	grown_ns =
		fgt_look_waited_ns(look, thread) - thread_look->still_wait_ns;
	ticks = fgt_waited_ticks(grown_ns, tick->period_ns, unseen);
	if (!ticks)
		return 0;
	return tick->has_cpu_events
		       ? take_counted(look, tick, thread, grown_ns, ticks)
		       : fgt_account_take_waits(&thread_look->account,
						tick->period_ns, ticks);
}

uint64_t fgt_look_waited_ns(const struct fgt_look *look,
			    const struct fgt_thread *thread)
{
	return look->is_embedded ? thread->active->look->read_wait_ns
				 : thread->active->use.wait_ns;
}

void fgt_look_waited(struct fgt_look *look, const struct fgt_tick *tick,
		     struct fgt_thread *thread, bool was_running,
		     struct fgt_verdict *verdict)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	/* Shown blocked, though it is only known that it wants a CPU. */
	bool is_open = thread->needs_look && !thread->is_shown_running &&
		       verdict->state != FGT_STATE_RUNNABLE;
	uint32_t ticks = 0;

	if (!was_running && !verdict->past_ticks && !verdict->credit_ticks &&
	    look->tick > thread_look->still_tick + 1)
		ticks = take_waits(look, tick, thread);
	if (ticks) {
		verdict->past_ticks = ticks;
		verdict->past_state = FGT_STATE_RUNNABLE;
		verdict->past_frames = NULL;
		verdict->past_count = 0;
	}
	if (is_open && !ticks && verdict->kind == FGT_VERDICT_AS_BEFORE)
		return;
	thread_look->still_tick = look->tick - is_open;
	thread_look->still_wait_ns = fgt_look_waited_ns(look, thread);
}
