/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders to the sampler's thread: start, stop, attach, detach. Runs in any
 * thread.
 */
#include "agent/capture/sampler.h"

#include <errno.h>
#include <time.h>

#include "agent/capture/sampling.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/thread.h"

#define HZ_DEFAULT 101u
#define HZ_MAX	   1000u
#define WAIT_NS	   1000000000u

static unsigned int clamp_hz(unsigned int hz)
{
	if (hz == 0)
		return HZ_DEFAULT;
	return hz > HZ_MAX ? HZ_MAX : hz;
}

static void init_locks(struct fgt_sampler *sampler)
{
	pthread_condattr_t attributes;

	pthread_mutex_init(&sampler->mutex, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&sampler->changed, &attributes);
	pthread_condattr_destroy(&attributes);
}

int fgt_sampler_new(const struct fgt_sampler_options *options,
		    struct fgt_image_cache *cache,
		    struct fgt_sampler **ret_sampler)
{
	FGT_AUTO(fgt_sampler_free)
	struct fgt_sampler *sampler = calloc(1, sizeof(*sampler));
	int rc;

	if (!sampler)
		return -ENOMEM;
	sampler->options = *options;
	sampler->options.hz = clamp_hz(options->hz);
	sampler->cache = cache;
	sampler->timer_periods = 1;
	sampler->running = &fgt_running_none;
	sampler->timer_fd = sampler->last_pid_fd = -1;
	init_locks(sampler);
	rc = fgt_sampling_open(sampler);
	if (rc < 0)
		return rc;
	*ret_sampler = FGT_TAKE(sampler);
	return 0;
}

void fgt_sampler_free(struct fgt_sampler *sampler)
{
	struct fgt_sampled *returned;

	if (!sampler)
		return;
	fgt_sampler_stop(sampler);
	fgt_sampler_tend(sampler); /* threads that have ended since */
	while ((returned = fgt_sampling_take_returned(sampler)))
		fgt_sampled_free(returned);
	while (sampler->target_count)
		fgt_sampled_free(fgt_sampling_remove(sampler, 0));
	fgt_sampling_close(sampler);
	pthread_cond_destroy(&sampler->changed);
	pthread_mutex_destroy(&sampler->mutex);
	free(sampler);
}

void fgt_sampler_forked(const struct fgt_sampler *sampler,
			const struct fgt_target *target)
{
	fgt_fd_close(sampler->timer_fd);
	fgt_fd_close(sampler->last_pid_fd);
	for (uint32_t i = 0; i < sampler->target_count; i++) {
		const struct fgt_process *process =
			&sampler->targets[i]->look.process;

		fgt_fd_close(process->pidfd);
		fgt_fd_close(process->proc_fd);
		fgt_fd_close(process->task_fd);
	}
	fgt_target_forked(target);
	fgt_fd_budget_forked(&sampler->budget);
}

void fgt_sampler_set_max_cpu(struct fgt_sampler *sampler, double percent)
{
	pthread_mutex_lock(&sampler->mutex);
	sampler->options.max_cpu_percent = percent;
	pthread_mutex_unlock(&sampler->mutex);
}

int fgt_sampler_start(struct fgt_sampler *sampler)
{
	int rc;

	if (sampler->is_started)
		return 0;
	sampler->shall_stop = sampler->has_left = false;
	rc = fgt_thread_start(0, fgt_sampling_run, sampler, &sampler->thread);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&sampler->mutex);
	sampler->is_started = true;
	pthread_mutex_unlock(&sampler->mutex);
	return 0;
}

void fgt_sampler_stop(struct fgt_sampler *sampler)
{
	bool has_thread;

	pthread_mutex_lock(&sampler->mutex);
	has_thread = sampler->is_started;
	sampler->shall_stop = true;
	sampler->is_started = false;
	pthread_cond_broadcast(&sampler->changed);
	/* It may be given up meanwhile. */
	while (has_thread && sampler->options.is_watched &&
	       !sampler->has_left && !sampler->needs_thread)
		pthread_cond_wait(&sampler->changed, &sampler->mutex);
	has_thread &= !sampler->needs_thread;
	sampler->needs_thread = false;
	pthread_mutex_unlock(&sampler->mutex);
	if (has_thread)
		pthread_join(sampler->thread, NULL);
}

static uint32_t index_of(const struct fgt_sampler *sampler,
			 const struct fgt_target *target)
{
	uint32_t i = 0;

	while (i < sampler->target_count &&
	       sampler->targets[i]->target != target)
		i++;
	return i;
}

static struct fgt_target *find(const struct fgt_sampler *sampler,
			       const struct fgt_target *like)
{
	for (uint32_t i = 0; i < sampler->target_count; i++) {
		struct fgt_target *target = sampler->targets[i]->target;

		if (!sampler->targets[i]->is_detached &&
		    fgt_target_pid(target) == fgt_target_pid(like) &&
		    fgt_target_start_time(target) ==
			    fgt_target_start_time(like))
			return target;
	}
	return NULL;
}

/* Each has ticked, or does not tick any more. */
static bool have_ticked(const struct fgt_sampler *sampler)
{
	for (uint32_t i = 0; i < sampler->target_count; i++)
		if (!sampler->targets[i]->has_ticked &&
		    fgt_target_is_alive(sampler->targets[i]->target))
			return false;
	return true;
}

/* With the mutex held. False: until has passed. */
static bool wait_until(struct fgt_sampler *sampler,
		       const struct timespec *until)
{
	return pthread_cond_timedwait(&sampler->changed, &sampler->mutex,
				      until) != ETIMEDOUT;
}

/* The next tick comes within two periods: each is at a random place in one. */
static struct timespec after_a_tick(const struct fgt_sampler *sampler)
{
	return fgt_timespec_of(fgt_clock_ns(CLOCK_MONOTONIC) + WAIT_NS +
			       2 * sampler->period_ns);
}

int fgt_sampler_add(struct fgt_sampler *sampler, int32_t pid, size_t ring_bytes,
		    struct fgt_target **ret_target, struct fgt_why *why)
{
	FGT_AUTO(fgt_sampled_free) struct fgt_sampled *sampled = NULL;
	struct fgt_target *known;
	int rc;

	if (pid == getpid() && !sampler->options.is_self_included)
		return fgt_why_set(why, -EPERM,
				   "process %d is the agent itself: set "
				   "sampling.include_self to sample it",
				   pid);
	fgt_heartbeat_set(fgt_heartbeat_of_caller(), FGT_STEP_WORK, pid);
	if (sampler->options.is_watched)
		rc = fgt_sampler_open_target(sampler, pid, ring_bytes, &sampled,
					     why);
	else
		rc = fgt_sampled_new(pid, ring_bytes, &sampler->options,
				     sampler->cache, &sampler->budget, &sampled,
				     why);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&sampler->mutex);
	known = find(sampler, sampled->target);
	if (known) {
		*ret_target = fgt_target_get(known);
		rc = fgt_why_set(why, -EEXIST,
				 "process %d is sampled already: detach it "
				 "first",
				 pid);
	} else if (sampler->target_count == FGT_TARGETS_MAX) {
		rc = fgt_why_set(why, -ENOSPC,
				 "%u processes are sampled already: detach "
				 "one first",
				 FGT_TARGETS_MAX);
	} else {
		*ret_target = fgt_target_get(sampled->target);
		sampler->targets[sampler->target_count++] = FGT_TAKE(sampled);
		pthread_cond_broadcast(&sampler->changed);
	}
	pthread_mutex_unlock(&sampler->mutex);
	return rc;
}

void fgt_sampler_await(struct fgt_sampler *sampler)
{
	struct timespec until = after_a_tick(sampler);

	fgt_heartbeat_set(fgt_heartbeat_of_caller(), FGT_STEP_WORK, 0);
	pthread_mutex_lock(&sampler->mutex);
	while (sampler->is_started && !have_ticked(sampler) &&
	       wait_until(sampler, &until))
		;
	pthread_mutex_unlock(&sampler->mutex);
}

int fgt_sampler_attach(struct fgt_sampler *sampler, int32_t pid,
		       size_t ring_bytes, struct fgt_target **ret_target,
		       struct fgt_why *why)
{
	int rc = fgt_sampler_add(sampler, pid, ring_bytes, ret_target, why);

	if (rc == 0)
		fgt_sampler_await(sampler);
	if (rc == 0 && fgt_target_is_given_up(*ret_target)) {
		fgt_target_put(*ret_target);
		rc = fgt_why_set(why, -EAGAIN, FGT_GIVEN_UP, "reading it");
	}
	return rc;
}

int fgt_sampler_detach(struct fgt_sampler *sampler, struct fgt_target *target)
{
	struct timespec until = after_a_tick(sampler);
	struct fgt_sampled *removed = NULL;
	uint32_t index;

	pthread_mutex_lock(&sampler->mutex);
	index = index_of(sampler, target);
	if (index == sampler->target_count) {
		pthread_mutex_unlock(&sampler->mutex);
		return -ESRCH;
	}
	sampler->targets[index]->is_detached = true;
	if (!sampler->is_started)
		removed = fgt_sampling_remove(sampler, index);
	while (sampler->is_started &&
	       index_of(sampler, target) < sampler->target_count &&
	       wait_until(sampler, &until))
		;
	pthread_mutex_unlock(&sampler->mutex);
	fgt_sampled_free(removed);
	return 0;
}

void fgt_sampler_get_capabilities(const struct fgt_sampler *sampler,
				  struct fgt_capabilities *ret_capabilities)
{
	struct fgt_sampler *locked = (struct fgt_sampler *)sampler;

	pthread_mutex_lock(&locked->mutex);
	*ret_capabilities = locked->capabilities;
	pthread_mutex_unlock(&locked->mutex);
}
