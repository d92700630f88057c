/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's clock. Runs anywhere; async-signal-safe.
 */
#include <time.h>

#include "agent/lib/fgtrace.h"

#include "ringbuf/base/clock.h"

uint64_t fgt_now(void)
{
	return fgt_clock_ns(CLOCK_MONOTONIC);
}
