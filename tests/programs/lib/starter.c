/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a program that does not call zoo.h: starts the recorder by its
 * call, as the other programs do in main().
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
