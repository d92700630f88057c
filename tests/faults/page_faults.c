/* SPDX-License-Identifier: Apache-2.0 */
/* Each request touches memory that has been given back. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "service.h"

#define AREA_BYTES (32u << 20)

static _Thread_local char *g_area;

static STEP void touch_buffer(void)
{
	memset(g_area, 1, AREA_BYTES);
	madvise(g_area, AREA_BYTES, MADV_DONTNEED);
}

static STEP void copy_result(void)
{
	if (!g_area)
		g_area = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (g_area == MAP_FAILED)
		abort();
	touch_buffer();
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .handle = copy_result };

	return run_service(&fault, argc, argv);
}
