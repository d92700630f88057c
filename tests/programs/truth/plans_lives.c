/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios of short lives: threads that end within a tick, and children whose
 * parent waits in the call that starts them.
 */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plan.h"
#include "work.h"

#define BRIEF_NS       600000u
#define BRIEF_EVERY_NS (2 * NS_PER_MS)

/* Written by many threads; moved into the plan at the end. */
static atomic_ullong brief_life_ns, brief_cpu_ns, brief_count;
static struct plan *brief;

static void *live_briefly(void *argument)
{
	uint64_t begin_ns = truth_now_ns();
	struct timespec used;

	(void)argument;
	pthread_setname_np(pthread_self(), brief->name);
	burn_alpha(BRIEF_NS);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	atomic_fetch_add(&brief_life_ns, truth_now_ns() - begin_ns);
	atomic_fetch_add(&brief_cpu_ns, (uint64_t)used.tv_sec * NS_PER_SEC +
						(uint64_t)used.tv_nsec);
	atomic_fetch_add(&brief_count, 1);
	return NULL;
}

/* Waits for the end of the thread before, which is long over. */
static NOINLINE void make_brief(uint64_t ns)
{
	static pthread_t thread;
	static bool has_thread;

	(void)ns;
	if (has_thread)
		pthread_join(thread, NULL);
	has_thread = pthread_create(&thread, NULL, live_briefly, NULL) == 0;
	truth_anchor++;
}

static void *make_briefs(void *plan)
{
	struct step *step = &brief->steps[0];

	follow_plan(plan);
	brief->spent_ns = step->spent_ns = brief_life_ns;
	brief->cpu_ns = step->cpu_ns = brief_cpu_ns;
	step->count = brief_count;
	return NULL;
}

void plan_brief(void)
{
	struct plan *plan = add_plan("maker", 15);

	plan->follow = make_briefs;
	plan->period_ns = BRIEF_EVERY_NS;
	STEP(plan, make_brief, NULL, 0);
	STEP(plan, block_until, "clock_nanosleep", 1900)->is_rest = true;
	brief = add_plan("brief", 0);
	brief->follow = NULL;
	STEP(brief, burn_alpha, NULL, BRIEF_NS / 1000);
}

/* A child that is suspended before its exec: it opens a FIFO for reading, and
 * open_late() opens it for writing after so many ns. */
static char fifo_folder[] = "/tmp/fgtrace-truth-XXXXXX";
static char fifo[sizeof(fifo_folder) + sizeof("/fifo")];
static sem_t child_waits;
static atomic_ullong child_delay_ns;
static char *const no_environment[] = { NULL };

static void *open_late(void *argument)
{
	(void)argument;
	pthread_setname_np(pthread_self(), "opener");
	for (;;) {
		while (sem_wait(&child_waits) < 0 && errno == EINTR)
			truth_anchor++;
		if (!child_delay_ns)
			break;
		block_until(child_delay_ns);
		close(open(fifo, O_WRONLY | O_CLOEXEC));
	}
	unlink(fifo);
	rmdir(fifo_folder);
	return NULL;
}

static NOINLINE void spawn_here(uint64_t ns)
{
	char *const arguments[] = { (char *)"true", NULL };
	posix_spawn_file_actions_t actions;
	pid_t child;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, fifo, O_RDONLY,
					 0);
	child_delay_ns = ns;
	sem_post(&child_waits);
	if (posix_spawn(&child, "/bin/true", &actions, NULL, arguments,
			no_environment) != 0)
		abort();
	posix_spawn_file_actions_destroy(&actions);
	truth_anchor++;
}

static NOINLINE void vfork_here(uint64_t ns)
{
	char *const arguments[] = { (char *)"true", NULL };
	struct timespec delay = truth_timespec(ns);
	pid_t child = vfork();

	if (child == 0) {
		nanosleep(&delay, NULL);
		execve("/bin/true", arguments, no_environment);
		_exit(1);
	}
	if (child < 0)
		abort();
	truth_anchor += 2;
}

static NOINLINE void reap_here(uint64_t ns)
{
	int status;

	(void)ns;
	while (waitpid(-1, &status, 0) < 0 && errno == EINTR)
		truth_anchor++;
	truth_anchor++;
}

static void *spawn_children(void *plan)
{
	follow_plan(plan);
	child_delay_ns = 0;
	sem_post(&child_waits);
	return NULL;
}

void plan_spawn(void)
{
	struct plan *plan = add_plan("parent", 15);

	if (!mkdtemp(fifo_folder))
		abort();
	snprintf(fifo, sizeof(fifo), "%s/fifo", fifo_folder);
	if (mkfifo(fifo, 0600) < 0)
		abort();
	sem_init(&child_waits, 0, 0);
	plan->follow = spawn_children;
	STEP(plan, spawn_here, "clone3|clone|vfork", 23000);
	add_step(plan, "reap_here", "wait4", reap_here, NS_PER_MS);
	STEP(plan, burn_alpha, NULL, 14000);
	STEP(plan, vfork_here, "vfork|clone3|clone", 17000);
	add_step(plan, "reap_here", "wait4", reap_here, NS_PER_MS);
	add_helper(open_late);
}
