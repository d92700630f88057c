/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler's thread: waits for the timer, drains perf, ticks all targets.
 *
 * Perf's events and our timer run with the same period on the same clock, so
 * they keep their distance: the timer is set a little after the events, and
 * the samples of a tick are there when it runs.
 */
#include "agent/capture/sampling.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture/tick.h"

#define SECOND_NS     1000000000u
#define AFTER_PERF_NS 100000u
#define LAST_PID_FILE "/proc/sys/kernel/ns_last_pid"
#define NICE	      (-10)

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* The targets go on with what procfs tells. */
static void drop_switches(struct fgt_sampler *sampler)
{
	for (uint32_t i = 0; i < sampler->ticking_count; i++)
		fgt_target_leave_switches(sampler->ticking[i],
					  clock_ns(CLOCK_MONOTONIC));
	fgt_switches_close(FGT_TAKE(sampler->switches));
}

static void close_sources(struct fgt_sampler *sampler)
{
	drop_switches(sampler);
	fgt_running_perf_close(FGT_TAKE(sampler->perf_cpu));
	fgt_perf_threads_close(FGT_TAKE(sampler->perf_threads));
	sampler->is_armed = false;
}

static void copy_why(char *text, size_t size, const struct fgt_why *why)
{
	snprintf(text, size, "%.*s", (int)size - 1, why->text);
}

static void describe_limits(struct fgt_sampler *sampler,
			    const struct fgt_capabilities *may)
{
	const char *text = "";

	if (!may->has_perf_cpu)
		text = may->has_perf_thread ? may->perf_cpu_why
					    : may->perf_thread_why;
	snprintf(sampler->limitation, sizeof(sampler->limitation), "%s", text);
}

/* The kernel's word on switches is of use only beside samples of all CPUs. */
static void open_switches(struct fgt_sampler *sampler,
			  struct fgt_capabilities *may)
{
	struct fgt_why why = { "" };

	if (!sampler->perf_cpu) {
		copy_why(may->bpf_why, sizeof(may->bpf_why),
			 &(struct fgt_why){ "needs perf events of all CPUs" });
		return;
	}
	if (sampler->options.provider == FGT_PROVIDER_SCHEDSTAT) {
		copy_why(may->bpf_why, sizeof(may->bpf_why),
			 &(struct fgt_why){ "not wanted: sampling.who_ran is "
					    "\"schedstat\"" });
		return;
	}
	may->has_bpf = fgt_switches_open(&sampler->switches, &why) == 0;
	copy_why(may->bpf_why, sizeof(may->bpf_why), &why);
}

/* Best first; an ordinary user gets what an ordinary user may have. */
static void open_sources(struct fgt_sampler *sampler)
{
	struct fgt_capabilities may = { .has_perf_cpu = false };
	struct fgt_why why = { "" };

	may.has_perf_cpu = fgt_running_perf_open(sampler->period_ns,
						 &sampler->perf_cpu, &why) == 0;
	copy_why(may.perf_cpu_why, sizeof(may.perf_cpu_why), &why);
	open_switches(sampler, &may);
	why.text[0] = '\0';
	may.has_perf_thread =
		may.has_perf_cpu ||
		fgt_perf_threads_open(sampler->period_ns, &sampler->budget,
				      &sampler->perf_threads, &why) == 0;
	copy_why(may.perf_thread_why, sizeof(may.perf_thread_why), &why);
	why.text[0] = '\0';
	may.has_ptrace = fgt_ptrace_check(&why) == 0;
	copy_why(may.ptrace_why, sizeof(may.ptrace_why), &why);
	describe_limits(sampler, &may);
	pthread_mutex_lock(&sampler->mutex);
	sampler->capabilities = may;
	sampler->has_ptrace = may.has_ptrace;
	pthread_mutex_unlock(&sampler->mutex);
}

int fgt_sampling_open(struct fgt_sampler *sampler)
{
	fgt_fd_budget_init(&sampler->budget);
	sampler->buffer = malloc(2 * FGT_SNAPSHOT_MAX_BYTES);
	if (!sampler->buffer)
		return -ENOMEM;
	sampler->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (sampler->timer_fd < 0)
		return -errno;
	sampler->last_pid_fd = open(LAST_PID_FILE, O_RDONLY | O_CLOEXEC);
	sampler->period_ns = SECOND_NS / sampler->options.hz;
	open_sources(sampler);
	return 0;
}

void fgt_sampling_close(struct fgt_sampler *sampler)
{
	sampler->ticking_count = 0;
	close_sources(sampler);
	fgt_fd_close(sampler->timer_fd);
	fgt_fd_close(sampler->last_pid_fd);
	free(sampler->buffer);
}

uint64_t fgt_sampling_phase(uint64_t enabled_ns, uint64_t now_ns,
			    uint64_t period_ns, uint64_t delay_ns)
{
	uint64_t first = enabled_ns + delay_ns;

	if (first >= now_ns)
		return first;
	return first + (now_ns - first + period_ns - 1) / period_ns * period_ns;
}

static void set_timer(struct fgt_sampler *sampler, uint64_t first_ns)
{
	struct itimerspec timer = {
		.it_value = { .tv_sec = (time_t)(first_ns / SECOND_NS),
			      .tv_nsec = (long)(first_ns % SECOND_NS) },
		.it_interval = { .tv_sec = (time_t)(sampler->period_ns /
						    SECOND_NS),
				 .tv_nsec = (long)(sampler->period_ns %
						   SECOND_NS) },
	};

	timerfd_settime(sampler->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
}

static void arm(struct fgt_sampler *sampler)
{
	uint64_t enabled_ns = clock_ns(CLOCK_MONOTONIC);

	if (sampler->switches && fgt_switches_start(sampler->switches) < 0)
		drop_switches(sampler);
	if (sampler->perf_cpu)
		fgt_running_perf_enable(sampler->perf_cpu, &enabled_ns);
	sampler->due_ns = fgt_sampling_phase(enabled_ns + sampler->period_ns,
					     clock_ns(CLOCK_MONOTONIC),
					     sampler->period_ns, AFTER_PERF_NS);
	set_timer(sampler, sampler->due_ns);
	sampler->is_armed = true;
}

static void disarm(struct fgt_sampler *sampler)
{
	const struct itimerspec never = { .it_value = { 0 } };

	if (!sampler->is_armed)
		return;
	if (sampler->perf_cpu)
		fgt_running_perf_disable(sampler->perf_cpu);
	if (sampler->switches)
		fgt_switches_stop(sampler->switches);
	timerfd_settime(sampler->timer_fd, 0, &never, NULL);
	sampler->is_armed = false;
}

/* All events are opened anew, with what is permitted now. */
static void reopen_sources(struct fgt_sampler *sampler)
{
	disarm(sampler);
	for (uint32_t i = 0; i < sampler->ticking_count; i++) {
		struct fgt_threads *threads = &sampler->ticking[i]->threads;

		for (uint32_t at = 0; at < threads->count; at++)
			if (sampler->perf_threads)
				fgt_perf_threads_drop(sampler->perf_threads,
						      threads->items[at]);
		sampler->ticking[i]->perf_threads = NULL;
	}
	close_sources(sampler);
	open_sources(sampler);
}

/* ---- What perf tells, handed to the target that it is about ------------ */

struct drain {
	struct fgt_sampler *sampler;
	const struct fgt_tick *tick;
	struct fgt_target *last; /* that was asked for */
};

static bool is_wanted(void *context, int32_t pid)
{
	struct drain *drain = context;
	struct fgt_sampler *sampler = drain->sampler;

	for (uint32_t i = 0; i < sampler->ticking_count; i++) {
		drain->last = sampler->ticking[i];
		if (drain->last->process.pid == pid)
			return true;
	}
	return false;
}

static void take_sample(void *context, const struct fgt_perf_sample *sample)
{
	struct drain *drain = context;

	fgt_tick_sample(drain->last, drain->tick, sample);
}

static void take_task(void *context, uint32_t type,
		      const struct fgt_perf_task *task)
{
	struct drain *drain = context;

	fgt_tick_task(drain->last, type, task);
}

static void take_lost(void *context)
{
	struct drain *drain = context;

	for (uint32_t i = 0; i < drain->sampler->ticking_count; i++) {
		drain->sampler->ticking[i]->threads.is_stale = true;
		drain->sampler->ticking[i]->stacks.is_stale = true;
	}
}

static void drain_perf(struct fgt_sampler *sampler, const struct fgt_tick *tick)
{
	struct drain drain = { .sampler = sampler, .tick = tick };
	const struct fgt_perf_handler handler = {
		.is_wanted = is_wanted,
		.sample = take_sample,
		.task = take_task,
		.lost = take_lost,
		.context = &drain,
	};

	if (sampler->perf_cpu)
		fgt_running_perf_drain(sampler->perf_cpu, &handler);
	if (sampler->perf_threads)
		fgt_perf_threads_drain(sampler->perf_threads, &handler);
}

/* ---- The tick ---------------------------------------------------------- */

static int64_t read_last_pid(const struct fgt_sampler *sampler)
{
	char text[32];
	ssize_t len = pread(sampler->last_pid_fd, text, sizeof(text) - 1, 0);

	if (len <= 0)
		return -ENOENT;
	text[len] = '\0';
	return strtoll(text, NULL, 10);
}

static struct fgt_tick make_tick(struct fgt_sampler *sampler, uint64_t missed)
{
	bool is_ordinary = !sampler->perf_cpu;
	bool needs_ptrace = is_ordinary && !sampler->perf_threads;

	return (struct fgt_tick){
		.mono_ns = clock_ns(CLOCK_MONOTONIC),
		.wall_ns = clock_ns(CLOCK_REALTIME),
		.missed = missed,
		.instant_ns = sampler->due_ns - AFTER_PERF_NS,
		.period_ns = sampler->period_ns,
		.last_pid = is_ordinary ? read_last_pid(sampler) : 0,
		.buffer = sampler->buffer,
		.other_buffer = sampler->buffer + FGT_SNAPSHOT_MAX_BYTES,
		.perf_cpu = sampler->perf_cpu,
		.switches = sampler->switches,
		.perf_threads = sampler->perf_threads,
		.ptrace = needs_ptrace && sampler->has_ptrace ? &sampler->ptrace
							      : NULL,
		.limitation = sampler->limitation,
		.explain = sampler->options.explain,
		.context = sampler->options.context,
	};
}

struct fgt_target *fgt_sampling_remove(struct fgt_sampler *sampler,
				       uint32_t index)
{
	struct fgt_target *target = sampler->targets[index];

	sampler->targets[index] = sampler->targets[--sampler->target_count];
	return target;
}

/* The target has ended, or nobody wants it sampled any more. */
static void let_go(struct fgt_sampler *sampler, struct fgt_target *target,
		   bool is_alive)
{
	fgt_target_stop(target, clock_ns(CLOCK_MONOTONIC), is_alive);
	pthread_mutex_lock(&sampler->mutex);
	for (uint32_t i = 0; i < sampler->target_count; i++)
		if (sampler->targets[i] == target)
			fgt_sampling_remove(sampler, i);
	pthread_cond_broadcast(&sampler->changed);
	pthread_mutex_unlock(&sampler->mutex);
	fgt_target_put(target);
}

static void tick_all(struct fgt_sampler *sampler, uint64_t missed)
{
	struct fgt_tick tick = make_tick(sampler, missed);
	bool is_news = false;

	fgt_ptrace_poll(&sampler->ptrace);
	for (uint32_t i = 0; i < sampler->ticking_count; i++)
		fgt_tick_begin(sampler->ticking[i], &tick);
	if (sampler->switches)
		fgt_who_ran_take_switches(sampler->switches);
	drain_perf(sampler, &tick);
	for (uint32_t i = sampler->ticking_count; i-- > 0;) {
		struct fgt_target *target = sampler->ticking[i];

		is_news |= target->tick == 1;
		if (fgt_tick_finish(target, &tick))
			continue;
		sampler->ticking[i] =
			sampler->ticking[--sampler->ticking_count];
		let_go(sampler, target, false);
	}
	if (!is_news)
		return;
	pthread_mutex_lock(&sampler->mutex);
	for (uint32_t i = 0; i < sampler->target_count; i++)
		sampler->targets[i]->has_ticked |= sampler->targets[i]->tick >
						   0;
	pthread_cond_broadcast(&sampler->changed);
	pthread_mutex_unlock(&sampler->mutex);
}

/* Too many stacks longer than a sample may hold: more room, once a second. */
static void adapt(struct fgt_sampler *sampler)
{
	int rc;

	if (!sampler->perf_cpu ||
	    ++sampler->ticks_since_adapt * sampler->period_ns < SECOND_NS)
		return;
	sampler->ticks_since_adapt = 0;
	rc = fgt_running_perf_adapt(sampler->perf_cpu);
	if (rc > 0)
		sampler->is_armed = false;
	else if (rc < 0)
		reopen_sources(sampler);
}

/* Copies the targets; waits while there are none. False: the end. */
static bool take_orders(struct fgt_sampler *sampler)
{
	bool shall_go_on;

	pthread_mutex_lock(&sampler->mutex);
	if (!sampler->shall_stop && sampler->target_count == 0)
		disarm(sampler);
	while (!sampler->shall_stop && sampler->target_count == 0)
		pthread_cond_wait(&sampler->changed, &sampler->mutex);
	sampler->ticking_count = sampler->target_count;
	memcpy(sampler->ticking, sampler->targets,
	       sampler->target_count * sizeof(struct fgt_target *));
	shall_go_on = !sampler->shall_stop;
	pthread_mutex_unlock(&sampler->mutex);
	return shall_go_on;
}

static void drop_detached(struct fgt_sampler *sampler)
{
	for (uint32_t i = sampler->ticking_count; i-- > 0;) {
		struct fgt_target *target = sampler->ticking[i];
		bool is_detached;

		pthread_mutex_lock(&sampler->mutex);
		is_detached = target->is_detached;
		pthread_mutex_unlock(&sampler->mutex);
		if (!is_detached)
			continue;
		sampler->ticking[i] =
			sampler->ticking[--sampler->ticking_count];
		let_go(sampler, target, true);
	}
}

/*
 * Late ticks see what the threads did meanwhile, and a nice value helps little
 * where whole groups compete: real-time, for the one or two per cent of a CPU
 * that the ticks take. Only the thread. Ordinary users are refused, and do
 * without.
 */
static void hurry(void)
{
	const struct sched_param first = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first) < 0)
		setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
}

void *fgt_sampling_run(void *context)
{
	struct fgt_sampler *sampler = context;
	uint64_t expirations;

	prctl(PR_SET_NAME, "fgt-sampler");
	hurry();
	while (take_orders(sampler)) {
		drop_detached(sampler);
		if (sampler->ticking_count == 0)
			continue;
		if (!sampler->is_armed)
			arm(sampler);
		if (read(sampler->timer_fd, &expirations,
			 sizeof(expirations)) != sizeof(expirations))
			continue;
		sampler->due_ns += (expirations - 1) * sampler->period_ns;
		tick_all(sampler, expirations - 1);
		sampler->due_ns += sampler->period_ns;
		adapt(sampler);
	}
	disarm(sampler);
	return NULL;
}
