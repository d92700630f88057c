/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's clock. Runs anywhere; async-signal-safe.
 */
#include <time.h>

#include "agent/lib/fgtrace.h"

uint64_t fgt_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) +
	       (uint64_t)now.tv_nsec;
}
