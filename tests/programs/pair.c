/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pair for benchmarks: two threads on one processor that wake each other
 * through pipes as fast as they can, each below some frames of recursion. A
 * round trip is two context switches.
 *
 * pair DEPTH SECONDS
 *
 * Prints "ready PID", then every 100 ms "MONO_NS ROUND_TRIPS CPU_NS".
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

struct player {
	int in_fd, out_fd;
	pthread_t thread;
};

static atomic_ullong round_trips;
static unsigned int depth_wanted;
static volatile uint64_t anchor;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static NOINLINE void play(const struct player *player)
{
	char ball;

	while (read(player->in_fd, &ball, 1) == 1 &&
	       write(player->out_fd, &ball, 1) == 1)
		atomic_fetch_add_explicit(&round_trips, 1,
					  memory_order_relaxed);
	anchor++;
}

static NOINLINE void descend(unsigned int depth, const struct player *player)
{
	if (depth > 0)
		descend(depth - 1, player);
	else
		play(player);
	anchor++;
}

static void *be_busy(void *argument)
{
	descend(depth_wanted, argument);
	return NULL;
}

/* The last processor: the first ones serve most interrupts. */
static void share_one_processor(pthread_attr_t *attributes)
{
	cpu_set_t allowed, one;
	int last = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		return;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &allowed))
			last = i;
	CPU_ZERO(&one);
	CPU_SET(last, &one);
	pthread_attr_setaffinity_np(attributes, sizeof(one), &one);
}

static void report(const struct player *players)
{
	unsigned long long cpu_ns = 0;
	clockid_t clock;

	for (int i = 0; i < 2; i++)
		if (pthread_getcpuclockid(players[i].thread, &clock) == 0)
			cpu_ns += clock_ns(clock);
	/* Both players count. */
	printf("%llu %llu %llu\n",
	       (unsigned long long)clock_ns(CLOCK_MONOTONIC),
	       atomic_load(&round_trips) / 2, cpu_ns);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct player players[2];
	pthread_attr_t attributes;
	int there[2], back[2];
	uint64_t end_ns;

	if (argc != 3) {
		fprintf(stderr, "usage: pair DEPTH SECONDS\n");
		return 2;
	}
	depth_wanted = (unsigned int)atoi(argv[1]);
	if (pipe(there) < 0 || pipe(back) < 0)
		return 1;
	players[0] = (struct player){ .in_fd = back[0], .out_fd = there[1] };
	players[1] = (struct player){ .in_fd = there[0], .out_fd = back[1] };
	pthread_attr_init(&attributes);
	share_one_processor(&attributes);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&players[i].thread, &attributes, be_busy,
				   &players[i]) != 0)
			return 1;
	if (write(back[1], "o", 1) != 1)
		return 1;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	end_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(atof(argv[2]) * 1e9);
	while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
		report(players);
		usleep(100000);
	}
	return 0;
}
