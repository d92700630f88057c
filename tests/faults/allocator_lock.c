/* SPDX-License-Identifier: Apache-2.0 */
/* Threads contend for the one arena of the allocator. */
#include <malloc.h>
#include <stdlib.h>

#include "service.h"

static void prepare(void)
{
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
}

static STEP void build_reply(void)
{
	void *parts[64];

	for (int round = 0; round < 300; round++) {
		for (int i = 0; i < 64; i++)
			parts[i] = malloc(2000 + (size_t)i * 100);
		for (int i = 0; i < 64; i++)
			free(parts[i]);
	}
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .prepare = prepare,
					    .handle = build_reply };

	return run_service(&fault, argc, argv);
}
