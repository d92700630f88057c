/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a failed assertion. Any thread; must not allocate: the heap may
 * be what is broken.
 */
#include "agent/daemon/loop/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void fgt_assert_failed(const char *file, int line,
				 const char *expression)
{
	dprintf(2, "fgtrace-agent: %s:%d: assertion failed: %s\n", file, line,
		expression);
	abort();
}
