/* SPDX-License-Identifier: Apache-2.0 */
/* Requests wait for a program that they start. */
#include <stdlib.h>

#include "service.h"

static STEP void convert_image(void)
{
	if (system("sleep 0.25") < 0)
		abort();
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .handle = convert_image };

	return run_service(&fault, argc, argv);
}
