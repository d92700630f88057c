/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alternate THREADS US: threads that are blocked in one of two calls in turn,
 * each from another function, for so many microseconds. Runs until it is
 * ended.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long block_us;
static sem_t never;

__attribute__((noinline)) static void nap(void)
{
	usleep((useconds_t)block_us);
	__asm__ volatile("");
}

__attribute__((noinline)) static void wait_for_it(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += block_us * 1000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	(void)sem_timedwait(&never, &until);
	__asm__ volatile("");
}

static void *alternate(void *argument)
{
	(void)argument;
	for (;;) {
		nap();
		wait_for_it();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 3)
		return 2;
	block_us = atol(argv[2]);
	sem_init(&never, 0, 0);
	for (int i = 0; i < atoi(argv[1]); i++)
		if (pthread_create(&thread, NULL, alternate, NULL))
			return 1;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	pause();
	return 0;
}
