/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that follow their plans and measure each step. Runs in the threads of
 * the truth program.
 */
#include "plan.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "work.h"

#define LOG_MAX	    65536u
#define THREADS_MAX 24
#define HELPERS_MAX 8
/* Shorter steps would mostly read the scheduler's file and write the log. */
#define SHORT_NS 400000u

static struct plan plans[THREADS_MAX];
static size_t plan_count;
static void *(*helpers[HELPERS_MAX])(void *);
static size_t helper_count;

static uint64_t cpu_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

/* Waiting for a CPU, by the scheduler's file. */
static uint64_t waited_ns(const struct plan *plan)
{
	unsigned long long ns = 0;
	char text[80] = "";

	if (pread(plan->schedstat_fd, text, sizeof(text) - 1, 0) > 0)
		sscanf(text, "%*u %llu", &ns);
	return ns;
}

static NOINLINE void read_clocks(const struct plan *plan,
				 const struct step *step, uint64_t *cpu_ns,
				 uint64_t *wait_ns)
{
	*cpu_ns = cpu_now_ns();
	*wait_ns = step->is_short ? 0 : waited_ns(plan);
}

/* Leaves room in each frame, as functions that compute something do: two
 * thousand of them are more than perf copies. */
static NOINLINE void descend(unsigned int depth, const struct step *step,
			     uint64_t duration_ns)
{
	volatile uint64_t local[6];

	local[depth % 6] = duration_ns;
	if (depth > 0)
		descend(depth - 1, step, local[depth % 6]);
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

static uint64_t duration_of(const struct plan *plan, const struct step *step)
{
	if (step->is_rest)
		return plan->period_ns - truth_now_ns() % plan->period_ns;
	return plan->period_ns ? step->duration_ns : vary(step->duration_ns);
}

static void write_log(struct plan *plan, const struct step *step,
		      uint64_t begin_ns, uint64_t finish_ns)
{
	if (step->is_short || plan->log_count == LOG_MAX)
		return;
	plan->log[plan->log_count++] = (struct entry){
		.begin_ns = begin_ns,
		.spent_ns = (uint32_t)(finish_ns - begin_ns),
		.step = (uint32_t)(step - plan->steps),
	};
}

void take_step(struct plan *plan, struct step *step)
{
	uint64_t reading_ns = truth_now_ns(), cpu_ns[2], wait_ns[2];
	uint64_t begin_ns, finish_ns;

	read_clocks(plan, step, &cpu_ns[0], &wait_ns[0]);
	begin_ns = truth_now_ns();
	descend(step->depth, step, duration_of(plan, step));
	finish_ns = truth_now_ns();
	read_clocks(plan, step, &cpu_ns[1], &wait_ns[1]);
	step->spent_ns += finish_ns - begin_ns;
	step->cpu_ns += cpu_ns[1] - cpu_ns[0];
	step->wait_ns += wait_ns[1] - wait_ns[0];
	step->count++;
	write_log(plan, step, begin_ns, finish_ns);
	plan->reading.spent_ns +=
		begin_ns - reading_ns + truth_now_ns() - finish_ns;
	plan->reading.count++;
}

void log_step(struct plan *plan, struct step *step, uint64_t begin_ns,
	      uint64_t finish_ns)
{
	step->spent_ns += finish_ns - begin_ns;
	step->count++;
	write_log(plan, step, begin_ns, finish_ns);
}

void begin_plan(struct plan *plan)
{
	plan->tid = (pid_t)syscall(SYS_gettid);
	pthread_setname_np(pthread_self(), plan->name);
	plan->schedstat_fd =
		open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	plan->log = calloc(LOG_MAX, sizeof(*plan->log));
	if (!plan->log)
		abort();
	if (plan->prepare)
		plan->prepare(plan);
	plan->wait_ns = waited_ns(plan);
	plan->cpu_ns = cpu_now_ns();
	plan->spent_ns = truth_now_ns();
}

void finish_plan(struct plan *plan)
{
	plan->spent_ns = truth_now_ns() - plan->spent_ns;
	plan->cpu_ns = cpu_now_ns() - plan->cpu_ns;
	plan->wait_ns = waited_ns(plan) - plan->wait_ns;
	close(plan->schedstat_fd);
}

void *follow_plan(void *argument)
{
	struct plan *plan = argument;

	begin_plan(plan);
	while (truth_now_ns() < truth_end_ns)
		for (size_t i = 0; i < plan->step_count; i++)
			if (!plan->steps[i].is_nested)
				take_step(plan, &plan->steps[i]);
	finish_plan(plan);
	return NULL;
}

struct plan *add_plan(const char *name, unsigned int depth)
{
	struct plan *plan;

	if (plan_count == THREADS_MAX)
		abort();
	plan = &plans[plan_count++];
	snprintf(plan->name, sizeof(plan->name), "%s", name);
	plan->depth = depth;
	plan->follow = follow_plan;
	plan->reading.function = "read_clocks";
	return plan;
}

struct step *add_step(struct plan *plan, const char *function,
		      const char *state, void (*run)(uint64_t), uint64_t ns)
{
	struct step *step;

	if (plan->step_count == STEPS_MAX)
		abort();
	step = &plan->steps[plan->step_count++];
	*step = (struct step){
		.function = function,
		.state = state,
		.run = run,
		.duration_ns = ns,
		.depth = plan->depth,
		.is_short = ns < SHORT_NS,
	};
	return step;
}

void add_helper(void *(*run)(void *))
{
	if (helper_count == HELPERS_MAX)
		abort();
	helpers[helper_count++] = run;
}

void run_plans(void)
{
	pthread_t threads[HELPERS_MAX];

	for (size_t i = 0; i < plan_count; i++)
		if (plans[i].follow)
			pthread_create(&plans[i].thread, NULL, plans[i].follow,
				       &plans[i]);
	for (size_t i = 0; i < helper_count; i++)
		pthread_create(&threads[i], NULL, helpers[i], NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (size_t i = 0; i < plan_count; i++)
		if (plans[i].follow)
			pthread_join(plans[i].thread, NULL);
	for (size_t i = 0; i < helper_count; i++)
		pthread_join(threads[i], NULL);
}

static void print_step(const struct step *step)
{
	printf("{\"function\":\"%s\",\"state\":\"%s\",\"ns\":%llu,"
	       "\"cpu_ns\":%llu,\"wait_ns\":%llu,\"count\":%llu,"
	       "\"nested\":%s}",
	       step->function, step->state ? step->state : "running",
	       (unsigned long long)step->spent_ns,
	       (unsigned long long)step->cpu_ns,
	       (unsigned long long)step->wait_ns,
	       (unsigned long long)step->count,
	       step->is_nested ? "true" : "false");
}

static void print_log(const struct plan *plan)
{
	printf("\"log\":[");
	for (size_t i = 0; i < plan->log_count; i++)
		printf("%s[%u,%llu,%u]", i ? "," : "", plan->log[i].step,
		       (unsigned long long)plan->log[i].begin_ns,
		       plan->log[i].spent_ns);
	printf("]");
}

void print_truth(void)
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
		printf("],");
		print_log(plan);
		putchar('}');
	}
	printf("]}\n");
}
