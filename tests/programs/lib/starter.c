/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a program that does not know of the zoo: starts the recorder
 * by its call, as the others do in main().
 */
#include "zoo.h"

__attribute__((constructor)) static void begin(void)
{
	zoo_begin();
}

__attribute__((destructor)) static void end(void)
{
	zoo_end();
}
