/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening of perf events, and what their buffers hold. Runs in the sampler's
 * thread; must not look into the stack bytes of processes that are no targets.
 */
#include "agent/capture/running/perf_event.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture/threads/procfs.h"
#include "ringbuf/base/array.h"
#include "ringbuf/base/owner.h"

#define PAGES_MIN     4u
#define PARANOID_FILE "/proc/sys/kernel/perf_event_paranoid"

struct perf_event_attr fgt_perf_attr(uint64_t config, uint64_t period_ns,
				     uint32_t stack_bytes)
{
	return (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(struct perf_event_attr),
		.config = config,
		.sample_period = period_ns,
		.sample_type = FGT_PERF_SAMPLE_TYPE,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.exclude_idle = 1,
		.watermark = 1,
		.wakeup_watermark = UINT32_MAX, /* never wake */
		.sample_regs_user = fgt_arch_host.perf_regs_mask,
		.sample_stack_user = stack_bytes,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
}

int fgt_perf_open(const struct perf_event_attr *attr, int32_t tid, int cpu)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, tid, cpu, -1,
			      PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int fgt_perf_explain(int error, bool is_for_all, struct fgt_why *why)
{
	int paranoid = (int)fgt_procfs_read_number(AT_FDCWD, PARANOID_FILE, -2);
	int allowed = is_for_all ? 0 : 2;

	if (error == -ENOSYS || paranoid == -2)
		return fgt_why_set(why, error,
				   "this kernel has no perf events: use one "
				   "with CONFIG_PERF_EVENTS");
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

/* ---- One buffer for each CPU -------------------------------------------- */

static int open_on_cpu(struct fgt_perf_cpu *event,
		       const struct perf_event_attr *attr, int cpu,
		       size_t page_count)
{
	int rc;

	event->cpu = cpu;
	event->fd = fgt_perf_open(attr, -1, cpu);
	if (event->fd < 0)
		return event->fd;
	rc = fgt_perf_buffer_map(&event->buffer, event->fd, page_count,
				 PAGES_MIN);
	if (rc < 0)
		fgt_fd_close(event->fd);
	return rc;
}

int fgt_perf_cpus_open(struct fgt_perf_cpus *cpus,
		       const struct perf_event_attr *attr, size_t page_count)
{
	long configured = sysconf(_SC_NPROCESSORS_CONF);
	int rc = 0;

	cpus->count = 0;
	if (!FGT_ARRAY_NEW(cpus->items, configured))
		return -ENOMEM;
	for (int cpu = 0; cpu < configured && rc == 0; cpu++) {
		rc = open_on_cpu(&cpus->items[cpus->count], attr, cpu,
				 page_count);
		if (rc == 0)
			cpus->count++;
		else if (rc == -ENODEV) /* offline */
			rc = 0;
	}
	if (rc == 0 && cpus->count == 0)
		rc = -ENODEV;
	if (rc < 0)
		fgt_perf_cpus_close(cpus);
	return rc;
}

void fgt_perf_cpus_close(struct fgt_perf_cpus *cpus)
{
	for (size_t i = 0; i < cpus->count; i++) {
		fgt_perf_buffer_unmap(&cpus->items[i].buffer);
		fgt_fd_close(cpus->items[i].fd);
	}
	free(cpus->items);
	*cpus = (struct fgt_perf_cpus){ 0 };
}

static void take_sample(const struct fgt_running_handler *handler,
			const struct perf_event_header *header)
{
	struct fgt_running_sample sample;

	if (!handler->is_wanted(handler->context, fgt_perf_sample_pid(header)))
		return;
	if (fgt_perf_sample_parse(header, &fgt_arch_host, &sample) == 0)
		handler->sample(handler->context, &sample);
}

static void take_task(const struct fgt_running_handler *handler,
		      const struct perf_event_header *header)
{
	struct fgt_running_task task;

	if (fgt_perf_task_parse(header, &task) < 0)
		return;
	if (handler->is_wanted(handler->context, task.pid) ||
	    (header->type == PERF_RECORD_EXIT && task.tid == task.pid &&
	     handler->is_wanted(handler->context, task.parent_pid)))
		handler->task(handler->context, header->type, &task);
}

static void drain(struct fgt_perf_buffer *buffer,
		  const struct fgt_running_handler *handler)
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

void fgt_perf_cpus_drain(const struct fgt_perf_cpus *cpus,
			 const struct fgt_running_handler *handler)
{
	for (size_t i = 0; i < cpus->count; i++)
		drain(&cpus->items[i].buffer, handler);
}
