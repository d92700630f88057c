/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets a test program be its own delivering process, as fgtrace-agent is. Runs
 * before main() of tests; must do nothing in a test that is none.
 */
#include "agent/daemon/delivery/delivery_child.h"

/* glibc hands the arguments of main() to constructors. */
static void __attribute__((constructor)) serve_if_asked(int argc, char **argv)
{
	fgt_delivery_serve_if_asked(argc, argv);
}
