/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets a test program be its own symbol helper, as fgtrace-agent is. Runs
 * before main() of tests; must do nothing in a test that is no helper.
 */
#include "agent/symbols/helper/helper.h"

/* glibc hands the arguments of main() to constructors. */
static void __attribute__((constructor)) serve_if_asked(int argc, char **argv)
{
	fgt_helper_serve_if_asked(argc, argv);
}
