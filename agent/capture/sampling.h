/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler's thread and what it shares with those who give it orders.
 */
#ifndef FGT_AGENT_CAPTURE_SAMPLING_H
#define FGT_AGENT_CAPTURE_SAMPLING_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/capture/target_sampling.h"

#define FGT_TARGETS_MAX 256u

struct fgt_sampler {
	struct fgt_sampler_options options;
	struct fgt_image_cache *cache; /* borrowed */
	struct fgt_fd_budget budget;

	/*
	 * Protects what follows; nests inside nothing, and only a target's
	 * mutex nests inside it. changed: the thread has work, or has done it.
	 */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct fgt_target *targets[FGT_TARGETS_MAX];
	uint32_t target_count; /* only the thread takes any out, if it runs */
	struct fgt_capabilities capabilities;
	bool is_started, shall_stop;

	/* The thread's own. */
	pthread_t thread;
	uint64_t period_ns;
	struct fgt_running_perf *perf_cpu;
	struct fgt_switches *switches;
	struct fgt_perf_threads *perf_threads;
	struct fgt_ptrace ptrace;
	int timer_fd, last_pid_fd;
	uint64_t due_ns; /* when the timer fires next */
	bool is_armed, has_ptrace;
	uint32_t ticks_since_adapt;
	char limitation[240]; /* of the sources that are open now */
	uint8_t *buffer; /* [2 * FGT_SNAPSHOT_MAX_BYTES] */
	/* A copy of targets, stable during a tick. */
	struct fgt_target *ticking[FGT_TARGETS_MAX];
	uint32_t ticking_count;
};

/* Opens what the thread needs and finds out what is permitted. -ENOMEM. */
int fgt_sampling_open(struct fgt_sampler *sampler);
void fgt_sampling_close(struct fgt_sampler *sampler);

/* The thread. */
void *fgt_sampling_run(void *sampler);

/* Takes a target out; with the mutex held, the caller gets the reference. */
struct fgt_target *fgt_sampling_remove(struct fgt_sampler *sampler,
				       uint32_t index);

/*
 * First instant at which to tick: delay_ns after an instant that is a whole
 * number of periods after enabled_ns, and not before now_ns.
 */
uint64_t fgt_sampling_phase(uint64_t enabled_ns, uint64_t now_ns,
			    uint64_t period_ns, uint64_t delay_ns);

#endif
