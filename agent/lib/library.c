/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the library that all its rooms read. Runs in any thread, and
 * in signal handlers of the program.
 */
#include "agent/lib/library.h"

#include <errno.h>
#include <time.h>

#include "ringbuf/base/clock.h"

struct fgt_library fgt_library;

/* Before any thread exists, in every child, and before other constructors,
 * which may start the library. */
__attribute__((constructor(101))) void fgt_library_init_wake(void)
{
	sem_init(&fgt_library.wake, 0, 0);
}

uint64_t fgt_now(void)
{
	return fgt_clock_ns(CLOCK_MONOTONIC);
}

int fgt_library_check(void)
{
	switch (fgt_library_phase()) {
	case FGT_PHASE_RUNNING:
		return 0;
	case FGT_PHASE_STOPPING:
		return -ESHUTDOWN;
	case FGT_PHASE_FORKED:
		return -ECHILD;
	default:
		return -ENOTCONN;
	}
}

void fgt_library_wake(void)
{
	int count;

	/* A worker that has seen the count below fall to 0 also sees the work
	 * that is due. */
	atomic_thread_fence(memory_order_seq_cst);
	/* One wake-up is enough, and cannot overflow. */
	if (sem_getvalue(&fgt_library.wake, &count) == 0 && count < 1)
		(void)sem_post(&fgt_library.wake);
}
