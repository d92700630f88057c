/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Per-CPU perf events: a real-time thread visits all CPUs to switch them on
 * together, in some 0.1 ms a CPU, in which no event reports anything. Runs in
 * the sampler's thread.
 */
#include "agent/capture/running/running.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture/running/perf_event.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/owner.h"

#define DATA_PAGES                                                             \
	128u /* with its header just below the default
			      * kernel.perf_event_mlock_kb */
#define STACK_BYTES	8192u
#define STACK_BYTES_MAX 57344u /* a record ends below 64 KiB */
#define NOTES_MIN	50u
#define CPUS_MAX	4096
/* How far apart the events of two CPUs may be, unless it cannot be helped. */
#define SPREAD_NS    20000u
#define ENABLE_TRIES 3

struct cpu_event {
	int fd, cpu;
	uint64_t used_ns; /* of its first period; see use_up() */
	struct fgt_perf_buffer buffer;
};

struct perf_cpus {
	struct cpu_event *cpus;
	size_t cpu_count;
	uint64_t period_ns;
	uint32_t stack_bytes;
	uint32_t samples, short_samples;
};

static void close_cpus(struct perf_cpus *perf)
{
	for (size_t i = 0; i < perf->cpu_count; i++) {
		fgt_perf_buffer_unmap(&perf->cpus[i].buffer);
		fgt_fd_close(perf->cpus[i].fd);
	}
	perf->cpu_count = 0;
}

static int open_cpu(struct perf_cpus *perf, int cpu)
{
	struct cpu_event *event = &perf->cpus[perf->cpu_count];
	int rc;

	event->cpu = cpu;
	event->fd = fgt_perf_open_cpu_clock(-1, cpu, perf->period_ns,
					    perf->stack_bytes, true);
	if (event->fd < 0)
		return event->fd;
	rc = fgt_perf_buffer_map(&event->buffer, event->fd, DATA_PAGES);
	if (rc < 0) {
		fgt_fd_close(event->fd);
		return rc;
	}
	perf->cpu_count++;
	return 0;
}

static int open_cpus(struct perf_cpus *perf, int configured)
{
	for (int cpu = 0; cpu < configured; cpu++) {
		int rc = open_cpu(perf, cpu);

		if (rc == -ENODEV) /* offline */
			continue;
		if (rc < 0)
			return rc;
	}
	return perf->cpu_count ? 0 : -ENODEV;
}

static int configured_cpus(void)
{
	long count = sysconf(_SC_NPROCESSORS_CONF);

	if (count < 1)
		return 1;
	return count > CPUS_MAX ? CPUS_MAX : (int)count;
}

static void perf_close(void *state)
{
	struct perf_cpus *perf = state;

	if (!perf)
		return;
	if (perf->cpus)
		close_cpus(perf);
	free(perf->cpus);
	free(perf);
}
FGT_DEFINE_AUTO(struct perf_cpus *, perf_close);

static int perf_open(struct fgt_fd_budget *budget, uint64_t period_ns,
		     void **ret_state, struct fgt_why *why)
{
	FGT_AUTO(perf_close) struct perf_cpus *perf = NULL;
	int configured = configured_cpus();
	int rc;

	(void)budget;
	perf = calloc(1, sizeof(*perf));
	if (!perf)
		return fgt_why_set(why, -ENOMEM, "out of memory");
	perf->cpus = calloc((size_t)configured, sizeof(*perf->cpus));
	if (!perf->cpus)
		return fgt_why_set(why, -ENOMEM, "out of memory");
	perf->period_ns = period_ns;
	perf->stack_bytes = STACK_BYTES;
	rc = open_cpus(perf, configured);
	if (rc < 0)
		return fgt_perf_explain(rc, true, why);
	*ret_state = FGT_TAKE(perf);
	return 0;
}

/* Also where it is the same: what is left of the last one is forgotten. */
static void set_period(struct perf_cpus *perf, uint64_t period_ns)
{
	perf->period_ns = period_ns;
	for (size_t i = 0; i < perf->cpu_count; i++) {
		perf->cpus[i].used_ns = 0;
		ioctl(perf->cpus[i].fd, PERF_EVENT_IOC_PERIOD, &period_ns);
	}
}

static int switch_event(const struct cpu_event *event, unsigned long request)
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

/* Where that is not allowed, the kernel interrupts the CPU, which takes longer. */
static void go_to(const struct trip *trip, const struct cpu_event *event)
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
static int use_up(struct perf_cpus *perf, const struct trip *trip)
{
	int rc = 0;

	for (size_t i = perf->cpu_count; i-- > 0 && rc == 0;) {
		go_to(trip, &perf->cpus[i]);
		rc = switch_event(&perf->cpus[i], PERF_EVENT_IOC_ENABLE);
		perf->cpus[i].used_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	}
	for (size_t i = 0; i < perf->cpu_count && rc == 0; i++) {
		go_to(trip, &perf->cpus[i]);
		perf->cpus[i].used_ns =
			fgt_clock_ns(CLOCK_MONOTONIC) - perf->cpus[i].used_ns;
		rc = switch_event(&perf->cpus[i], PERF_EVENT_IOC_DISABLE);
	}
	return rc;
}

/* One after the other, so that all fire at the same time. */
static int enable(struct perf_cpus *perf, const struct trip *trip,
		  struct fgt_running_started *ret_started)
{
	uint64_t begin_ns = 0, before_ns, after_ns;
	int rc = 0;

	*ret_started = (struct fgt_running_started){ .first_ns = UINT64_MAX };
	for (size_t i = 0; i < perf->cpu_count && rc == 0; i++) {
		struct cpu_event *event = &perf->cpus[i];

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
	const struct perf_cpus *perf = state;

	for (size_t i = 0; i < perf->cpu_count; i++)
		ioctl(perf->cpus[i].fd, PERF_EVENT_IOC_DISABLE, 0);
}

static int enable_together(struct perf_cpus *perf, uint64_t period_ns,
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
	struct perf_cpus *perf = state;
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
	struct perf_cpus *perf = state;

	for (size_t i = 0; i < perf->cpu_count; i++)
		fgt_perf_buffer_drain(&perf->cpus[i].buffer, handler);
}

static void perf_note_size(void *state, bool is_too_short)
{
	struct perf_cpus *perf = state;

	perf->samples++;
	perf->short_samples += is_too_short;
}

static int perf_adapt(void *state)
{
	struct perf_cpus *perf = state;
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
	close_cpus(perf);
	if (open_cpus(perf, configured_cpus()) == 0)
		return 1;
	close_cpus(perf);
	perf->stack_bytes = before;
	rc = open_cpus(perf, configured_cpus());
	return rc < 0 ? rc : 1;
}

const struct fgt_running fgt_running_perf_cpu = {
	.name = "perf-cpu",
	.pace = FGT_RUNNING_AT_TICKS,
	.open = perf_open,
	.close = perf_close,
	.drain = perf_drain,
	.start = perf_start,
	.stop = perf_stop,
	.note_size = perf_note_size,
	.adapt = perf_adapt,
};
