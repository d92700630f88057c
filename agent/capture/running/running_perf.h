/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of whatever is on a CPU: one perf event per CPU for all targets, and
 * the births, deaths, names and mappings that the kernel tells along with it.
 * Needs CAP_PERFMON (or kernel.perf_event_paranoid <= 0).
 */
#ifndef FGT_AGENT_CAPTURE_RUNNING_RUNNING_PERF_H
#define FGT_AGENT_CAPTURE_RUNNING_RUNNING_PERF_H

#include "agent/capture/running/perf_buffer.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/base/why.h"

/* Who takes what the buffers hold. Called in the thread that drains. */
struct fgt_perf_handler {
	bool (*is_wanted)(void *context, int32_t pid);
	void (*sample)(void *context, const struct fgt_perf_sample *sample);
	/* type: PERF_RECORD_FORK, _EXIT, _COMM, _MMAP2; only of wanted pids */
	void (*task)(void *context, uint32_t type,
		     const struct fgt_perf_task *task);
	void (*lost)(void *context); /* records were dropped */
	void *context;
};

/* Takes all that one buffer holds. */
void fgt_perf_buffer_drain(struct fgt_perf_buffer *buffer,
			   const struct fgt_perf_handler *handler);

struct fgt_running_perf;

/*
 * Opens one disabled event per CPU. -EACCES/-EPERM/-ENOSYS with why naming
 * the sysctl, the capability or the filter; -EMFILE, -ENOMEM.
 */
int fgt_running_perf_open(uint64_t period_ns,
			  struct fgt_running_perf **ret_perf,
			  struct fgt_why *why);
void fgt_running_perf_close(struct fgt_running_perf *perf);
FGT_DEFINE_AUTO(struct fgt_running_perf *, fgt_running_perf_close);

/* Between these instants (CLOCK_MONOTONIC) the events of all CPUs began. */
struct fgt_perf_enabled {
	uint64_t first_ns, last_ns;
};

/*
 * Switches all events on or off. They then fire once in period_ns, the first
 * time one period after *ret_enabled: draining is best done a little after the
 * last of them. A real-time thread visits all CPUs to switch them on together,
 * in some 0.1 ms a CPU, in which no event tells anything.
 */
int fgt_running_perf_enable(struct fgt_running_perf *perf, uint64_t period_ns,
			    struct fgt_perf_enabled *ret_enabled);
void fgt_running_perf_disable(struct fgt_running_perf *perf);

void fgt_running_perf_drain(struct fgt_running_perf *perf,
			    const struct fgt_perf_handler *handler);

/* Tells that a stack was longer (or not) than what a sample may hold. */
void fgt_running_perf_note(struct fgt_running_perf *perf, bool is_too_short);
/*
 * If more than 1 % were too short: opens all anew with twice the room; they
 * are disabled then. 1 if so, 0 if not; negative errno: none is open now.
 */
int fgt_running_perf_adapt(struct fgt_running_perf *perf);

/* perf_event_open(2) for the CPU clock; fd or negative errno. */
int fgt_perf_open_cpu_clock(int32_t tid, int cpu, uint64_t period_ns,
			    uint32_t stack_bytes, bool is_for_all);
/* Cause and remedy of its refusal. */
int fgt_perf_explain(int error, bool is_for_all, struct fgt_why *why);

#endif
