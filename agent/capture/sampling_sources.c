/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes what the sampler's thread works with: sources of running
 * stacks, the provider of switches, timer and room. Runs before and after that
 * thread, and in it.
 */
#include "agent/capture/sampling.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/unwind/arch/memory.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd.h"

#define SECOND_NS     1000000000u
#define LAST_PID_FILE "/proc/sys/kernel/ns_last_pid"

void fgt_sampling_drop_switches(struct fgt_sampler *sampler)
{
	for (uint32_t i = 0; i < sampler->ticking_count; i++)
		fgt_sampled_leave_switches(sampler->ticking[i],
					   fgt_clock_ns(CLOCK_MONOTONIC));
	fgt_sampling_leave_lost(sampler, fgt_clock_ns(CLOCK_MONOTONIC));
	if (sampler->switches)
		sampler->switches->provider->close(FGT_TAKE(sampler->switches));
}

static void close_sources(struct fgt_sampler *sampler)
{
	fgt_sampling_drop_switches(sampler);
	if (sampler->running->close)
		sampler->running->close(FGT_TAKE(sampler->running_state));
	sampler->running = &fgt_running_none;
	sampler->is_armed = false;
}

bool fgt_sampling_has_cpu_events(const struct fgt_sampler *sampler)
{
	return sampler->running->timing == FGT_RUNNING_AT_TICKS;
}

/* Switches are of use only beside samples of all CPUs. */
static void open_switches(struct fgt_sampler *sampler,
			  struct fgt_capabilities *may)
{
	const struct fgt_switch_provider *provider = sampler->options.switches;
	struct fgt_why *why = &may->bpf_why;

	if (!fgt_sampling_has_cpu_events(sampler))
		fgt_why_set(why, -EPERM,
			    "BPF needs CAP_BPF and CAP_PERFMON, and perf "
			    "events beside it: %s",
			    may->perf_cpu_why.text);
	else if (sampler->options.provider == FGT_PROVIDER_SCHEDSTAT)
		fgt_why_set(why, -ENOSYS,
			    "not wanted: sampling.who_ran is \"schedstat\"");
	else if (provider)
		may->has_bpf = provider->open(&sampler->switches, why) == 0;
	else
		fgt_why_set(why, -ENOSYS,
			    "built without BPF: build again with clang, "
			    "bpftool and libbpf");
}

static int open_running(struct fgt_sampler *sampler,
			const struct fgt_running *running, struct fgt_why *why)
{
	int rc = running->open(&sampler->budget, sampler->period_ns,
			       &sampler->running_state, why);

	if (rc == 0)
		sampler->running = running;
	return rc;
}

/* Events that open but cannot be switched on are none. */
static int open_perf_cpu(struct fgt_sampler *sampler, struct fgt_why *why)
{
	int error = sampler->perf_cpu_error;

	if (error)
		return fgt_why_set(why, error,
				   "perf events of all CPUs cannot be switched "
				   "on: %s; a security module or seccomp "
				   "filter must allow it",
				   strerror(-error));
	return open_running(sampler, &fgt_running_perf_cpu, why);
}

/* Best first; an ordinary user gets what an ordinary user may have. */
static void open_sources(struct fgt_sampler *sampler)
{
	struct fgt_capabilities may = { .has_perf_cpu = false };

	/* In a process that records itself: nothing that needs a privilege. */
	if (sampler->options.is_embedded) {
		if (sampler->options.running)
			(void)open_running(sampler, sampler->options.running,
					   &sampler->limitation);
		return;
	}
	may.has_perf_cpu = open_perf_cpu(sampler, &may.perf_cpu_why) == 0;
	open_switches(sampler, &may);
	may.has_perf_thread = may.has_perf_cpu ||
			      open_running(sampler, &fgt_running_perf_thread,
					   &may.perf_thread_why) == 0;
	may.has_ptrace = fgt_ptrace_check(&may.ptrace_why) == 0;
	if (may.has_ptrace && !may.has_perf_thread)
		(void)open_running(sampler, &fgt_running_ptrace, NULL);
	sampler->limitation = may.has_perf_thread ? may.perf_cpu_why
						  : may.perf_thread_why;
	pthread_mutex_lock(&sampler->mutex);
	sampler->capabilities = may;
	pthread_mutex_unlock(&sampler->mutex);
}

int fgt_sampling_open_last_pid(void)
{
	return fgt_fd_apart(open(LAST_PID_FILE, O_RDONLY | O_CLOEXEC));
}

int fgt_sampling_make_room(const struct fgt_sampler *sampler,
			   struct fgt_sampling_room *ret_room)
{
	ret_room->buffer = malloc(2 * FGT_SNAPSHOT_MAX_BYTES);
	ret_room->frames =
		calloc(fgt_stacks_capacity(sampler->options.max_depth),
		       sizeof(*ret_room->frames));
	if (ret_room->buffer && ret_room->frames)
		return 0;
	fgt_sampling_free_room(ret_room);
	return -ENOMEM;
}

void fgt_sampling_free_room(struct fgt_sampling_room *room)
{
	free(FGT_TAKE(room->buffer));
	free(FGT_TAKE(room->frames));
}

int fgt_sampling_open(struct fgt_sampler *sampler)
{
	if (sampler->options.is_embedded) {
		fgt_memory_only_own();
		fgt_fd_apart_begin();
		fgt_fd_budget_init_modest(&sampler->budget);
	} else {
		fgt_fd_budget_init(&sampler->budget);
	}
	if (fgt_sampling_make_room(sampler, &sampler->room) < 0)
		return -ENOMEM;
	if (!sampler->options.is_embedded) {
		sampler->timer_fd =
			timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
		if (sampler->timer_fd < 0)
			return -errno;
	}
	sampler->last_pid_fd = fgt_sampling_open_last_pid();
	sampler->period_ns = SECOND_NS / sampler->options.hz;
	open_sources(sampler);
	fgt_sampling_pace_init(&sampler->pace,
			       (uint32_t)fgt_clock_ns(CLOCK_MONOTONIC),
			       fgt_sampling_has_cpu_events(sampler)
				       ? sysconf(_SC_NPROCESSORS_CONF)
				       : 0);
	return 0;
}

void fgt_sampling_close(struct fgt_sampler *sampler)
{
	sampler->ticking_count = 0;
	close_sources(sampler);
	fgt_fd_close(sampler->timer_fd);
	fgt_fd_close(sampler->last_pid_fd);
	fgt_sampling_free_room(&sampler->room);
}

void fgt_sampling_reopen_sources(struct fgt_sampler *sampler)
{
	fgt_sampling_disarm(sampler);
	for (uint32_t i = 0; i < sampler->ticking_count; i++)
		sampler->ticking[i]->running = &fgt_running_none;
	close_sources(sampler);
	open_sources(sampler);
}
