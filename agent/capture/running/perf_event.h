/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perf events on the CPU clock: what those of CPUs and those of threads share.
 */
#ifndef FGT_AGENT_CAPTURE_RUNNING_PERF_EVENT_H
#define FGT_AGENT_CAPTURE_RUNNING_PERF_EVENT_H

#include "agent/capture/running/perf_buffer.h"
#include "ringbuf/base/why.h"

/* perf_event_open(2) for the CPU clock; fd or negative errno. */
int fgt_perf_open_cpu_clock(int32_t tid, int cpu, uint64_t period_ns,
			    uint32_t stack_bytes, bool is_for_all);
/* Cause and remedy of its refusal. */
int fgt_perf_explain(int error, bool is_for_all, struct fgt_why *why);

/* Hands out all that one buffer holds. */
void fgt_perf_buffer_drain(struct fgt_perf_buffer *buffer,
			   const struct fgt_running_handler *handler);

#endif
