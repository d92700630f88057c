/* SPDX-License-Identifier: Apache-2.0 */
/* A thread sleeps while it holds the lock of the cache. */
#include <unistd.h>

#include "service.h"

static STEP void throttle_eviction(void)
{
	usleep(FAULT_MS * 1000);
}

static STEP void evict_cache(void)
{
	pthread_mutex_lock(&g_cache_lock);
	throttle_eviction();
	pthread_mutex_unlock(&g_cache_lock);
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .act = evict_cache,
					    .actor = "evictor" };

	return run_service(&fault, argc, argv);
}
