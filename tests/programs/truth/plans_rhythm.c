/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios of short work: bursts shorter than a tick, work beside a signal
 * handler, work in step with the sampler's rate or with the kernel's ticks.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "plan.h"
#include "work.h"

#define HZ		   101u
#define TICK_NS		   (NS_PER_SEC / HZ)
#define HANDLER_NS	   60000u
#define HANDLER_SIGNAL	   (SIGRTMIN + 4)
#define HANDLER_PERIOD_NS  NS_PER_MS
#define KERNEL_TICK_NS	   (4 * NS_PER_MS)
#define US_OF(percent, ns) ((ns) / 100 * (percent) / 1000)

void plan_naps(void)
{
	struct plan *plan = add_plan("naps", 15);

	plan->period_ns = 10 * NS_PER_MS;
	STEP(plan, burn_alpha, NULL, 2000);
	STEP(plan, burn_beta, NULL, 1000);
	STEP(plan, block_until, "clock_nanosleep", 7000)->is_rest = true;
}

void plan_mill(void)
{
	struct plan *plan = add_plan("mill", 15);

	/* Durations are exact, the rounds are not. */
	plan->period_ns = 1;
	STEP(plan, burn_alpha, NULL, 1000);
	STEP(plan, block_nanosleep, "clock_nanosleep", 3300);
}

/* The sampler wants a CPU when its timer fires, and may have to wait there for
 * the end of a burst. */
void plan_blips(void)
{
	struct plan *plan = add_plan("blip-0", 15);

	STEP(plan, burn_alpha, NULL, 1000);
	STEP(plan, block_nanosleep, "clock_nanosleep", 5200);
	plan = add_plan("blip-1", 25);
	STEP(plan, burn_beta, NULL, 1000);
	STEP(plan, block_futex, "futex", 4900);
}

static struct step *handled_step;

static NOINLINE void work_in_handler(int number)
{
	uint64_t begin_ns = truth_now_ns(), until_ns = begin_ns + HANDLER_NS;

	(void)number;
	while (truth_now_ns() < until_ns)
		truth_anchor++;
	/* Only the thread that the timer is for runs the handler. */
	handled_step->spent_ns += truth_now_ns() - begin_ns;
	handled_step->cpu_ns = handled_step->spent_ns;
	handled_step->count++;
}

/* A signal each ms to this thread, also while it sleeps. */
static void start_timer(struct plan *plan)
{
	struct sigaction action = { .sa_handler = work_in_handler,
				    .sa_flags = SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
				  .sigev_signo = HANDLER_SIGNAL };
	struct itimerspec times = {
		.it_value = truth_timespec(HANDLER_PERIOD_NS),
		.it_interval = truth_timespec(HANDLER_PERIOD_NS),
	};
	timer_t timer;

	event._sigev_un._tid = plan->tid;
	if (sigaction(HANDLER_SIGNAL, &action, NULL) < 0 ||
	    timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 ||
	    timer_settime(timer, 0, &times, NULL) < 0)
		abort();
}

void plan_handled(void)
{
	struct plan *plan = add_plan("handled", 15);

	plan->prepare = start_timer;
	STEP(plan, burn_alpha, NULL, 2000);
	STEP(plan, burn_beta, NULL, 1000);
	STEP(plan, block_until, "clock_nanosleep", 2000);
	handled_step = add_step(plan, "work_in_handler", NULL, NULL, 0);
	handled_step->is_nested = true;
	/* In step with the ticks of a kernel of 250 Hz. */
	plan = add_plan("kernel-step", 15);
	plan->period_ns = KERNEL_TICK_NS;
	STEP(plan, burn_alpha, NULL, 1000);
	STEP(plan, burn_beta, NULL, 1000);
	STEP(plan, block_until, "clock_nanosleep", 2000)->is_rest = true;
}

static void add_steps_of(const char *name, uint64_t period_ns,
			 unsigned int alpha_percent, unsigned int beta_percent)
{
	struct plan *plan = add_plan(name, 15);

	plan->period_ns = period_ns;
	STEP(plan, burn_alpha, NULL, US_OF(alpha_percent, period_ns));
	STEP(plan, burn_beta, NULL, US_OF(beta_percent, period_ns));
	STEP(plan, block_until, "clock_nanosleep", period_ns / 2000)->is_rest =
		true;
}

void plan_step(void)
{
	add_steps_of("once", TICK_NS, 40, 20);
	add_steps_of("half", 2 * TICK_NS, 30, 10);
	add_steps_of("twice", TICK_NS / 2, 20, 15);
}

/* Timers on CPU time fire at the ticks of a kernel of 250 Hz only. */
void plan_turns(void)
{
	struct plan *plan = add_plan("turns", 15);

	plan->period_ns = KERNEL_TICK_NS;
	STEP(plan, burn_alpha, NULL, 2400);
	STEP(plan, burn_beta, NULL, 1200);
	STEP(plan, burn_gamma, NULL, 400)->is_rest = true;
	plan = add_plan("turns-10ms", 15);
	plan->period_ns = 10 * NS_PER_MS;
	STEP(plan, burn_alpha, NULL, 2400);
	STEP(plan, burn_beta, NULL, 1200);
	STEP(plan, burn_gamma, NULL, 400);
	STEP(plan, block_until, "clock_nanosleep", 6000)->is_rest = true;
}
