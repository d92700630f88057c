/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each thread of the truth program does, and what it measured about
 * itself. A plan is written by its thread only, and read after the join.
 */
#ifndef TESTS_PROGRAMS_TRUTH_PLAN_H
#define TESTS_PROGRAMS_TRUTH_PLAN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define STEPS_MAX 6

struct step {
	const char *function;
	const char *state; /* expected; NULL: running */
	void (*run)(uint64_t ns);
	uint64_t duration_ns;
	unsigned int depth;
	/* Takes what is left of the plan's period. */
	bool is_rest;
	/* Happens inside other steps, as a signal handler does. */
	bool is_nested;
	/* Neither logged, nor its waiting for a CPU read. */
	bool is_short;
	/* Measured: in all, on a CPU, waiting for one; how often. */
	uint64_t spent_ns, cpu_ns, wait_ns, count;
};

/* When a step began, and how long it took. */
struct entry {
	uint64_t begin_ns;
	uint32_t spent_ns;
	uint32_t step;
};

struct plan {
	char name[16];
	unsigned int depth;
	/* 0, or: each round begins at a multiple of it on CLOCK_MONOTONIC, and
	 * durations are exact. Otherwise they vary by a quarter, so that they
	 * keep no step with the sampler. */
	uint64_t period_ns;
	struct step steps[STEPS_MAX];
	size_t step_count;
	/* Reading clocks is system calls: where other threads want the CPU,
	 * that is where a thread loses it. */
	struct step reading;
	uint64_t spent_ns, cpu_ns, wait_ns; /* in all, on a CPU, for one */
	struct entry *log; /* of steps that are not short */
	size_t log_count;
	int schedstat_fd;
	pid_t tid;
	/* Before the first round, in the thread; may be NULL. */
	void (*prepare)(struct plan *plan);
	void *(*follow)(void *plan); /* NULL: started by another thread */
	pthread_t thread;
};

/* Returns a plan of the process; the depth is that of its steps. */
struct plan *add_plan(const char *name, unsigned int depth);

/* Returns the step, for changes before the thread starts. */
struct step *add_step(struct plan *plan, const char *function,
		      const char *state, void (*run)(uint64_t), uint64_t ns);
#define STEP(plan, function, state, us)                                        \
	add_step(plan, #function, state, function, (us)*1000ull)

/* A thread that is not compared with the recording. */
void add_helper(void *(*run)(void *));

/* Takes the steps of the plan in turn until the end: the usual plan->follow. */
void *follow_plan(void *plan);
/* First and last part of follow_plan, for threads with another order. */
void begin_plan(struct plan *plan);
void finish_plan(struct plan *plan);
void take_step(struct plan *plan, struct step *step);
/* For threads with steps of their own kind. */
void log_step(struct plan *plan, struct step *step, uint64_t begin_ns,
	      uint64_t finish_ns);

void run_plans(void);
void print_truth(void);

/* The scenarios; each adds its plans. */
void plan_shares(void);
void plan_bursts(void);
void plan_kinds(void);
void plan_callers(void);
void plan_pool(void);
void plan_pair(void);
void plan_beside(void);
void plan_spinners(void);
void plan_crowded(void);
void plan_faults(void);
void plan_calls(void);
void plan_reads(void);
void plan_naps(void);
void plan_mill(void);
void plan_blips(void);
void plan_handled(void);
void plan_step(void);
void plan_turns(void);
void plan_coroutines(void);
void plan_deep(void);
void plan_altstack(void);
void plan_jit(void);
void plan_brief(void);
void plan_spawn(void);
void plan_twins(void);

#endif
