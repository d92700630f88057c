/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of the system calls that a sampler without privileges makes, to
 * compare its figures with: in a row, and each once after a sleep of a period,
 * as in a tick, where caches are cold. With an argument: beside so many blocked
 * threads. Prints one "name warm cold" line each, in ns; nothing
 * passes or fails.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/bare_tick.h"

#define THREADS_MAX 20000
#define WARM_ROUNDS 200
#define COLD_ROUNDS 101
#define TRIES	    5
#define STACK_BYTES 131072u

static pthread_barrier_t all_are_there;
static clockid_t blocked_clock;
static int schedstat_fd, syscall_fd;
static void *stack;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void call_getppid(void)
{
	syscall(SYS_getppid);
}

static void call_thread_clock(void)
{
	struct timespec now;

	clock_gettime(blocked_clock, &now);
}

static void call_process_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
}

static void read_again(int fd)
{
	char text[256];

	if (pread(fd, text, sizeof(text), 0) <= 0)
		abort();
}

static void call_schedstat(void)
{
	read_again(schedstat_fd);
}

static void call_syscall(void)
{
	read_again(syscall_fd);
}

static void call_mincore(void)
{
	unsigned char pages[STACK_BYTES / 4096];

	if (mincore(stack, STACK_BYTES, pages))
		abort();
}

static void handle(int number)
{
	(void)number;
}

static void call_signal(void)
{
	raise(SIGURG);
}

static void call_nothing(void)
{
}

static double warm_ns(void (*call)(void))
{
	double best = 1e18;

	for (int try = 0; try < TRIES; try++) {
		uint64_t begin_ns = now_ns();
		double ns;

		for (int i = 0; i < WARM_ROUNDS; i++)
			call();
		ns = (double)(now_ns() - begin_ns) / (WARM_ROUNDS);
		if (ns < best)
			best = ns;
	}
	return best;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static double cold_ns(void (*call)(void))
{
	const struct timespec period = { .tv_nsec = BARE_TICK_NS };
	uint64_t took_ns[COLD_ROUNDS];

	for (int i = 0; i < COLD_ROUNDS; i++) {
		uint64_t begin_ns;

		nanosleep(&period, NULL);
		begin_ns = now_ns();
		call();
		took_ns[i] = now_ns() - begin_ns;
	}
	qsort(took_ns, COLD_ROUNDS, sizeof(*took_ns), compare);
	return (double)took_ns[COLD_ROUNDS / 2];
}

static void measure(const char *name, void (*call)(void))
{
	printf("%-34s %8.0f %8.0f\n", name, warm_ns(call), cold_ns(call));
	fflush(stdout);
}

static void *block(void *argument)
{
	pthread_barrier_wait(&all_are_there);
	pause();
	return argument;
}

static int start(int count)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_barrier_init(&all_are_there, NULL, (unsigned int)count + 1);
	for (int i = 0; i < count; i++)
		if (pthread_create(&thread, &attributes, block, NULL))
			return -1;
	pthread_barrier_wait(&all_are_there);
	return pthread_getcpuclockid(thread, &blocked_clock);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;

	if (count < 1 || count > THREADS_MAX || start(count)) {
		fprintf(stderr, "usage: bench_calls [BLOCKED, 1 to %d]\n",
			THREADS_MAX);
		return 2;
	}
	signal(SIGURG, handle);
	schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY);
	syscall_fd = open("/proc/thread-self/syscall", O_RDONLY);
	stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (schedstat_fd < 0 || syscall_fd < 0 || stack == MAP_FAILED) {
		perror("bench_calls");
		return 1;
	}
	printf("%-34s %8s %8s\n", "ns a call", "in a row", "a tick");
	measure("nothing (two looks at the clock)", call_nothing);
	measure("getppid", call_getppid);
	measure("CPU clock of a blocked thread", call_thread_clock);
	measure("CPU clock of the process", call_process_clock);
	measure("pread of schedstat", call_schedstat);
	measure("pread of task/TID/syscall", call_syscall);
	measure("mincore of 128 KiB", call_mincore);
	measure("signal to itself, handled", call_signal);
	return 0;
}
