/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that every sampler without privileges must make, to be preloaded
 * into the program that it would sample.
 */
#include <pthread.h>
#include <unistd.h>

#include "tests/bench/bare_tick.h"

static void *run(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "bench-floor");
	bare_tick_run_asking(bare_tick_ask);
	_exit(1);
}

__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, NULL))
		_exit(1);
}
