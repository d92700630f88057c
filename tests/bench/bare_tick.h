/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The minimum of a sampler, to compare other figures with: a thread that a
 * timer wakes 101 times a second and that does nothing; and one that makes only
 * the calls that every sampler without privileges must make.
 */
#ifndef FGT_TESTS_BENCH_BARE_TICK_H
#define FGT_TESTS_BENCH_BARE_TICK_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define BARE_TICK_NS (1000000000 / 101)

/* At each tick: work, if there is any. Returns if there is no timer. */
static inline void bare_tick_run(void (*work)(void *context), void *context)
{
	const struct timespec period = { .tv_nsec = BARE_TICK_NS };
	const struct itimerspec timer = { period, period };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	uint64_t expirations;

	if (fd < 0 || timerfd_settime(fd, 0, &timer, NULL))
		return;
	while (read(fd, &expirations, sizeof(expirations)) > 0)
		if (work)
			work(context);
}

/* Did any other thread run? CPU time of the process and, of that, of this
 * thread. */
static inline void bare_tick_ask(void *own_schedstat_fd)
{
	const int *fd = own_schedstat_fd;
	struct timespec all;
	char own[64];

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
	(void)!pread(*fd, own, sizeof(own), 0);
}

/* ask: bare_tick_ask(), or what calls it. */
static inline void bare_tick_run_asking(void (*ask)(void *own_schedstat_fd))
{
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);

	bare_tick_run(ask, &fd);
}

#endif
