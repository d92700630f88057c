/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks in nanoseconds, for the callers of the ring: the ring reads no clock,
 * it is given times.
 */
#ifndef FGT_RINGBUF_BASE_CLOCK_H
#define FGT_RINGBUF_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* MT-Safe | AS-Safe */
static inline uint64_t fgt_timespec_ns(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * UINT64_C(1000000000) +
	       (uint64_t)time->tv_nsec;
}

/* MT-Safe | AS-Safe */
static inline struct timespec fgt_timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000),
				  .tv_nsec = (long)(ns % 1000000000) };
}

/* One of the clocks that are always there. MT-Safe | AS-Safe */
static inline uint64_t fgt_clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return fgt_timespec_ns(&now);
}

#endif
