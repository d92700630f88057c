/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives each running thread of this process an event, or a timer. Runs in the
 * sampler's thread; must not let the program see a descriptor of an event.
 */
#include "agent/embed/perf/running_own.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "agent/embed/perf/own_events.h"
#include "agent/embed/signal/running_signal.h"
#include "ringbuf/base/owner.h"

#define WORTH_SHARE	 50u /* of a period, used in one tick */
#define LOCKED_MAX_BYTES (1280u << 10)
#define LOCKED_SHARE	 4u /* of what the program may lock: one in so many */
#define RETRY_NS	 20000000000u
#define RETRY_SHIFT_MAX	 5u
/* A program that is over by then needs no keeper, whose start may keep the
 * sampler waiting for a tick or two where all CPUs are busy. */
#define SETTLE_NS      100000000u
#define TAKEN_RETRY_NS 1000000000u
#define TAKEN_FACTOR   2u /* so much busier is the one that gets it */

static const struct fgt_running *const timers = &fgt_running_signal;

struct own_source {
	void *timers; /* their state */
	struct fgt_own_events *events; /* NULL: none, or not yet */
	bool has_tried; /* to open events */
	uint64_t begin_ns; /* of the first tick in which a thread ran; or 0 */
};

/* What the program locks itself and what events lock has one limit. */
static size_t find_locked_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		return 0;
	return limit.rlim_cur / LOCKED_SHARE > LOCKED_MAX_BYTES
		       ? LOCKED_MAX_BYTES
		       : (size_t)limit.rlim_cur / LOCKED_SHARE;
}

static int own_open(struct fgt_fd_budget *budget, uint64_t period_ns,
		    void **ret_state, struct fgt_why *why)
{
	struct own_source *own = calloc(1, sizeof(*own));
	int rc;

	if (!own)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	rc = timers->open(budget, period_ns, &own->timers, why);
	if (rc < 0) {
		free(own);
		return rc;
	}
	*ret_state = own;
	return 0;
}

static void own_close(void *state)
{
	struct own_source *own = state;

	if (!own)
		return;
	fgt_own_events_close(own->events);
	timers->close(own->timers);
	free(own);
}

static void own_drain(void *state, const struct fgt_running_handler *handler)
{
	const struct own_source *own = state;

	if (own->events)
		fgt_own_events_drain(own->events, handler);
	timers->drain(own->timers, handler);
}

/* ---- Which of the two has a thread -------------------------------------- */

static void own_drop(void *state, struct fgt_thread *thread)
{
	const struct own_source *own = state;

	if (thread->active->has_event)
		fgt_own_events_drop(own->events, thread);
	else
		timers->drop(own->timers, thread);
	thread->active->has_event = false;
}

/* A thread that runs starts the keeper. */
static bool may_have_events(struct own_source *own, uint64_t now_ns)
{
	if (!own->begin_ns)
		own->begin_ns = now_ns;
	if (now_ns - own->begin_ns < SETTLE_NS)
		return false;
	if (!own->has_tried) {
		own->has_tried = true;
		(void)fgt_own_events_open(find_locked_max(), &own->events);
	}
	return own->events && fgt_own_events_work(own->events);
}

/* Takes the event of a thread that uses much less CPU time. */
static bool make_room(struct own_source *own, const struct fgt_thread *thread,
		      uint64_t now_ns)
{
	struct fgt_thread *least = fgt_own_events_least(own->events, now_ns);

	if (!least ||
	    least->active->ran_ns * TAKEN_FACTOR >= thread->active->ran_ns)
		return false;
	own_drop(own, least);
	least->active->event_retry_ns = now_ns + TAKEN_RETRY_NS;
	return fgt_own_events_have_room(own->events, thread);
}

/* What was in its way may be over later: each time it waits twice as long. */
static void refuse(struct fgt_active_thread *active, uint64_t now_ns)
{
	active->event_retry_ns = now_ns + (RETRY_NS << active->event_refusals);
	if (active->event_refusals < RETRY_SHIFT_MAX)
		active->event_refusals++;
}

static void try_event(struct own_source *own, struct fgt_thread *thread,
		      uint64_t now_ns)
{
	if (!fgt_own_events_have_room(own->events, thread) &&
	    !make_room(own, thread, now_ns))
		return;
	own_drop(own, thread);
	thread->active->has_event = fgt_own_events_add(own->events, thread) ==
				    0;
	if (!thread->active->has_event)
		refuse(thread->active, now_ns);
}

/* False: the thread has a timer. */
static bool keep_event(struct own_source *own, struct fgt_thread *thread,
		       const struct fgt_running_use *use)
{
	int rc = fgt_own_events_work(own->events)
			 ? fgt_own_events_follow(own->events, thread, use)
			 : -EPERM;

	if (rc == 0)
		return true;
	own_drop(own, thread);
	if (rc == -EAGAIN)
		try_event(own, thread, use->now_ns);
	else
		refuse(thread->active, use->now_ns);
	return thread->active->has_event;
}

/* Smoothed over the ticks in which it ran. */
static void note_use(struct fgt_active_thread *active, uint64_t runtime_ns)
{
	if (!runtime_ns || runtime_ns > UINT32_MAX)
		return;
	if (!active->ran_ns)
		active->ran_ns = (uint32_t)runtime_ns;
	active->ran_ns = (uint32_t)((active->ran_ns * 7ull + runtime_ns) / 8);
}

static void own_consider(void *state, struct fgt_thread *thread,
			 const struct fgt_running_use *use)
{
	struct own_source *own = state;
	struct fgt_active_thread *active = thread->active;

	note_use(active, use->runtime_ns);
	if (!active->has_event && use->now_ns >= active->event_retry_ns &&
	    use->runtime_ns >= use->event_ns / WORTH_SHARE &&
	    !(use->is_new && use->is_first_tick) &&
	    fgt_own_events_suit(thread) && may_have_events(own, use->now_ns))
		try_event(own, thread, use->now_ns);
	if (active->has_event && keep_event(own, thread, use))
		return;
	timers->consider(own->timers, thread, use);
}

static enum fgt_running_answer own_ask(void *state, struct fgt_thread *thread,
				       uint64_t now_ns)
{
	const struct own_source *own = state;

	return thread->active->has_event
		       ? FGT_RUNNING_SAMPLE_COMES
		       : timers->ask(own->timers, thread, now_ns);
}

static const char *own_limit(void *state, uint32_t threads, uint64_t now_ns)
{
	const struct own_source *own = state;

	return timers->limit(own->timers, threads, now_ns);
}

static int32_t own_tid(const void *state)
{
	const struct own_source *own = state;

	return own->events ? fgt_own_events_tid(own->events) : 0;
}

const struct fgt_running fgt_running_own = {
	.name = "signal, perf-thread",
	.timing = FGT_RUNNING_IN_EACH_PERIOD,
	.open = own_open,
	.close = own_close,
	.drain = own_drain,
	.consider = own_consider,
	.drop = own_drop,
	.ask = own_ask,
	.limit = own_limit,
	.own_tid = own_tid,
};
