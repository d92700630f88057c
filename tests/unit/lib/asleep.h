/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for a thread that is to wait.
 */
#ifndef FGT_TESTS_UNIT_LIB_ASLEEP_H
#define FGT_TESTS_UNIT_LIB_ASLEEP_H

#include <stdatomic.h>

/* Returns once the thread that sets *tid (0 until then) sleeps in the kernel;
 * fails the running test if it does not within 10 s. */
void wait_until_asleep(const atomic_int *tid);

#endif
