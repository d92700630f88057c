/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perf events on single threads. All write into one buffer per CPU: what may
 * be locked is scarce. Runs in the sampler's thread; must never arm an event on
 * a thread that switches often.
 */
#include "agent/capture/running/running.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
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

struct cpu_buffer {
	int cpu;
	int fd; /* of an event that counts nothing but owns the buffer */
	struct fgt_perf_buffer buffer;
};

struct perf_threads {
	struct cpu_buffer *cpus;
	size_t cpu_count;
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

static int open_dummy(int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_period = 1,
		.sample_type = FGT_PERF_SAMPLE_TYPE,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.watermark = 1,
		.wakeup_watermark = UINT32_MAX,
		.sample_regs_user = fgt_arch_host.perf_regs_mask,
		.sample_stack_user = STACK_BYTES,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, cpu, -1,
			      PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_buffers(struct perf_threads *perf, int configured)
{
	for (int cpu = 0; cpu < configured; cpu++) {
		struct cpu_buffer *buffer = &perf->cpus[perf->cpu_count];
		int rc;

		buffer->cpu = cpu;
		buffer->fd = open_dummy(cpu);
		if (buffer->fd == -ENODEV) /* offline */
			continue;
		if (buffer->fd < 0)
			return buffer->fd;
		rc = fgt_perf_buffer_map(&buffer->buffer, buffer->fd,
					 DATA_PAGES);
		if (rc < 0) {
			fgt_fd_close(buffer->fd);
			return rc;
		}
		perf->cpu_count++;
	}
	return perf->cpu_count ? 0 : -ENODEV;
}

static void threads_close(void *state)
{
	struct perf_threads *perf = state;

	if (!perf)
		return;
	for (size_t i = 0; i < perf->cpu_count; i++) {
		fgt_perf_buffer_unmap(&perf->cpus[i].buffer);
		fgt_fd_close(perf->cpus[i].fd);
	}
	free(perf->cpus);
	free(perf);
}
FGT_DEFINE_AUTO(struct perf_threads *, threads_close);

static int threads_open(struct fgt_fd_budget *budget, uint64_t period_ns,
			void **ret_state, struct fgt_why *why)
{
	FGT_AUTO(threads_close) struct perf_threads *perf = NULL;
	long configured = sysconf(_SC_NPROCESSORS_CONF);
	int rc;

	(void)period_ns;
	if (configured < 1 || configured > (long)EVENTS_MAX)
		return fgt_why_set(why, -ENOTSUP,
				   "too many CPUs for perf events on threads");
	perf = calloc(1, sizeof(*perf));
	if (!perf)
		return fgt_why_set(why, -ENOMEM, "out of memory");
	perf->cpus = calloc((size_t)configured, sizeof(*perf->cpus));
	if (!perf->cpus)
		return fgt_why_set(why, -ENOMEM, "out of memory");
	perf->budget = budget;
	rc = open_buffers(perf, (int)configured);
	if (rc < 0)
		return fgt_perf_explain(rc, false, why);
	*ret_state = FGT_TAKE(perf);
	return 0;
}

static void threads_drop(void *state, struct fgt_thread *thread)
{
	struct perf_threads *perf = state;
	struct thread_events *events = FGT_TAKE(thread->active->source);

	if (!events)
		return;
	for (size_t i = 0; i < events->count; i++)
		fgt_fd_budget_close(perf->budget, &events->fds[i]);
	perf->event_count -= events->count;
	free(events);
}

static int open_on_cpu(struct perf_threads *perf,
		       const struct fgt_thread *thread,
		       const struct cpu_buffer *buffer, int *ret_fd)
{
	const struct thread_events *events = thread->active->source;
	FGT_AUTO(fgt_fd_close) int fd = -1;
	int opened;

	opened = fgt_perf_open_cpu_clock(thread->tid, buffer->cpu,
					 events->period_ns, events->stack_bytes,
					 false);
	if (opened < 0)
		return opened;
	fd = opened;
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, buffer->fd) < 0)
		return -errno;
	if (!fgt_fd_budget_take(perf->budget))
		return -EMFILE;
	*ret_fd = FGT_TAKE_FD(fd);
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

static int arm(struct perf_threads *perf, struct fgt_thread *thread,
	       uint64_t period_ns)
{
	struct thread_events *events;
	int rc = 0;

	if (perf->event_count + perf->cpu_count > EVENTS_MAX)
		return -EMFILE;
	events = calloc(1, sizeof(*events) + perf->cpu_count * sizeof(int));
	if (!events)
		return -ENOMEM;
	thread->active->source = events;
	events->stack_bytes = stack_bytes_for(thread);
	events->period_ns = period_ns;
	for (size_t i = 0; i < perf->cpu_count && rc == 0; i++) {
		rc = open_on_cpu(perf, thread, &perf->cpus[i], &events->fds[i]);
		if (rc == 0) {
			events->count++;
			perf->event_count++;
		}
	}
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
	struct perf_threads *perf = state;
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
	struct perf_threads *perf = state;

	for (size_t i = 0; i < perf->cpu_count; i++)
		fgt_perf_buffer_drain(&perf->cpus[i].buffer, handler);
}

const struct fgt_running fgt_running_perf_thread = {
	.name = "perf-thread",
	.pace = FGT_RUNNING_BY_CPU_TIME,
	.open = threads_open,
	.close = threads_close,
	.drain = threads_drain,
	.consider = threads_consider,
	.drop = threads_drop,
	.is_watched = threads_is_watched,
};
