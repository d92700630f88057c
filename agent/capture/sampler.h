/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler: one thread that ticks, all targets of an agent.
 * Never touches a blocked thread: no signal, no stop.
 */
#ifndef FGT_AGENT_CAPTURE_SAMPLER_H
#define FGT_AGENT_CAPTURE_SAMPLER_H

#include "agent/capture/running/running.h"
#include "agent/capture/target.h"
#include "agent/capture/threads/process.h"
#include "agent/capture/who_ran/switches.h"
#include "agent/config/choices.h"
#include "agent/unwind/maps/image_file.h"
#include "ringbuf/base/heartbeat.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/base/why.h"
#include "ringbuf/ring/ring.h"

struct fgt_sampler;

struct fgt_sampler_options {
	unsigned int hz; /* 1 … 1000; 0: 101 */
	unsigned int max_depth; /* 0: 256 */
	struct fgt_ring_options ring; /* hz is taken from above */
	enum fgt_provider provider;
	/* The provider of context switches; NULL: left out of this build, or
	 * of no use. */
	const struct fgt_switch_provider *switches;
	double max_cpu_percent; /* of a core, a target; 0: no limit */
	bool is_self_included; /* sample this very process if attached */
	/*
	 * Only this very process is attached, a program that is a guest: no
	 * privilege is used, no limit raised, few descriptors are kept, no
	 * thread is stopped. The sampler is left out, and these threads.
	 */
	bool is_embedded;
	/* Its threads have heartbeats, and fgt_sampler_give_up() is called for
	 * those that hang. */
	bool is_watched;
	/* Embedded: its system calls are filtered, and a call that it does not
	 * make by itself may end it. */
	bool is_confined;
	/* Embedded: the source of running stacks; NULL: none. */
	const struct fgt_running *running;
	int32_t excluded_tids[FGT_EXCLUDED_MAX - 2]; /* 0: none */
	/* Logs once what is worth knowing (unreadable target, lost
	 * privilege, a process that does not let itself be read); called on the
	 * threads of the sampler and the watchdog, must not block. */
	void (*explain)(void *context, int32_t pid, const char *text);
	void *context;
};

/* Opens what sampling needs and finds out what is permitted; starts nothing.
 * -ENOMEM; a missing permission is not an error here. */
int fgt_sampler_new(const struct fgt_sampler_options *options,
		    struct fgt_image_cache *cache,
		    struct fgt_sampler **ret_sampler);
/* Stops and frees; targets live on until their references are put. */
void fgt_sampler_free(struct fgt_sampler *sampler);
/* In the child of a fork of a process that samples itself: closes what the
 * sampler and its target have open. Nothing may be done with either
 * afterwards. AS-Safe */
void fgt_sampler_forked(const struct fgt_sampler *sampler,
			const struct fgt_target *target);
FGT_DEFINE_AUTO(struct fgt_sampler *, fgt_sampler_free);

/* Any thread, at any time; 0: no limit. */
void fgt_sampler_set_max_cpu(struct fgt_sampler *sampler, double percent);

int fgt_sampler_start(struct fgt_sampler *sampler);
/* Waits for the thread; at most one tick. Idempotent. */
void fgt_sampler_stop(struct fgt_sampler *sampler);

/*
 * Samples a process from the next tick on, into a ring of ring_bytes (0: that
 * of the options). -EEXIST already sampled (ret_target is set), -ESRCH,
 * -EPERM/-EACCES with a remedy, -ENOSPC more than 256 targets, -ENOMEM. Where
 * the sampler is watched, -EAGAIN: the process, or another one of its user,
 * could not be read in time. Any thread.
 */
int fgt_sampler_add(struct fgt_sampler *sampler, int32_t pid, size_t ring_bytes,
		    struct fgt_target **ret_target, struct fgt_why *why);
/* If the sampler is started, waits at most 1 s for the first tick of all that
 * were added. Those that could not be read have been given up then, see
 * fgt_target_is_given_up(). Any thread. */
void fgt_sampler_await(struct fgt_sampler *sampler);
/* Both; -EAGAIN also where the first tick has given it up. */
int fgt_sampler_attach(struct fgt_sampler *sampler, int32_t pid,
		       size_t ring_bytes, struct fgt_target **ret_target,
		       struct fgt_why *why);
/*
 * ---- Threads that hang (is_watched) ----------------------------------------
 *
 * A call about one process may never return. Its thread is given up, and
 * another one goes on with all other processes; that process is sampled no
 * longer, see fgt_target_is_given_up(). For the watchdog's thread.
 */

/* A thread with this heartbeat has been inside one call for too long; of no
 * effect if it is not the sampler's, or has gone on. */
void fgt_sampler_give_up(struct fgt_sampler *sampler,
			 struct fgt_heartbeat *heartbeat, uint64_t beat);
/* A few times a second. */
void fgt_sampler_tend(struct fgt_sampler *sampler);
/* How many threads have not returned, and how many there were. MT-Safe */
void fgt_sampler_get_losses(struct fgt_sampler *sampler, uint32_t *ret_lost,
			    uint64_t *ret_total);

/* Stops sampling it; its ring stays as long as a reference is held. */
int fgt_sampler_detach(struct fgt_sampler *sampler, struct fgt_target *target);

/* What this process may do here, for status and doctor: one text each. */
struct fgt_capabilities {
	bool has_bpf; /* context switches reported by the kernel */
	bool has_perf_cpu; /* per-CPU perf events */
	bool has_perf_thread; /* perf events on own threads */
	bool has_ptrace;
	/* "" if it has it, else cause and remedy. */
	struct fgt_why bpf_why, perf_cpu_why, perf_thread_why, ptrace_why;
};
void fgt_sampler_get_capabilities(const struct fgt_sampler *sampler,
				  struct fgt_capabilities *ret_capabilities);

#endif
