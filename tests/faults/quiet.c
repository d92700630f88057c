/* SPDX-License-Identifier: Apache-2.0 */
/* No fault: nothing is unusual at any time. */
#include "service.h"

int main(int argc, char **argv)
{
	static const struct fault fault = { 0 };

	return run_service(&fault, argc, argv);
}
