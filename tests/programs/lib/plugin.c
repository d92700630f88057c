/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that churn loads and unloads many times.
 */
#include <stdlib.h>

int zoo_plugin_work(int n);

static int *memory;

__attribute__((constructor)) static void begin(void)
{
	memory = calloc(64, sizeof(*memory));
}

__attribute__((destructor)) static void end(void)
{
	free(memory);
}

int zoo_plugin_work(int n)
{
	for (int i = 0; memory && i < 64; i++)
		memory[i] += n * i;
	return memory ? memory[1] : -n;
}
