/* SPDX-License-Identifier: Apache-2.0 */
/* All waiting threads are woken for each event, and one of them has work. */
#include <unistd.h>

#include "service.h"

#define HERD 200

static pthread_mutex_t g_herd_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t g_herd_event = PTHREAD_COND_INITIALIZER;

static STEP void check_for_event(void)
{
	burn_us(150);
}

static void *run_one(void *argument)
{
	(void)argument;
	for (;;) {
		pthread_mutex_lock(&g_herd_lock);
		pthread_cond_wait(&g_herd_event, &g_herd_lock);
		check_for_event();
		pthread_mutex_unlock(&g_herd_lock);
	}
	return NULL;
}

static void prepare(void)
{
	for (int i = 0; i < HERD; i++)
		start_thread_named("herd", run_one);
}

static STEP void notify_all(void)
{
	while (is_faulty()) {
		pthread_mutex_lock(&g_herd_lock);
		pthread_cond_broadcast(&g_herd_event);
		pthread_mutex_unlock(&g_herd_lock);
		usleep(2000);
	}
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .prepare = prepare,
					    .act = notify_all,
					    .actor = "notifier" };

	return run_service(&fault, argc, argv);
}
