/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of low priority gets no CPU while it holds the lock of the cache. */
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "service.h"

static void spin(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!is_faulty())
		usleep(1000);
	usleep(20000);
	while (is_faulty())
		burn_us(1000);
	_exit(0);
}

static void prepare(void)
{
	for (int i = 0; i < 6; i++)
		if (fork() == 0)
			spin();
}

static STEP void scrub_cache(void)
{
	const struct sched_param none = { 0 };

	sched_setscheduler(0, SCHED_IDLE, &none);
	pthread_mutex_lock(&g_cache_lock);
	while (is_faulty())
		burn_us(100);
	pthread_mutex_unlock(&g_cache_lock);
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .prepare = prepare,
					    .act = scrub_cache,
					    .actor = "scrubber" };

	return run_service(&fault, argc, argv);
}
