/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spends known shares of time in known functions, running and blocked, and
 * prints at the end what it really did: recordings are compared with that.
 * Built twice, with and without frame pointers.
 *
 * truth SCENARIO SECONDS
 *   shares   two threads: burn_alpha, burn_beta, block_nanosleep
 *   bursts   two threads that do another thing at the end of each burst
 *   kinds    ten threads, one kind of blocking call each
 *   callers  wake-ups of a few µs between two phases that differ by caller
 *   pool     eight workers that switch some thousand times a second
 *   pair     two threads on two CPUs, one waits for what the other sends
 *
 * Prints "ready PID", later one line of JSON:
 * {"threads":[{"name","tid","depth","ns","cpu_ns","wait_ns",
 *              "steps":[{"function","state","ns","cpu_ns"}]}]}
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "truth_work.h"

#define STEPS_MAX    4
#define THREADS_MAX  16
#define POOL_WORKERS 8

struct step {
	const char *function;
	const char *state; /* expected; NULL: running */
	void (*run)(uint64_t ns);
	uint64_t duration_ns;
	/* The measured times; written by the thread only. */
	uint64_t spent_ns, cpu_ns;
};

struct plan {
	char name[16];
	unsigned int depth;
	struct step steps[STEPS_MAX];
	size_t step_count;
	/* Reading the CPU clock is a system call: where others want the CPU,
	 * that is where a thread loses it. */
	struct step reading;
	uint64_t spent_ns, cpu_ns, wait_ns; /* in all, on a CPU, for one */
	pid_t tid;
	pthread_t thread;
};

static struct plan plans[THREADS_MAX];
static size_t plan_count;

static NOINLINE uint64_t cpu_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

/* Waiting for a CPU, by the scheduler's file. */
static uint64_t waited_ns(void)
{
	FILE *file = fopen("/proc/thread-self/schedstat", "r");
	unsigned long long ns = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%*u %llu", &ns) != 1)
		ns = 0;
	fclose(file);
	return ns;
}

/* The two phases differ only by the caller of wait_here(). */
static NOINLINE void wait_here(uint64_t ns)
{
	struct timespec duration = truth_timespec(ns);

	clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL);
	truth_anchor += 2; /* or it would be folded with block_nanosleep() */
}

static NOINLINE void phase_one(uint64_t ns)
{
	wait_here(ns);
	truth_anchor++;
}

static NOINLINE void phase_two(uint64_t ns)
{
	wait_here(ns);
	truth_anchor += 3;
}

static NOINLINE void descend(unsigned int depth, const struct step *step,
			     uint64_t duration_ns)
{
	if (depth > 0)
		descend(depth - 1, step, duration_ns);
	else
		step->run(duration_ns);
	truth_anchor++;
}

/* Up to a quarter longer or shorter: not in step with the sampler. */
static uint64_t vary(uint64_t ns)
{
	static _Thread_local uint32_t seed = 1;

	seed = seed * 1664525u + 1013904223u;
	return ns / 4 * 3 + ns / 2 * (seed >> 16) / 65536;
}

static void take_step(struct plan *plan, struct step *step)
{
	uint64_t reading_ns = truth_now_ns(), cpu_ns = cpu_now_ns();
	uint64_t begin_ns = truth_now_ns(), finish_ns;

	descend(plan->depth, step, vary(step->duration_ns));
	finish_ns = truth_now_ns();
	step->spent_ns += finish_ns - begin_ns;
	step->cpu_ns += cpu_now_ns() - cpu_ns;
	plan->reading.spent_ns +=
		begin_ns - reading_ns + truth_now_ns() - finish_ns;
}

static void *follow_plan(void *argument)
{
	struct plan *plan = argument;

	plan->tid = (pid_t)syscall(SYS_gettid);
	pthread_setname_np(pthread_self(), plan->name);
	plan->spent_ns = truth_now_ns();
	while (truth_now_ns() < truth_end_ns) {
		for (size_t i = 0; i < plan->step_count; i++) {
			struct step *step = &plan->steps[i];

			take_step(plan, step);
		}
	}
	plan->spent_ns = truth_now_ns() - plan->spent_ns;
	plan->cpu_ns = cpu_now_ns();
	plan->wait_ns = waited_ns();
	return NULL;
}

static struct plan *add_plan(const char *name, unsigned int depth)
{
	struct plan *plan = &plans[plan_count++];

	snprintf(plan->name, sizeof(plan->name), "%s", name);
	plan->depth = depth;
	plan->reading.function = "cpu_now_ns";
	return plan;
}

static void add_step(struct plan *plan, const char *function, const char *state,
		     void (*run)(uint64_t), uint64_t ns)
{
	plan->steps[plan->step_count++] = (struct step){
		.function = function,
		.state = state,
		.run = run,
		.duration_ns = ns,
	};
}
#define STEP(plan, function, state, us)                                        \
	add_step(plan, #function, state, function, (us)*1000ull)

static void plan_shares(void)
{
	struct plan *plan = add_plan("shares-a", 10);

	STEP(plan, burn_alpha, NULL, 31000);
	STEP(plan, burn_beta, NULL, 17000);
	STEP(plan, block_nanosleep, "clock_nanosleep", 53000);
	plan = add_plan("shares-b", 60);
	STEP(plan, burn_alpha, NULL, 7300);
	STEP(plan, block_nanosleep, "clock_nanosleep", 23700);
	STEP(plan, burn_beta, NULL, 1900);
	STEP(plan, block_futex, "futex", 11300);
}

/* No whole number of the sampler's periods long, or one share of them would
 * hold for many bursts. */
static void plan_bursts(void)
{
	struct plan *plan = add_plan("bursts-24", 12);

	STEP(plan, burn_alpha, NULL, 18000);
	STEP(plan, burn_beta, NULL, 6000);
	STEP(plan, block_nanosleep, "clock_nanosleep", 35000);
	plan = add_plan("bursts-14", 25);
	STEP(plan, burn_alpha, NULL, 10500);
	STEP(plan, burn_beta, NULL, 3500);
	STEP(plan, block_nanosleep, "clock_nanosleep", 31000);
}

static void plan_kinds(void)
{
	static const struct {
		const char *name, *function, *state;
		void (*run)(uint64_t);
	} kinds[] = {
		{ "futex", "block_futex", "futex", block_futex },
		{ "nanosleep", "block_nanosleep", "clock_nanosleep",
		  block_nanosleep },
		{ "poll", "block_poll", "poll", block_poll },
		{ "ppoll", "block_ppoll", "ppoll", block_ppoll },
		{ "select", "block_select", "pselect6|select", block_select },
		{ "epoll", "block_epoll", "epoll_wait", block_epoll },
		{ "read", "block_read", "read", block_read },
		{ "recv", "block_recv", "recvfrom", block_recv },
		{ "sigwait", "block_sigwait", "rt_sigtimedwait",
		  block_sigwait },
		{ "semop", "block_semop", "semtimedop", block_semop },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct plan *plan =
			add_plan(kinds[i].name, 10 + 5 * (unsigned int)i);

		add_step(plan, kinds[i].function, kinds[i].state, kinds[i].run,
			 (41 + i) * NS_PER_MS);
		STEP(plan, burn_gamma, NULL, 3100);
	}
}

static void plan_callers(void)
{
	struct plan *plan = add_plan("ninety-ten", 12);

	STEP(plan, phase_one, "clock_nanosleep", 45000);
	STEP(plan, phase_two, "clock_nanosleep", 5000);
	plan = add_plan("ten-ninety", 12);
	STEP(plan, phase_one, "clock_nanosleep", 5000);
	STEP(plan, phase_two, "clock_nanosleep", 45000);
}

static sem_t tasks_ready;
static atomic_uint next_task;

static NOINLINE void await_task(uint64_t ns)
{
	struct timespec until;

	(void)ns;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 1;
	while (sem_timedwait(&tasks_ready, &until) < 0 && errno == EINTR)
		truth_anchor++;
	truth_anchor++;
}

static NOINLINE void task_long(uint64_t ns)
{
	burn_alpha(ns);
	truth_anchor++;
}

static NOINLINE void task_short(uint64_t ns)
{
	burn_beta(ns);
	truth_anchor++;
}

static void *work(void *argument)
{
	struct plan *plan = argument;

	plan->tid = (pid_t)syscall(SYS_gettid);
	pthread_setname_np(pthread_self(), plan->name);
	while (truth_now_ns() < truth_end_ns) {
		unsigned int which;

		take_step(plan, &plan->steps[0]);
		which = 1 + atomic_fetch_add(&next_task, 1) % 4 / 3;
		take_step(plan, &plan->steps[which]);
	}
	return NULL;
}

static void *feed(void *argument)
{
	struct timespec pause = truth_timespec(1000000);

	(void)argument;
	pthread_setname_np(pthread_self(), "feeder");
	while (truth_now_ns() < truth_end_ns) {
		for (unsigned int i = 0; i < 3; i++)
			sem_post(&tasks_ready);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	}
	for (unsigned int i = 0; i < 4 * POOL_WORKERS; i++)
		sem_post(&tasks_ready);
	return NULL;
}

static void plan_pool(void)
{
	sem_init(&tasks_ready, 0, 0);
	for (unsigned int i = 0; i < POOL_WORKERS; i++) {
		char name[16];
		struct plan *plan;

		snprintf(name, sizeof(name), "worker-%u", i);
		plan = add_plan(name, 10 + 7 * i);
		STEP(plan, await_task, "futex", 0);
		STEP(plan, task_short, NULL, 60);
		STEP(plan, task_long, NULL, 700);
	}
}

static NOINLINE void send_task(uint64_t ns)
{
	burn_beta(ns);
	sem_post(&tasks_ready);
}

/* The last of the allowed CPUs, or the one before it. */
static void stay_on_cpu(bool is_last)
{
	cpu_set_t allowed, one;
	int left;

	sched_getaffinity(0, sizeof(allowed), &allowed);
	left = CPU_COUNT(&allowed) - (is_last ? 1 : 2);
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && left-- <= 0) {
			CPU_SET(cpu, &one);
			break;
		}
	sched_setaffinity(0, sizeof(one), &one);
}

/* The thread that waits is on the CPU that is sampled last. */
static void *follow_plan_on_cpu(void *argument)
{
	stay_on_cpu(argument == &plans[0]);
	return follow_plan(argument);
}

static void plan_pair(void)
{
	struct plan *plan = add_plan("server", 12);

	sem_init(&tasks_ready, 0, 0);
	STEP(plan, await_task, "futex", 0);
	STEP(plan, burn_alpha, NULL, 20);
	plan = add_plan("client", 10);
	STEP(plan, send_task, NULL, 45);
}

static void print_step(const struct step *step)
{
	printf("{\"function\":\"%s\",\"state\":\"%s\",\"ns\":%llu,"
	       "\"cpu_ns\":%llu}",
	       step->function, step->state ? step->state : "running",
	       (unsigned long long)step->spent_ns,
	       (unsigned long long)step->cpu_ns);
}

static void print_truth(void)
{
	printf("{\"threads\":[");
	for (size_t i = 0; i < plan_count; i++) {
		const struct plan *plan = &plans[i];

		printf("%s{\"name\":\"%s\",\"tid\":%d,\"depth\":%u,"
		       "\"ns\":%llu,\"cpu_ns\":%llu,\"wait_ns\":%llu,"
		       "\"steps\":[",
		       i ? "," : "", plan->name, plan->tid, plan->depth,
		       (unsigned long long)plan->spent_ns,
		       (unsigned long long)plan->cpu_ns,
		       (unsigned long long)plan->wait_ns);
		for (size_t j = 0; j < plan->step_count; j++) {
			print_step(&plan->steps[j]);
			putchar(',');
		}
		print_step(&plan->reading);
		printf("]}");
	}
	printf("]}\n");
}

static int usage(void)
{
	fprintf(stderr,
		"usage: truth shares|bursts|kinds|callers|pool|pair SECONDS\n");
	return 2;
}

int main(int argc, char **argv)
{
	void *(*run)(void *) = follow_plan;
	pthread_t feeder;
	sigset_t set;
	bool is_pool, is_pair;

	if (argc != 3)
		return usage();
	is_pool = !strcmp(argv[1], "pool");
	is_pair = !strcmp(argv[1], "pair");
	if (!strcmp(argv[1], "shares"))
		plan_shares();
	else if (!strcmp(argv[1], "bursts"))
		plan_bursts();
	else if (!strcmp(argv[1], "kinds"))
		plan_kinds();
	else if (!strcmp(argv[1], "callers"))
		plan_callers();
	else if (is_pool)
		plan_pool();
	else if (is_pair)
		plan_pair();
	else
		return usage();
	if (is_pool)
		run = work;
	if (is_pair)
		run = follow_plan_on_cpu;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	truth_end_ns = truth_now_ns() + (uint64_t)(atof(argv[2]) * 1e9);
	for (size_t i = 0; i < plan_count; i++)
		pthread_create(&plans[i].thread, NULL, run, &plans[i]);
	if (is_pool)
		pthread_create(&feeder, NULL, feed, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (size_t i = 0; i < plan_count; i++)
		pthread_join(plans[i].thread, NULL);
	if (is_pool)
		pthread_join(feeder, NULL);
	print_truth();
	return 0;
}
