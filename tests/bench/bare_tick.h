/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sampler costs that does nothing: a thread that a timer wakes 101 times
 * a second. The rest of a table is to be read beside it.
 */
#ifndef FGT_TESTS_BENCH_BARE_TICK_H
#define FGT_TESTS_BENCH_BARE_TICK_H

#include <stdint.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define BARE_TICK_NS (1000000000 / 101)

/* Returns if there is no timer. */
static inline void bare_tick_run(void)
{
	const struct timespec period = { .tv_nsec = BARE_TICK_NS };
	const struct itimerspec timer = { period, period };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	uint64_t expirations;

	if (fd < 0 || timerfd_settime(fd, 0, &timer, NULL))
		return;
	while (read(fd, &expirations, sizeof(expirations)) > 0)
		;
}

#endif
