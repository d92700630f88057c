/* SPDX-License-Identifier: Apache-2.0 */
/* A sampler that does nothing, until it is killed. */
#include "tests/bench/bare_tick.h"

int main(void)
{
	bare_tick_run(NULL, NULL);
	return 1;
}
