/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers by the kernel's own calls: libc's would keep a description of each,
 * and knows no clocks of threads that it did not make.
 */
#include "agent/embed/signal/thread_timer.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"

#define PERIOD_MIN_NS	 1000000u
#define SIGEV_TO_THREAD	 4 /* SIGEV_THREAD_ID */
#define PER_THREAD_CLOCK 6u /* CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED */

uint64_t fgt_thread_timer_kernel_tick(void)
{
	struct timespec tick = { 0, 0 };

	/* The clock that only the kernel's tick moves. */
	clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
	return (uint64_t)tick.tv_nsec;
}

/*
 * Those that are due between two ticks would show the beginnings of runs too
 * often: what is due at the end of one waits for the next.
 */
uint64_t fgt_thread_timer_period(uint64_t kernel_tick_ns)
{
	uint64_t ns = kernel_tick_ns / 4;

	return ns < PERIOD_MIN_NS ? PERIOD_MIN_NS : ns;
}

uint64_t fgt_thread_timer_rare(uint64_t kernel_tick_ns, uint64_t within_ns)
{
	uint64_t late_ns = kernel_tick_ns + kernel_tick_ns / 8;
	uint64_t often_ns = fgt_thread_timer_period(kernel_tick_ns);

	return within_ns > late_ns + often_ns ? within_ns - late_ns : often_ns;
}

int fgt_thread_timer_change(int timer, uint64_t period_ns)
{
	const struct timespec period = fgt_timespec_of(period_ns);
	const struct itimerspec each = { period, period };

	return syscall(SYS_timer_settime, timer, 0, &each, NULL) < 0 ? -errno
								     : 0;
}

int fgt_thread_timer_start(int32_t tid, int number, void *value,
			   uint64_t period_ns, int *ret_timer)
{
	struct sigevent event = { .sigev_notify = SIGEV_TO_THREAD,
				  .sigev_signo = number };
	unsigned int clock = (~(unsigned int)tid << 3) | PER_THREAD_CLOCK;
	int timer, rc;

	event.sigev_value.sival_ptr = value;
	event._sigev_un._tid = tid;
	if (syscall(SYS_timer_create, (clockid_t)clock, &event, &timer) < 0)
		return -errno;
	rc = fgt_thread_timer_change(timer, period_ns);
	if (rc < 0) {
		fgt_thread_timer_end(timer);
		return rc;
	}
	*ret_timer = timer;
	return 0;
}

void fgt_thread_timer_end(int timer)
{
	syscall(SYS_timer_delete, timer);
}
