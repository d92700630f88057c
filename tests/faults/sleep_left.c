/* SPDX-License-Identifier: Apache-2.0 */
/* A sleep was left in the code. */
#include <unistd.h>

#include "service.h"

static STEP void debug_delay(void)
{
	usleep(60000);
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .handle = debug_delay };

	return run_service(&fault, argc, argv);
}
