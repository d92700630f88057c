/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A crowd for benchmarks: busy threads that count their work, and blocked
 * ones in five kinds of call, each below some frames of recursion.
 *
 * crowd BUSY BLOCKED DEPTH SECONDS [NAP_MS]
 *
 * With NAP_MS the blocked ones wake that often, in three kinds of call.
 * Prints "ready PID", then every 100 ms "MONO_NS OPERATIONS CPU_NS" of the
 * busy threads together.
 */
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define BUSY_MAX 64

static atomic_ullong operations[BUSY_MAX][8]; /* a cache line each */
static atomic_uint ready;
static unsigned int depth_wanted;
static int nap_ms = -1;
static volatile uint64_t anchor;
static pthread_t busy_threads[BUSY_MAX];

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static NOINLINE void hash_block(unsigned int index)
{
	uint64_t hash = anchor;

	for (unsigned int i = 0; i < 10000; i++)
		hash = (hash ^ i) * 1099511628211ull;
	anchor = hash;
	atomic_fetch_add_explicit(&operations[index][0], 1,
				  memory_order_relaxed);
}

static void block(unsigned int kind)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	struct epoll_event event;
	int pipe_fds[2];
	char byte;

	atomic_fetch_add(&ready, 1);
	switch (nap_ms < 0 ? kind % 5 : kind % 3 + 1) {
	case 0:
		pthread_mutex_lock(&mutex);
		for (;;)
			pthread_cond_wait(&condition, &mutex);
	case 1:
		for (;;)
			usleep(nap_ms < 0 ? UINT_MAX
					  : (useconds_t)nap_ms * 1000);
	case 2:
		for (;;)
			poll(NULL, 0, nap_ms);
	case 3:
		for (int fd = epoll_create1(EPOLL_CLOEXEC);;)
			epoll_wait(fd, &event, 1, nap_ms);
	default:
		if (pipe(pipe_fds) == 0)
			while (read(pipe_fds[0], &byte, 1) >= 0)
				anchor++;
	}
}

static NOINLINE void descend(unsigned int depth, unsigned int what, int is_busy)
{
	if (depth > 0)
		descend(depth - 1, what, is_busy);
	else if (!is_busy)
		block(what);
	else
		for (;;)
			hash_block(what);
	anchor++;
}

static void *be_busy(void *argument)
{
	atomic_fetch_add(&ready, 1);
	descend(depth_wanted, (unsigned int)(uintptr_t)argument, 1);
	return NULL;
}

static void *be_blocked(void *argument)
{
	descend(depth_wanted, (unsigned int)(uintptr_t)argument, 0);
	return NULL;
}

static void report(unsigned int busy)
{
	unsigned long long done = 0, cpu_ns = 0;

	for (unsigned int i = 0; i < busy; i++) {
		clockid_t clock;

		done += atomic_load(&operations[i][0]);
		if (pthread_getcpuclockid(busy_threads[i], &clock) == 0)
			cpu_ns += clock_ns(clock);
	}
	printf("%llu %llu %llu\n",
	       (unsigned long long)clock_ns(CLOCK_MONOTONIC), done, cpu_ns);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned int busy, blocked;
	pthread_attr_t attributes;
	pthread_t thread;
	uint64_t end_ns;

	if (argc != 5 && argc != 6) {
		fprintf(stderr, "usage: crowd BUSY BLOCKED DEPTH SECONDS "
				"[NAP_MS]\n");
		return 2;
	}
	busy = (unsigned int)atoi(argv[1]);
	if (busy > BUSY_MAX)
		busy = BUSY_MAX;
	blocked = (unsigned int)atoi(argv[2]);
	depth_wanted = (unsigned int)atoi(argv[3]);
	if (argc > 5)
		nap_ms = atoi(argv[5]);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 128 * 1024);
	for (uintptr_t i = 0; i < blocked; i++)
		if (pthread_create(&thread, &attributes, be_blocked,
				   (void *)i) != 0)
			return 1;
	for (uintptr_t i = 0; i < busy; i++)
		if (pthread_create(&busy_threads[i], &attributes, be_busy,
				   (void *)i) != 0)
			return 1;
	while (atomic_load(&ready) < busy + blocked)
		usleep(1000);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	end_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(atof(argv[4]) * 1e9);
	while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
		report(busy);
		usleep(100000);
	}
	return 0;
}
