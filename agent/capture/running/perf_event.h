/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What perf events of CPUs and those of threads share: how they are opened, and
 * one buffer for each CPU.
 *
 * Runs in the sampler's thread; the thread that makes a sampler opens its
 * events. MT-Unsafe for one set of buffers | AS-Unsafe
 */
#ifndef FGT_AGENT_CAPTURE_RUNNING_PERF_EVENT_H
#define FGT_AGENT_CAPTURE_RUNNING_PERF_EVENT_H

#include "agent/capture/running/perf_buffer.h"
#include "ringbuf/base/why.h"

/* A software event whose samples have the user registers and stack_bytes of
 * the stack. In user mode only. */
struct perf_event_attr fgt_perf_attr(uint64_t config, uint64_t period_ns,
				     uint32_t stack_bytes);
/* perf_event_open(2); fd or negative errno. */
int fgt_perf_open(const struct perf_event_attr *attr, int32_t tid, int cpu);
/* Cause and remedy of its refusal. */
int fgt_perf_explain(int error, bool is_for_all, struct fgt_why *why);

/* One CPU that is online. */
struct fgt_perf_cpu {
	int cpu, fd; /* fd: of the event that owns the buffer */
	uint64_t used_ns; /* of its first period; see running_perf_cpu.c */
	struct fgt_perf_buffer buffer;
};

struct fgt_perf_cpus {
	struct fgt_perf_cpu *items;
	size_t count;
};

/*
 * Opens an event and maps a buffer of page_count pages on each CPU that is
 * online. -ENOMEM, errno of perf_event_open(2) and mmap(2): none is open then.
 */
int fgt_perf_cpus_open(struct fgt_perf_cpus *cpus,
		       const struct perf_event_attr *attr, size_t page_count);
/* Twice is no harm. */
void fgt_perf_cpus_close(struct fgt_perf_cpus *cpus);
/* Hands out all that the buffers hold. */
void fgt_perf_cpus_drain(const struct fgt_perf_cpus *cpus,
			 const struct fgt_running_handler *handler);

#endif
