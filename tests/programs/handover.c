/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that take two mutexes from each other, and write down who held which,
 * and when. While a thread waits, the mutex may pass through several hands.
 *
 * handover SECONDS: "ready" when all run; at the end, for each hold,
 * "TID MUTEX ACQUIRED_NS RELEASED_NS" (CLOCK_MONOTONIC).
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS	 8
#define MUTEXES	 2
#define HOLDS	 4096
#define MS_NS	 1000000u
#define SPIN_MAX 4u /* ms; longer ones sleep */

struct hold {
	int mutex;
	uint64_t acquired_ns, released_ns;
};

static struct worker {
	pthread_t thread;
	int32_t tid;
	unsigned int seed;
	int count;
	struct hold holds[HOLDS];
} g_workers[THREADS];

pthread_mutex_t g_first = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t g_second = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t *const mutexes[MUTEXES] = { &g_first, &g_second };
static uint64_t g_end_ns;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 * MS_NS + (uint64_t)now.tv_nsec;
}

static void pass(unsigned int ms)
{
	uint64_t until = now_ns() + (uint64_t)ms * MS_NS;
	struct timespec time = { .tv_nsec = (long)ms * MS_NS };

	if (ms > SPIN_MAX)
		nanosleep(&time, NULL);
	while (now_ns() < until)
		;
}

static unsigned int up_to(struct worker *worker, unsigned int most)
{
	return 1 + (unsigned int)rand_r(&worker->seed) % most;
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	worker->tid = (int32_t)syscall(SYS_gettid);
	while (now_ns() < g_end_ns && worker->count < HOLDS) {
		struct hold *hold = &worker->holds[worker->count++];

		hold->mutex = (int)up_to(worker, MUTEXES) - 1;
		pthread_mutex_lock(mutexes[hold->mutex]);
		hold->acquired_ns = now_ns();
		pass(up_to(worker, 24));
		hold->released_ns = now_ns();
		pthread_mutex_unlock(mutexes[hold->mutex]);
		pass(up_to(worker, 12));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static const char *const names[MUTEXES] = { "g_first", "g_second" };

	if (argc != 2) {
		fprintf(stderr, "usage: handover SECONDS\n");
		return 2;
	}
	g_end_ns = now_ns() + strtoull(argv[1], NULL, 10) * 1000 * MS_NS;
	for (unsigned int i = 0; i < THREADS; i++) {
		g_workers[i].seed = i;
		if (pthread_create(&g_workers[i].thread, NULL, work,
				   &g_workers[i]))
			return 1;
	}
	printf("ready\n");
	fflush(stdout);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(g_workers[i].thread, NULL);
	for (unsigned int i = 0; i < THREADS; i++)
		for (int j = 0; j < g_workers[i].count; j++) {
			const struct hold *hold = &g_workers[i].holds[j];

			printf("%d %s %llu %llu\n", g_workers[i].tid,
			       names[hold->mutex],
			       (unsigned long long)hold->acquired_ns,
			       (unsigned long long)hold->released_ns);
		}
	return 0;
}
