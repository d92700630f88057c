/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works and sleeps in turn, and prints the times: for tests that compare a
 * recording with them.
 *
 * naps WORK_MS SLEEP_MS SECONDS
 *
 * Prints "ready PID", and at the end a line "BEFORE AFTER" for each sleep:
 * CLOCK_MONOTONIC in ns, read just before the call and just after it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NAPS_MAX 100000

static uint64_t naps[NAPS_MAX][2];
static volatile uint64_t anchor;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void work(uint64_t until_ns)
{
	while (now_ns() < until_ns)
		for (unsigned int i = 0; i < 1000; i++)
			anchor = anchor * 31 + i;
}

int main(int argc, char **argv)
{
	const struct timespec sleep = {
		.tv_sec = argc > 2 ? atoi(argv[2]) / 1000 : 0,
		.tv_nsec = argc > 2 ? atoi(argv[2]) % 1000 * 1000000 : 0,
	};
	uint64_t end_ns, work_ns;
	unsigned int count = 0;

	if (argc != 4)
		return 2;
	work_ns = (uint64_t)atoi(argv[1]) * 1000000;
	end_ns = now_ns() + (uint64_t)atoi(argv[3]) * 1000000000;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (now_ns() < end_ns && count < NAPS_MAX) {
		work(now_ns() + work_ns);
		naps[count][0] = now_ns();
		clock_nanosleep(CLOCK_MONOTONIC, 0, &sleep, NULL);
		naps[count++][1] = now_ns();
	}
	for (unsigned int i = 0; i < count; i++)
		printf("%llu %llu\n", (unsigned long long)naps[i][0],
		       (unsigned long long)naps[i][1]);
	return 0;
}
