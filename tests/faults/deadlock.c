/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads take two locks in opposite order, and give up after a time. */
#include <time.h>
#include <unistd.h>

#include "service.h"

static pthread_mutex_t g_stock_lock = PTHREAD_MUTEX_INITIALIZER;

static bool lock_for_a_while(pthread_mutex_t *lock)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 700000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	return pthread_mutex_timedlock(lock, &until) == 0;
}

static STEP void *move_stock(void *argument)
{
	(void)argument;
	pthread_mutex_lock(&g_stock_lock);
	usleep(20000);
	if (lock_for_a_while(&g_cache_lock))
		pthread_mutex_unlock(&g_cache_lock);
	pthread_mutex_unlock(&g_stock_lock);
	return NULL;
}

static STEP void count_stock(void)
{
	pthread_mutex_lock(&g_cache_lock);
	start_thread_named("mover", move_stock);
	usleep(10000);
	if (lock_for_a_while(&g_stock_lock))
		pthread_mutex_unlock(&g_stock_lock);
	pthread_mutex_unlock(&g_cache_lock);
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .act = count_stock,
					    .actor = "counter" };

	return run_service(&fault, argc, argv);
}
