/* SPDX-License-Identifier: Apache-2.0 */
/* A thread computes while it holds the lock of the cache. */
#include "service.h"

static STEP void rebuild_index(void)
{
	while (is_faulty())
		burn_us(1000);
}

static STEP void rebuild_cache(void)
{
	pthread_mutex_lock(&g_cache_lock);
	rebuild_index();
	pthread_mutex_unlock(&g_cache_lock);
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .act = rebuild_cache,
					    .actor = "maint" };

	return run_service(&fault, argc, argv);
}
