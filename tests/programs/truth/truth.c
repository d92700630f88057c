/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spends known shares of time in known functions, running and blocked, and
 * prints at the end what it really did: recordings are compared with that.
 * Built twice, with and without frame pointers.
 *
 * truth SCENARIO SECONDS: the scenarios are listed below.
 *
 * Prints "ready PID", later one line of JSON:
 * {"threads":[{"name","tid","depth","ns","cpu_ns","wait_ns",
 *   "steps":[{"function","state","ns","cpu_ns","wait_ns","count","nested"}],
 *   "log":[[step,begin_ns,ns],…]}]}
 * wait_ns: waiting for a CPU; 0 in steps shorter than 400 µs, which are not in
 * the log either. A step that is nested happens inside another step. A thread of
 * tid 0 stands for many.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "work.h"

static const struct {
	const char *name;
	void (*plan)(void);
	const char *text;
} scenarios[] = {
	{ "shares", plan_shares,
	  "two threads: burn_alpha, burn_beta, block_nanosleep" },
	{ "bursts", plan_bursts,
	  "two threads that do another thing at the end of each burst" },
	{ "kinds", plan_kinds, "ten threads, one kind of blocking call each" },
	{ "callers", plan_callers,
	  "wake-ups of a few µs between two phases that differ by caller" },
	{ "pool", plan_pool,
	  "eight workers that switch some thousand times a second" },
	{ "pair", plan_pair,
	  "two threads on two CPUs, one waits for what the other sends" },
	{ "beside", plan_beside,
	  "a busy thread beside a mixed one, four in turn and ten blocked" },
	{ "spinners", plan_spinners, "four busy threads on two CPUs" },
	{ "crowded", plan_crowded,
	  "3 ms of work every 10 ms beside eight busy threads on two CPUs" },
	{ "faults", plan_faults, "page faults and computing" },
	{ "calls", plan_calls, "long system calls that work, and computing" },
	{ "reads", plan_reads,
	  "page faults beside system calls of some 25 ms" },
	{ "naps", plan_naps, "3 ms of work every 10 ms" },
	{ "mill", plan_mill, "1 ms of work, 3.3 ms of sleep" },
	{ "blips", plan_blips, "two threads: 1 ms of work every 6 ms or so" },
	{ "handled", plan_handled,
	  "millisecond work, with a signal handler each ms and without" },
	{ "step", plan_step,
	  "work in step with 101 Hz, with half and with twice of it" },
	{ "turns", plan_turns,
	  "turns of 4 ms in step with the kernel's ticks, with pauses, too" },
	{ "coroutines", plan_coroutines, "work on stacks from the heap" },
	{ "deep", plan_deep, "phases that are 12 to 2000 frames deep" },
	{ "altstack", plan_altstack,
	  "signal handlers that work on an alternate stack" },
	{ "jit", plan_jit, "generated code without a symbol" },
	{ "brief", plan_brief, "500 threads a second of 0.6 ms each" },
	{ "twins", plan_twins,
	  "two branches that differ by their callers only, 20 µs to 20 ms" },
	{ "spawn", plan_spawn, "posix_spawn and vfork that take long" },
};

static int usage(void)
{
	fprintf(stderr, "usage: truth SCENARIO SECONDS\n");
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		fprintf(stderr, "  %-12s%s\n", scenarios[i].name,
			scenarios[i].text);
	return 2;
}

int main(int argc, char **argv)
{
	void (*plan)(void) = NULL;
	sigset_t set;

	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		if (argc == 3 && !strcmp(argv[1], scenarios[i].name))
			plan = scenarios[i].plan;
	if (!plan)
		return usage();
	plan();
	/* block_sigwait() waits for it. */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	truth_end_ns = truth_now_ns() + (uint64_t)(atof(argv[2]) * 1e9);
	run_plans();
	print_truth();
	return 0;
}
