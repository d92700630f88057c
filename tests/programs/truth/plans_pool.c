/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios of threads that wake each other: a pool of workers, a pair in
 * lock-step on two CPUs.
 */
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

#include "plan.h"
#include "work.h"

#define POOL_WORKERS 8

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

	begin_plan(plan);
	while (truth_now_ns() < truth_end_ns) {
		unsigned int which;

		take_step(plan, &plan->steps[0]);
		which = 1 + atomic_fetch_add(&next_task, 1) % 4 / 3;
		take_step(plan, &plan->steps[which]);
	}
	finish_plan(plan);
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

void plan_pool(void)
{
	sem_init(&tasks_ready, 0, 0);
	for (unsigned int i = 0; i < POOL_WORKERS; i++) {
		char name[16];
		struct plan *plan;

		snprintf(name, sizeof(name), "worker-%u", i);
		plan = add_plan(name, 10 + 7 * i);
		plan->follow = work;
		STEP(plan, await_task, "futex", 0);
		STEP(plan, task_short, NULL, 60);
		STEP(plan, task_long, NULL, 700);
	}
	add_helper(feed);
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
static void stay_last(struct plan *plan)
{
	(void)plan;
	stay_on_cpu(true);
}

static void stay_before_last(struct plan *plan)
{
	(void)plan;
	stay_on_cpu(false);
}

void plan_pair(void)
{
	struct plan *plan = add_plan("server", 12);

	plan->prepare = stay_last;
	sem_init(&tasks_ready, 0, 0);
	STEP(plan, await_task, "futex", 0);
	STEP(plan, burn_alpha, NULL, 20);
	plan = add_plan("client", 10);
	plan->prepare = stay_before_last;
	STEP(plan, send_task, NULL, 45);
}
