/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pair for benchmarks: two threads that do nothing but switch, as fast as they
 * can, each below some frames of recursion.
 *
 * pair DEPTH SECONDS [KIND]
 *
 * pipes (default): on one processor, wake each other through pipes. A round trip
 *                  is two context switches and two wake-ups.
 * apart: the same on two processors, which are idle in between.
 * yield: on one processor, give it to each other; counted are context switches.
 *
 * Prints "ready PID", then every 100 ms "MONO_NS COUNT CPU_NS".
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

struct player {
	int in_fd, out_fd;
	pthread_t thread;
};

static atomic_ullong round_trips;
static unsigned int depth_wanted;
static bool is_yielding;
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

static NOINLINE void give_way(void)
{
	while (sched_yield() == 0)
		continue;
	anchor++;
}

static NOINLINE void descend(unsigned int depth, const struct player *player)
{
	if (depth > 0)
		descend(depth - 1, player);
	else if (is_yielding)
		give_way();
	else
		play(player);
	anchor++;
}

static void *be_busy(void *argument)
{
	descend(depth_wanted, argument);
	return NULL;
}

/* The nth processor from the last one: the first ones serve most interrupts. */
static void take_processor(pthread_attr_t *attributes, int nth)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		return;
	for (int i = CPU_SETSIZE - 1; i >= 0; i--)
		if (CPU_ISSET(i, &allowed) && nth-- == 0) {
			CPU_ZERO(&one);
			CPU_SET(i, &one);
			pthread_attr_setaffinity_np(attributes, sizeof(one),
						    &one);
		}
}

static unsigned long long count_switches(void)
{
	struct rusage usage = { .ru_nvcsw = 0 };

	getrusage(RUSAGE_SELF, &usage);
	return (unsigned long long)(usage.ru_nvcsw + usage.ru_nivcsw);
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
	       is_yielding ? count_switches() : atomic_load(&round_trips) / 2,
	       cpu_ns);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct player players[2];
	pthread_attr_t attributes;
	int there[2], back[2];
	uint64_t end_ns;
	bool is_apart;

	if (argc != 3 && argc != 4) {
		fprintf(stderr,
			"usage: pair DEPTH SECONDS [pipes|apart|yield]\n");
		return 2;
	}
	is_yielding = argc == 4 && !strcmp(argv[3], "yield");
	is_apart = argc == 4 && !strcmp(argv[3], "apart");
	depth_wanted = (unsigned int)atoi(argv[1]);
	if (pipe(there) < 0 || pipe(back) < 0)
		return 1;
	players[0] = (struct player){ .in_fd = back[0], .out_fd = there[1] };
	players[1] = (struct player){ .in_fd = there[0], .out_fd = back[1] };
	pthread_attr_init(&attributes);
	for (int i = 0; i < 2; i++) {
		take_processor(&attributes, is_apart ? i : 0);
		if (pthread_create(&players[i].thread, &attributes, be_busy,
				   &players[i]) != 0)
			return 1;
	}
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
