/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios of busy threads: beside threads that switch often, more of them
 * than CPUs, and in the kernel (page faults, long system calls).
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "plan.h"
#include "work.h"

#define TURNS	     4u
#define IDLE	     10u
#define CROWD	     8u
#define REGION_BYTES (16u << 20)
#define BUFFER_BYTES (2u << 20)
#define BIG_BYTES    (8u << 20)

/* The turn that four threads hand round; the mutex protects it. */
static pthread_mutex_t turn_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static unsigned int turn;
static _Thread_local unsigned int my_turn;

static NOINLINE void await_turn(uint64_t ns)
{
	(void)ns;
	pthread_mutex_lock(&turn_mutex);
	while (turn % TURNS != my_turn && truth_now_ns() < truth_end_ns)
		pthread_cond_wait(&turn_changed, &turn_mutex);
	truth_anchor++;
}

/* With the mutex of await_turn(). */
static NOINLINE void hold_turn(uint64_t ns)
{
	struct timespec duration = truth_timespec(ns);

	clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL);
	turn++;
	pthread_cond_broadcast(&turn_changed);
	pthread_mutex_unlock(&turn_mutex);
}

static void take_number(struct plan *plan)
{
	my_turn = (unsigned int)(plan->name[sizeof("turn-") - 1] - '0');
}

void plan_beside(void)
{
	struct plan *plan = add_plan("busy", 12);
	char name[16];

	STEP(plan, burn_alpha, NULL, 60000);
	STEP(plan, burn_beta, NULL, 30000);
	STEP(plan, burn_gamma, NULL, 10000);
	plan = add_plan("mixed", 20);
	STEP(plan, block_nanosleep, "clock_nanosleep", 40000);
	STEP(plan, block_poll, "poll", 30000);
	STEP(plan, burn_alpha, NULL, 30000);
	for (unsigned int i = 0; i < TURNS; i++) {
		snprintf(name, sizeof(name), "turn-%u", i);
		plan = add_plan(name, 8);
		plan->prepare = take_number;
		STEP(plan, await_turn, "futex", 2100);
		STEP(plan, hold_turn, "clock_nanosleep", 700);
	}
	for (unsigned int i = 0; i < IDLE; i++) {
		snprintf(name, sizeof(name), "idle-%u", i);
		STEP(add_plan(name, 8), block_futex, "futex", 500000);
	}
}

/* The process may use its last two CPUs. */
static void stay_on_two_cpus(void)
{
	cpu_set_t allowed;

	sched_getaffinity(0, sizeof(allowed), &allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&allowed) > 2; cpu++)
		CPU_CLR(cpu, &allowed);
	sched_setaffinity(0, sizeof(allowed), &allowed);
}

void plan_spinners(void)
{
	stay_on_two_cpus();
	for (unsigned int i = 0; i < 4; i++) {
		char name[16];
		struct plan *plan;

		snprintf(name, sizeof(name), "spinner-%u", i);
		plan = add_plan(name, 10 + 5 * i);
		STEP(plan, burn_alpha, NULL, 70000);
		STEP(plan, burn_beta, NULL, 30000);
	}
}

static void *keep_busy(void *unused)
{
	(void)unused;
	while (truth_now_ns() < truth_end_ns)
		burn_gamma(NS_PER_MS);
	return NULL;
}

/* It waits for a CPU when it is woken, and when it has lost one. */
void plan_crowded(void)
{
	struct plan *plan;

	stay_on_two_cpus();
	plan = add_plan("worker", 15);
	STEP(plan, burn_alpha, NULL, 3000);
	STEP(plan, block_nanosleep, "clock_nanosleep", 7000);
	for (unsigned int i = 0; i < CROWD; i++)
		add_helper(keep_busy);
}

/* One fault for each page, and the pages are returned. */
static NOINLINE void touch_pages(uint64_t ns)
{
	static volatile char *region;
	uint64_t until_ns = truth_now_ns() + ns;
	const size_t page = 4096;

	if (!region) {
		region = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (region == MAP_FAILED)
			abort();
		madvise((void *)region, REGION_BYTES, MADV_NOHUGEPAGE);
	}
	while (truth_now_ns() < until_ns) {
		for (size_t at = 0; at < REGION_BYTES; at += page) {
			region[at] = 1;
			if (at / page % 64 == 63 && truth_now_ns() >= until_ns)
				break;
		}
		madvise((void *)region, REGION_BYTES, MADV_DONTNEED);
	}
	truth_anchor++;
}

void plan_faults(void)
{
	struct plan *plan = add_plan("faults", 15);

	STEP(plan, touch_pages, NULL, 35000);
	STEP(plan, burn_alpha, NULL, 45000);
	STEP(plan, burn_beta, NULL, 20000);
}

static char buffer[BUFFER_BYTES];

/* Each call takes about 0.2 ms. */
static NOINLINE void read_zeros(uint64_t ns)
{
	uint64_t until_ns = truth_now_ns() + ns;
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	while (truth_now_ns() < until_ns)
		if (read(fd, buffer, sizeof(buffer)) < 0)
			abort();
	close(fd);
	truth_anchor++;
}

/* Each call takes some ms. */
static NOINLINE void read_random(uint64_t ns)
{
	uint64_t until_ns = truth_now_ns() + ns;

	while (truth_now_ns() < until_ns)
		if (getrandom(buffer, sizeof(buffer), 0) < 0)
			abort();
	truth_anchor++;
}

static NOINLINE void write_memory(uint64_t ns)
{
	static int fd = -1;
	uint64_t until_ns = truth_now_ns() + ns;

	if (fd < 0)
		fd = memfd_create("truth", MFD_CLOEXEC);
	while (truth_now_ns() < until_ns)
		if (pwrite(fd, buffer, sizeof(buffer), 0) < 0)
			abort();
	truth_anchor++;
}

void plan_calls(void)
{
	struct plan *plan = add_plan("calls", 15);

	STEP(plan, read_zeros, NULL, 24000);
	STEP(plan, read_random, NULL, 18000);
	STEP(plan, write_memory, NULL, 18000);
	STEP(plan, burn_alpha, NULL, 25000);
	STEP(plan, burn_beta, NULL, 15000);
}

/* One call: the functions before and after it are the same. */
static NOINLINE void read_at_once(uint64_t ns)
{
	static char bytes[BIG_BYTES];

	(void)ns;
	if (getrandom(bytes, sizeof(bytes), 0) < 0)
		abort();
	truth_anchor++;
}

/* Calls its steps by name, as programs mostly do. */
static void *follow_reads(void *argument)
{
	struct plan *plan = argument;
	uint64_t begin_ns, between_ns;

	begin_plan(plan);
	while (truth_now_ns() < truth_end_ns) {
		begin_ns = truth_now_ns();
		touch_pages(plan->steps[0].duration_ns);
		between_ns = truth_now_ns();
		log_step(plan, &plan->steps[0], begin_ns, between_ns);
		read_at_once(plan->steps[1].duration_ns);
		log_step(plan, &plan->steps[1], between_ns, truth_now_ns());
	}
	finish_plan(plan);
	return NULL;
}

void plan_reads(void)
{
	struct plan *plan = add_plan("reads", 0);

	plan->follow = follow_reads;
	STEP(plan, touch_pages, NULL, 47000);
	STEP(plan, read_at_once, NULL, 25000);
}
