/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler alone, for callgrind: samples a process for a number of ticks,
 * without command line, symbols or slices. The counts of the
 * first ticks, in which every thread is new, are cleared.
 *
 * bench_tick PID TICKS
 *
 * valgrind does not have pidfd_open(): an eventfd that is never written
 * replaces the descriptor that reports the end of the process.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_ZERO_STATS (void)0
#endif

#include "agent/capture/sampler.h"
#include "agent/capture/who_ran/switches.h"

#define WARM_TICKS     200
#define WAIT_US	       10000
#define IMAGE_CACHE_MB 32

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
	long arguments[6];
	va_list list;

	if (number == SYS_pidfd_open)
		return eventfd(0, EFD_CLOEXEC);
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	return __real_syscall(number, arguments[0], arguments[1], arguments[2],
			      arguments[3], arguments[4], arguments[5]);
}

/* The counters at the first look after so many ticks. */
static struct fgt_target_status wait_for_ticks(const struct fgt_target *target,
					       uint64_t ticks)
{
	struct fgt_target_status status;

	do {
		usleep(WAIT_US);
		fgt_target_get_status(target, &status);
	} while (status.is_alive && status.ticks < ticks);
	return status;
}

static void report(const struct fgt_target_status *from,
		   const struct fgt_target_status *to)
{
	uint64_t stacks_from = from->samples_running + from->samples_blocked;
	uint64_t stacks_to = to->samples_running + to->samples_blocked;

	printf("ticks %llu stacks %llu provider %s %s\n",
	       (unsigned long long)(to->ticks - from->ticks),
	       (unsigned long long)(stacks_to - stacks_from), to->who_ran,
	       to->running);
}

static int sample(int32_t pid, uint64_t ticks)
{
	const struct fgt_sampler_options options = {
		.switches = FGT_SWITCHES_BUILT_IN,
		.ring = { .size_bytes = 64 << 20 },
		.is_watched = true, /* as in the daemon */
	};
	FGT_AUTO(fgt_image_cache_free) struct fgt_image_cache *cache = NULL;
	FGT_AUTO(fgt_target_put) struct fgt_target *target = NULL;
	FGT_AUTO(fgt_sampler_free) struct fgt_sampler *sampler = NULL;
	struct fgt_target_status from, to;
	struct fgt_why why = { "" };
	int rc = fgt_image_cache_new(&cache);

	if (rc == 0)
		rc = fgt_sampler_new(&options, cache, &sampler);
	if (rc == 0)
		rc = fgt_sampler_start(sampler);
	if (rc == 0)
		rc = fgt_sampler_attach(sampler, pid, 0, &target, &why);
	if (rc < 0) {
		fprintf(stderr, "bench_tick: %s (%d)\n", why.text, rc);
		return 1;
	}
	from = wait_for_ticks(target, WARM_TICKS);
	CALLGRIND_ZERO_STATS;
	(void)wait_for_ticks(target, WARM_TICKS + ticks);
	fgt_sampler_stop(sampler);
	fgt_target_get_status(target, &to);
	report(&from, &to);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: bench_tick PID TICKS\n");
		return 2;
	}
	return sample(atoi(argv[1]), strtoull(argv[2], NULL, 10));
}
