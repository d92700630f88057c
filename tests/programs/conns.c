/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many connections: threads conn-0, conn-1, …, of which one in three waits for
 * a lock that the thread maint holds, and the others for a request.
 *
 * conns COUNT
 *
 * Prints "ready PID". Ends at the end of its input.
 */
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STACK_BYTES (64 << 10)

static pthread_mutex_t g_cache_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t g_held;

__attribute__((noinline)) static void rebuild_index(void)
{
	for (;;)
		pause();
}

static void *maint(void *argument)
{
	pthread_setname_np(pthread_self(), "maint");
	pthread_mutex_lock(&g_cache_lock);
	pthread_barrier_wait(&g_held);
	rebuild_index();
	return argument;
}

__attribute__((noinline)) static void cache_lookup(void)
{
	pthread_mutex_lock(&g_cache_lock);
	pthread_mutex_unlock(&g_cache_lock);
}

__attribute__((noinline)) static void wait_for_request(void)
{
	poll(NULL, 0, -1);
}

static void *serve(void *argument)
{
	intptr_t number = (intptr_t)argument;
	char name[16];

	snprintf(name, sizeof(name), "conn-%d", (int)number);
	pthread_setname_np(pthread_self(), name);
	if (number % 3 == 0)
		cache_lookup();
	else
		wait_for_request();
	return argument;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 0;
	pthread_attr_t small;
	pthread_t thread;
	char byte;

	pthread_barrier_init(&g_held, NULL, 2);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK_BYTES);
	if (pthread_create(&thread, NULL, maint, NULL))
		return 1;
	pthread_barrier_wait(&g_held);
	for (intptr_t i = 0; i < count; i++)
		if (pthread_create(&thread, &small, serve, (void *)i))
			return 1;
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	_exit(0);
}
