/* SPDX-License-Identifier: Apache-2.0 */
/* A request takes a slow path of the code. */
#include "service.h"

static STEP void scan_list(void)
{
	burn_us(6000);
}

static STEP void find_price(void)
{
	scan_list();
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .handle = find_price };

	return run_service(&fault, argc, argv);
}
