/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Per-CPU perf events: a real-time thread visits all CPUs to switch them on
 * together, in some 0.1 ms a CPU, in which no event reports anything. Runs in
 * the sampler's thread.
 */
#include "agent/capture/running/running.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>

#include "agent/capture/running/perf_event.h"
#include "ringbuf/base/clock.h"

/* With its header just below the default kernel.perf_event_mlock_kb. */
#define DATA_PAGES	128u
#define STACK_BYTES	8192u
#define STACK_BYTES_MAX 57344u /* a record ends below 64 KiB */
#define NOTES_MIN	50u
/* How far apart the events of two CPUs may be, unless it cannot be helped. */
#define SPREAD_NS    20000u
#define ENABLE_TRIES 3

struct perf_cpu_state {
	struct fgt_perf_cpus cpus;
	uint64_t period_ns;
	uint32_t stack_bytes;
	uint32_t samples, short_samples;
};

/* Events of all threads, kernel mode included; with the reports on tasks. */
static int open_cpus(struct perf_cpu_state *perf)
{
	struct perf_event_attr attr = fgt_perf_attr(
		PERF_COUNT_SW_CPU_CLOCK, perf->period_ns, perf->stack_bytes);

	attr.disabled = 1;
	attr.exclude_kernel = 0;
	attr.mmap = attr.mmap2 = 1;
	attr.comm = attr.comm_exec = 1;
	attr.task = 1;
	return fgt_perf_cpus_open(&perf->cpus, &attr, DATA_PAGES);
}

static void perf_close(void *state)
{
	struct perf_cpu_state *perf = state;

	if (!perf)
		return;
	fgt_perf_cpus_close(&perf->cpus);
	free(perf);
}

static int perf_open(struct fgt_fd_budget *budget, uint64_t period_ns,
		     void **ret_state, struct fgt_why *why)
{
	struct perf_cpu_state *perf = calloc(1, sizeof(*perf));
	int rc;

	(void)budget;
	if (!perf)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	perf->period_ns = period_ns;
	perf->stack_bytes = STACK_BYTES;
	rc = open_cpus(perf);
	if (rc < 0) {
		free(perf);
		return fgt_perf_explain(rc, true, why);
	}
	*ret_state = perf;
	return 0;
}

/* The ioctl is needed even for the same period: it ends the one that has
 * begun. */
static void set_period(struct perf_cpu_state *perf, uint64_t period_ns)
{
	perf->period_ns = period_ns;
	for (size_t i = 0; i < perf->cpus.count; i++) {
		perf->cpus.items[i].used_ns = 0;
		ioctl(perf->cpus.items[i].fd, PERF_EVENT_IOC_PERIOD,
		      &period_ns);
	}
}

/* Interrupts each CPU, for which the caller waits 10 to 30 µs each. */
static void perf_change(void *state, uint64_t period_ns,
			struct fgt_running_started *ret_started)
{
	struct perf_cpu_state *perf = state;

	ret_started->first_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	set_period(perf, period_ns);
	ret_started->last_ns = fgt_clock_ns(CLOCK_MONOTONIC);
}

static int switch_event(const struct fgt_perf_cpu *event, unsigned long request)
{
	return ioctl(event->fd, request, 0) < 0 ? -errno : 0;
}

/*
 * A thread that goes from CPU to CPU must not wait for any: only a real-time
 * one does, ahead of all others for that time.
 */
struct trip {
	bool may_go;
	int policy;
	struct sched_param param;
	cpu_set_t allowed;
};

static void begin_trip(struct trip *trip)
{
	const struct sched_param first = {
		.sched_priority = sched_get_priority_max(SCHED_FIFO)
	};

	trip->policy = sched_getscheduler(0);
	trip->may_go = (trip->policy & ~SCHED_RESET_ON_FORK) == SCHED_FIFO &&
		       sched_getparam(0, &trip->param) == 0 &&
		       sched_getaffinity(0, sizeof(trip->allowed),
					 &trip->allowed) == 0 &&
		       sched_setscheduler(0, trip->policy, &first) == 0;
}

static void end_trip(const struct trip *trip)
{
	if (!trip->may_go)
		return;
	sched_setaffinity(0, sizeof(trip->allowed), &trip->allowed);
	sched_setscheduler(0, trip->policy, &trip->param);
}

/* Where that is not allowed, the kernel interrupts the CPU: slower. */
static void go_to(const struct trip *trip, const struct fgt_perf_cpu *event)
{
	cpu_set_t one;

	if (!trip->may_go)
		return;
	CPU_ZERO(&one);
	CPU_SET(event->cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/*
 * For how long each event has been switched on, a different time: an event
 * that is switched on again fires after the rest of its period.
 */
static int use_up(struct perf_cpu_state *perf, const struct trip *trip)
{
	int rc = 0;

	for (size_t i = perf->cpus.count; i-- > 0 && rc == 0;) {
		go_to(trip, &perf->cpus.items[i]);
		rc = switch_event(&perf->cpus.items[i], PERF_EVENT_IOC_ENABLE);
		perf->cpus.items[i].used_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	}
	for (size_t i = 0; i < perf->cpus.count && rc == 0; i++) {
		go_to(trip, &perf->cpus.items[i]);
		perf->cpus.items[i].used_ns = fgt_clock_ns(CLOCK_MONOTONIC) -
					      perf->cpus.items[i].used_ns;
		rc = switch_event(&perf->cpus.items[i], PERF_EVENT_IOC_DISABLE);
	}
	return rc;
}

/* One after the other, so that all fire at the same time. */
static int enable(struct perf_cpu_state *perf, const struct trip *trip,
		  struct fgt_running_started *ret_started)
{
	uint64_t begin_ns = 0, before_ns, after_ns;
	int rc = 0;

	*ret_started = (struct fgt_running_started){ .first_ns = UINT64_MAX };
	for (size_t i = 0; i < perf->cpus.count && rc == 0; i++) {
		struct fgt_perf_cpu *event = &perf->cpus.items[i];

		go_to(trip, event);
		do
			before_ns = fgt_clock_ns(CLOCK_MONOTONIC);
		while (before_ns < begin_ns + event->used_ns);
		rc = switch_event(event, PERF_EVENT_IOC_ENABLE);
		after_ns = fgt_clock_ns(CLOCK_MONOTONIC) - event->used_ns;
		before_ns -= event->used_ns;
		if (i == 0)
			begin_ns = before_ns;
		if (before_ns < ret_started->first_ns)
			ret_started->first_ns = before_ns;
		if (after_ns > ret_started->last_ns)
			ret_started->last_ns = after_ns;
	}
	return rc;
}

static void perf_stop(void *state)
{
	const struct perf_cpu_state *perf = state;

	for (size_t i = 0; i < perf->cpus.count; i++)
		ioctl(perf->cpus.items[i].fd, PERF_EVENT_IOC_DISABLE, 0);
}

static int enable_together(struct perf_cpu_state *perf, uint64_t period_ns,
			   const struct trip *trip,
			   struct fgt_running_started *ret_started)
{
	int rc = 0;

	perf_stop(perf);
	set_period(perf, period_ns);
	if (trip->may_go)
		rc = use_up(perf, trip);
	return rc < 0 ? rc : enable(perf, trip, ret_started);
}

static int perf_start(void *state, uint64_t period_ns,
		      struct fgt_running_started *ret_started)
{
	struct perf_cpu_state *perf = state;
	uint64_t spread_ns = UINT64_MAX;
	struct trip trip;
	int rc = 0;

	begin_trip(&trip);
	for (int i = 0; i < ENABLE_TRIES && rc == 0 && spread_ns > SPREAD_NS;
	     i++) {
		rc = enable_together(perf, period_ns, &trip, ret_started);
		spread_ns = ret_started->last_ns - ret_started->first_ns;
	}
	end_trip(&trip);
	return rc;
}

static void perf_drain(void *state, const struct fgt_running_handler *handler)
{
	fgt_perf_cpus_drain(&((struct perf_cpu_state *)state)->cpus, handler);
}

static void perf_note_size(void *state, bool is_too_short)
{
	struct perf_cpu_state *perf = state;

	perf->samples++;
	perf->short_samples += is_too_short;
}

static int perf_adapt(void *state)
{
	struct perf_cpu_state *perf = state;
	bool is_short = perf->short_samples * 100u > perf->samples;
	uint32_t before = perf->stack_bytes;
	int rc;

	if (perf->samples < NOTES_MIN)
		return 0;
	perf->samples = perf->short_samples = 0;
	if (!is_short || before == STACK_BYTES_MAX)
		return 0;
	perf->stack_bytes = before * 2 > STACK_BYTES_MAX ? STACK_BYTES_MAX
							 : before * 2;
	fgt_perf_cpus_close(&perf->cpus);
	if (open_cpus(perf) == 0)
		return 1;
	perf->stack_bytes = before;
	rc = open_cpus(perf);
	return rc < 0 ? rc : 1;
}

const struct fgt_running fgt_running_perf_cpu = {
	.name = "perf-cpu",
	.timing = FGT_RUNNING_AT_TICKS,
	.open = perf_open,
	.close = perf_close,
	.drain = perf_drain,
	.start = perf_start,
	.change = perf_change,
	.stop = perf_stop,
	.note_size = perf_note_size,
	.adapt = perf_adapt,
};
