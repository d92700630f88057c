/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios of long phases: shares of work and sleep, kinds of blocking calls,
 * and phases that differ by their callers.
 */
#include "plan.h"
#include "work.h"

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

void plan_shares(void)
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
void plan_bursts(void)
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

void plan_kinds(void)
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

void plan_callers(void)
{
	struct plan *plan = add_plan("ninety-ten", 12);

	STEP(plan, phase_one, "clock_nanosleep", 45000);
	STEP(plan, phase_two, "clock_nanosleep", 5000);
	plan = add_plan("ten-ninety", 12);
	STEP(plan, phase_one, "clock_nanosleep", 5000);
	STEP(plan, phase_two, "clock_nanosleep", 45000);
}
