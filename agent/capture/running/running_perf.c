/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Per-CPU perf events. Runs in the sampler's thread; must not look into the
 * stack bytes of processes that nobody asked for.
 */
#include "agent/capture/running/running_perf.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/capture/threads/procfs.h"
#include "ringbuf/base/clock.h"

#define PARANOID_FILE "/proc/sys/kernel/perf_event_paranoid"
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

struct fgt_running_perf {
	struct cpu_event *cpus;
	size_t cpu_count;
	uint64_t period_ns;
	uint32_t stack_bytes;
	uint32_t samples, short_samples;
};

int fgt_perf_open_cpu_clock(int32_t tid, int cpu, uint64_t period_ns,
			    uint32_t stack_bytes, bool is_for_all)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = period_ns,
		.sample_type = FGT_PERF_SAMPLE_TYPE,
		.disabled = is_for_all,
		.exclude_kernel = !is_for_all,
		.exclude_hv = 1,
		.exclude_idle = 1,
		.mmap = is_for_all,
		.mmap2 = is_for_all,
		.comm = is_for_all,
		.comm_exec = is_for_all,
		.task = is_for_all,
		.watermark = 1,
		.wakeup_watermark = UINT32_MAX, /* nobody polls */
		.sample_regs_user = fgt_arch_host.perf_regs_mask,
		.sample_stack_user = stack_bytes,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, tid, cpu, -1,
			      PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int fgt_perf_explain(int error, bool is_for_all, struct fgt_why *why)
{
	int paranoid = (int)fgt_procfs_read_number(AT_FDCWD, PARANOID_FILE, -2);
	int allowed = is_for_all ? 0 : 2;

	if (error == -ENOSYS || paranoid == -2)
		return fgt_why_set(why, error,
				   "this kernel has no perf events");
	if (error != -EACCES && error != -EPERM)
		return fgt_why_set(why, error, "perf_event_open: %s",
				   strerror(-error));
	if (paranoid > allowed)
		return fgt_why_set(why, error,
				   "perf events of %s need CAP_PERFMON or "
				   "sysctl kernel.perf_event_paranoid <= %d "
				   "(it is %d)",
				   is_for_all ? "all CPUs" : "own threads",
				   allowed, paranoid);
	return fgt_why_set(why, error,
			   "perf_event_open is forbidden although "
			   "kernel.perf_event_paranoid is %d: a seccomp filter "
			   "(container profile) or security module must "
			   "allow it",
			   paranoid);
}

static void close_cpus(struct fgt_running_perf *perf)
{
	for (size_t i = 0; i < perf->cpu_count; i++) {
		fgt_perf_buffer_unmap(&perf->cpus[i].buffer);
		fgt_fd_close(perf->cpus[i].fd);
	}
	perf->cpu_count = 0;
}

static int open_cpu(struct fgt_running_perf *perf, int cpu)
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

static int open_cpus(struct fgt_running_perf *perf, int configured)
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

int fgt_running_perf_open(uint64_t period_ns,
			  struct fgt_running_perf **ret_perf,
			  struct fgt_why *why)
{
	FGT_AUTO(fgt_running_perf_close) struct fgt_running_perf *perf = NULL;
	int configured = configured_cpus();
	int rc;

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
	*ret_perf = FGT_TAKE(perf);
	return 0;
}

void fgt_running_perf_close(struct fgt_running_perf *perf)
{
	if (!perf)
		return;
	if (perf->cpus)
		close_cpus(perf);
	free(perf->cpus);
	free(perf);
}

/* Also where it is the same: what is left of the last one is forgotten. */
static void set_period(struct fgt_running_perf *perf, uint64_t period_ns)
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

/* Where that is not allowed, the CPU is told from afar, which takes longer. */
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
static int use_up(struct fgt_running_perf *perf, const struct trip *trip)
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
static int enable(struct fgt_running_perf *perf, const struct trip *trip,
		  struct fgt_perf_enabled *ret_enabled)
{
	uint64_t begin_ns = 0, before_ns, after_ns;
	int rc = 0;

	*ret_enabled = (struct fgt_perf_enabled){ .first_ns = UINT64_MAX };
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
		if (before_ns < ret_enabled->first_ns)
			ret_enabled->first_ns = before_ns;
		if (after_ns > ret_enabled->last_ns)
			ret_enabled->last_ns = after_ns;
	}
	return rc;
}

static int enable_together(struct fgt_running_perf *perf, uint64_t period_ns,
			   const struct trip *trip,
			   struct fgt_perf_enabled *ret_enabled)
{
	int rc = 0;

	fgt_running_perf_disable(perf);
	set_period(perf, period_ns);
	if (trip->may_go)
		rc = use_up(perf, trip);
	return rc < 0 ? rc : enable(perf, trip, ret_enabled);
}

int fgt_running_perf_enable(struct fgt_running_perf *perf, uint64_t period_ns,
			    struct fgt_perf_enabled *ret_enabled)
{
	uint64_t spread_ns = UINT64_MAX;
	struct trip trip;
	int rc = 0;

	begin_trip(&trip);
	for (int i = 0; i < ENABLE_TRIES && rc == 0 && spread_ns > SPREAD_NS;
	     i++) {
		rc = enable_together(perf, period_ns, &trip, ret_enabled);
		spread_ns = ret_enabled->last_ns - ret_enabled->first_ns;
	}
	end_trip(&trip);
	return rc;
}

void fgt_running_perf_disable(struct fgt_running_perf *perf)
{
	for (size_t i = 0; i < perf->cpu_count; i++)
		ioctl(perf->cpus[i].fd, PERF_EVENT_IOC_DISABLE, 0);
}

static void take_sample(const struct fgt_perf_handler *handler,
			const struct perf_event_header *header)
{
	struct fgt_perf_sample sample;

	if (!handler->is_wanted(handler->context, fgt_perf_sample_pid(header)))
		return;
	if (fgt_perf_sample_parse(header, &fgt_arch_host, &sample) == 0)
		handler->sample(handler->context, &sample);
}

static void take_task(const struct fgt_perf_handler *handler,
		      const struct perf_event_header *header)
{
	struct fgt_perf_task task;

	if (fgt_perf_task_parse(header, &task) == 0 &&
	    handler->is_wanted(handler->context, task.pid))
		handler->task(handler->context, header->type, &task);
}

void fgt_perf_buffer_drain(struct fgt_perf_buffer *buffer,
			   const struct fgt_perf_handler *handler)
{
	const struct perf_event_header *header;
	bool is_broken;

	while ((header = fgt_perf_buffer_next(buffer, &is_broken))) {
		switch (header->type) {
		case PERF_RECORD_SAMPLE:
			take_sample(handler, header);
			break;
		case PERF_RECORD_FORK:
		case PERF_RECORD_EXIT:
		case PERF_RECORD_COMM:
		case PERF_RECORD_MMAP2:
			take_task(handler, header);
			break;
		case PERF_RECORD_LOST:
			handler->lost(handler->context);
			break;
		default:
			break;
		}
	}
	if (is_broken)
		handler->lost(handler->context);
	fgt_perf_buffer_release(buffer);
}

void fgt_running_perf_drain(struct fgt_running_perf *perf,
			    const struct fgt_perf_handler *handler)
{
	for (size_t i = 0; i < perf->cpu_count; i++)
		fgt_perf_buffer_drain(&perf->cpus[i].buffer, handler);
}

void fgt_running_perf_note(struct fgt_running_perf *perf, bool is_too_short)
{
	perf->samples++;
	perf->short_samples += is_too_short;
}

int fgt_running_perf_adapt(struct fgt_running_perf *perf)
{
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
