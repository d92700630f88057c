/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a control socket for a test. Runs in tests only, in one thread:
 * clients send, then the loop runs for some ms.
 */
#include "tests/unit/daemon/control_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/front/front.h"

#define ROUNDS_MIN 10

void control_bench_open(struct control_bench *bench,
			struct fgt_control_options options)
{
	struct fgt_why why;

	if (!options.request_timeout_ms)
		options.request_timeout_ms = CONTROL_TIMEOUT_MS;
	options.stall_timeout_ms = CONTROL_TIMEOUT_MS;
	options.fronts.read = fgt_request_read; /* at once, in this process */
	strcpy(bench->directory, "/tmp/fgt-control-XXXXXX");
	assert_non_null(mkdtemp(bench->directory));
	snprintf(bench->path, sizeof(bench->path), "%s/agent.sock",
		 bench->directory);
	assert_int_equal(fgt_loop_new(&bench->loop), 0);
	assert_int_equal(
		fgt_listener_open(bench->path, true, &bench->listener, &why),
		0);
	assert_int_equal(fgt_control_new(bench->loop, &bench->listener,
					 &options, &bench->control),
			 0);
}

void control_bench_close(struct control_bench *bench)
{
	char path[120];

	fgt_control_free(bench->control);
	fgt_listener_close(&bench->listener);
	fgt_loop_free(bench->loop);
	snprintf(path, sizeof(path), "%s/agent.lock", bench->directory);
	unlink(path);
	rmdir(bench->directory);
}

static void stop(void *context)
{
	fgt_loop_stop(context);
}

void control_run_loop(struct fgt_loop *loop, unsigned int ms)
{
	struct fgt_timer timer = { .expired = stop, .context = loop };

	fgt_loop_arm(loop, &timer, fgt_loop_now() + ms * UINT64_C(1000000));
	assert_int_equal(fgt_loop_run(loop), 0);
	fgt_loop_disarm(loop, &timer);
}

void control_spin(struct control_bench *bench, unsigned int ms)
{
	control_run_loop(bench->loop, ms);
	/* The time may have gone by without us: what is there is handled. */
	for (int i = 0; i < ROUNDS_MIN; i++)
		control_run_loop(bench->loop, 0);
}

size_t control_count_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	size_t count = 0;

	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}
