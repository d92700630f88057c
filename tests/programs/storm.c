/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More than a sampler can afford: many threads that wake often, or many that
 * start and end, beside one thread that is busy 30 % of its time.
 *
 * storm wake N STORM_SECONDS SECONDS    N threads that sleep 50 ms on average
 * storm churn N STORM_SECONDS SECONDS   N threads a second that come and go
 *
 * The storm lasts STORM_SECONDS, the process SECONDS. Prints "ready PID", then
 * "calm COUNT" when the storm is over: how many threads have come and gone.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE      __attribute__((noinline, noclone))
#define CYCLE_MIN_S   0.05
#define CYCLE_RANGE_S 0.10
#define BUSY_SHARE    0.3
#define STACK_BYTES   (64 * 1024)

static volatile uint64_t anchor;
static atomic_bool is_calm;
static pthread_attr_t attributes;

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void sleep_seconds(double seconds)
{
	struct timespec pause = { .tv_sec = (time_t)seconds };

	pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
	nanosleep(&pause, NULL);
}

static double random_share(unsigned int *seed)
{
	return rand_r(seed) / (RAND_MAX + 1.0);
}

static NOINLINE void split_busy(double end)
{
	do {
		for (unsigned int i = 0; i < 5000; i++)
			anchor = anchor * 33 + i;
	} while (now_seconds() < end);
}

static NOINLINE void split_blocked(double end)
{
	double left = end - now_seconds();

	if (left > 0)
		sleep_seconds(left);
	anchor++;
}

/* Cycles of random length: no rate of samples is in step with them. */
static void *split(void *argument)
{
	unsigned int seed = 1;
	double at = now_seconds();

	(void)argument;
	for (;;) {
		double cycle =
			CYCLE_MIN_S + CYCLE_RANGE_S * random_share(&seed);

		split_busy(at + cycle * BUSY_SHARE);
		split_blocked(at + cycle);
		at += cycle;
	}
}

static NOINLINE void *wake_often(void *argument)
{
	unsigned int seed = (unsigned int)(uintptr_t)argument;

	while (!atomic_load_explicit(&is_calm, memory_order_relaxed))
		sleep_seconds(0.1 * random_share(&seed));
	for (;;)
		pause();
}

static NOINLINE void *come_and_go(void *argument)
{
	sleep_seconds(0.02);
	return argument;
}

/* N threads a second, in bursts of N / 100; returns how many there were. */
static unsigned long churn(unsigned int count, double end)
{
	double at = now_seconds();
	unsigned long made = 0;

	while (at < end) {
		for (unsigned int i = 0; i < count / 100 + 1; i++) {
			pthread_t thread;

			if (pthread_create(&thread, &attributes, come_and_go,
					   NULL) == 0) {
				pthread_detach(thread);
				made++;
			}
		}
		at += 0.01;
		split_blocked(at);
	}
	return made;
}

static void wake(unsigned int count)
{
	pthread_t thread;

	for (uintptr_t i = 0; i < count; i++)
		if (pthread_create(&thread, &attributes, wake_often,
				   (void *)i) != 0)
			break;
}

int main(int argc, char **argv)
{
	unsigned int count = argc == 5 ? (unsigned int)atoi(argv[2]) : 0;
	bool is_churn = argc == 5 && strcmp(argv[1], "churn") == 0;
	double start = now_seconds(), storm_end, end;
	unsigned long made = 0;
	pthread_t thread;

	if (argc != 5 || (!is_churn && strcmp(argv[1], "wake") != 0)) {
		fprintf(stderr, "usage: storm wake|churn N STORM_SECONDS "
				"SECONDS\n");
		return 2;
	}
	storm_end = start + atof(argv[3]);
	end = start + atof(argv[4]);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	if (pthread_create(&thread, &attributes, split, NULL) != 0)
		return 1;
	if (!is_churn)
		wake(count);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (is_churn)
		made = churn(count, storm_end);
	sleep_seconds(storm_end > now_seconds() ? storm_end - now_seconds()
						: 0);
	atomic_store(&is_calm, true);
	printf("calm %lu\n", made);
	fflush(stdout);
	sleep_seconds(end > now_seconds() ? end - now_seconds() : 0);
	return 0;
}
