/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perf events on single threads. All write into one buffer per CPU: what may
 * be locked is scarce. Runs in the sampler's thread; must never arm an event on
 * a thread that switches often.
 */
#include "agent/capture/running/running.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/capture/running/perf_event.h"
#include "ringbuf/base/owner.h"

#define DATA_PAGES	 32u
#define STACK_BYTES	 16384u
#define STACK_BYTES_MAX	 57344u /* a record ends below 64 KiB */
#define EVENTS_MAX	 1024u /* over all threads and CPUs */
#define WORTH_SHARE	 5u /* of a period, used in one tick */
#define RETRY_NS	 2000000000u
#define REFUSED_RETRY_NS 10000000000u
#define SWITCHES_MAX	 1000u /* a second; more: no event */

struct perf_thread_state {
	struct fgt_perf_cpus cpus; /* of events that count nothing */
	size_t event_count;
	struct fgt_fd_budget *budget;
};

struct thread_events {
	uint32_t age_ticks;
	uint32_t stack_bytes; /* in a sample */
	uint64_t period_ns; /* of CPU time, between two samples */
	size_t count;
	int fds[]; /* [count], one a CPU */
};

static void threads_close(void *state)
{
	struct perf_thread_state *perf = state;

	if (!perf)
		return;
	fgt_perf_cpus_close(&perf->cpus);
	free(perf);
}

static int threads_open(struct fgt_fd_budget *budget, uint64_t period_ns,
			void **ret_state, struct fgt_why *why)
{
	const struct perf_event_attr dummy =
		fgt_perf_attr(PERF_COUNT_SW_DUMMY, 1, STACK_BYTES);
	struct perf_thread_state *perf;
	int rc;

	(void)period_ns;
	if (sysconf(_SC_NPROCESSORS_CONF) > (long)EVENTS_MAX)
		return fgt_why_set(why, -ENOTSUP,
				   "perf events on threads: the machine has "
				   "too many CPUs: let perf events of all "
				   "CPUs (CAP_PERFMON) take the stacks");
	perf = calloc(1, sizeof(*perf));
	if (!perf)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	perf->budget = budget;
	rc = fgt_perf_cpus_open(&perf->cpus, &dummy, 0, DATA_PAGES);
	if (rc < 0) {
		free(perf);
		return fgt_perf_explain(rc, false, why);
	}
	*ret_state = perf;
	return 0;
}

static void threads_drop(void *state, struct fgt_thread *thread)
{
	struct perf_thread_state *perf = state;
	struct thread_events *events = FGT_TAKE(thread->active->source);

	if (!events)
		return;
	for (size_t i = 0; i < events->count; i++)
		fgt_fd_budget_close(perf->budget, &events->fds[i]);
	perf->event_count -= events->count;
	free(events);
}

static int open_on_cpu(struct perf_thread_state *perf,
		       const struct fgt_thread *thread,
		       const struct fgt_perf_cpu *cpu)
{
	struct thread_events *events = thread->active->source;
	const struct perf_event_attr attr =
		fgt_perf_attr(PERF_COUNT_SW_CPU_CLOCK, events->period_ns,
			      events->stack_bytes);
	FGT_AUTO(fgt_fd_close)
	int fd = fgt_perf_open(&attr, thread->tid, cpu->cpu);

	if (fd < 0)
		return FGT_TAKE_FD(fd);
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, cpu->fd) < 0)
		return -errno;
	if (!fgt_fd_budget_take(perf->budget))
		return -EMFILE;
	events->fds[events->count++] = FGT_TAKE_FD(fd);
	perf->event_count++;
	return 0;
}

/* Room for as much stack as the thread was last seen to need. */
static uint32_t stack_bytes_for(const struct fgt_thread *thread)
{
	uint32_t bytes = (fgt_thread_read_bytes(thread) + 7u) & ~7u;

	if (bytes < STACK_BYTES)
		return STACK_BYTES;
	return bytes > STACK_BYTES_MAX ? STACK_BYTES_MAX : bytes;
}

static int arm(struct perf_thread_state *perf, struct fgt_thread *thread,
	       uint64_t period_ns)
{
	struct thread_events *events;
	int rc = 0;

	if (perf->event_count + perf->cpus.count > EVENTS_MAX)
		return -EMFILE;
	events = calloc(1, sizeof(*events) + perf->cpus.count * sizeof(int));
	if (!events)
		return -ENOMEM;
	thread->active->source = events;
	events->stack_bytes = stack_bytes_for(thread);
	events->period_ns = period_ns;
	for (size_t i = 0; i < perf->cpus.count && rc == 0; i++)
		rc = open_on_cpu(perf, thread, &perf->cpus.items[i]);
	if (rc < 0)
		threads_drop(perf, thread);
	return rc;
}

/* Events of another size or period than is wanted now make way. */
static bool is_fit(const struct fgt_thread *thread,
		   const struct fgt_running_use *use)
{
	const struct thread_events *events = thread->active->source;

	return stack_bytes_for(thread) <= events->stack_bytes &&
	       events->period_ns == use->event_ns;
}

static bool is_worth_events(const struct fgt_active_thread *active,
			    const struct fgt_running_use *use, uint64_t rate)
{
	/* Little at a time adds up too. */
	return (use->runtime_ns >= use->event_ns / WORTH_SHARE ||
		use->hidden_ns * 2 >= (int64_t)use->event_ns) &&
	       rate <= SWITCHES_MAX && active->switch_rate <= SWITCHES_MAX &&
	       use->now_ns >= active->source_retry_ns;
}

static void threads_consider(void *state, struct fgt_thread *thread,
			     const struct fgt_running_use *use)
{
	struct perf_thread_state *perf = state;
	struct fgt_active_thread *active = thread->active;
	struct thread_events *events = active->source;
	uint64_t rate = use->switches * 1000000000u / use->period_ns;

	if (use->is_new)
		return;
	if (rate > UINT32_MAX / 8)
		rate = UINT32_MAX / 8;
	/* Smoothed over some eight ticks. */
	active->switch_rate =
		(uint32_t)((active->switch_rate * 7ull + rate) / 8);
	if (events) {
		events->age_ticks++;
		if (active->switch_rate > SWITCHES_MAX)
			active->source_retry_ns = use->now_ns + RETRY_NS;
		else if (is_fit(thread, use))
			return;
		threads_drop(perf, thread);
	}
	if (is_worth_events(active, use, rate) &&
	    arm(perf, thread, use->event_ns) < 0)
		active->source_retry_ns = use->now_ns + REFUSED_RETRY_NS;
}

static bool threads_is_watched(const struct fgt_thread *thread)
{
	const struct thread_events *events = thread->active->source;

	return events && events->age_ticks >= 2;
}

static void threads_drain(void *state,
			  const struct fgt_running_handler *handler)
{
	fgt_perf_cpus_drain(&((struct perf_thread_state *)state)->cpus,
			    handler);
}

const struct fgt_running fgt_running_perf_thread = {
	.name = "perf-thread",
	.timing = FGT_RUNNING_BY_CPU_TIME,
	.open = threads_open,
	.close = threads_close,
	.drain = threads_drain,
	.consider = threads_consider,
	.drop = threads_drop,
	.is_watched = threads_is_watched,
};
