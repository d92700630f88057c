/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of a pipe does not read. */
#include <stdlib.h>
#include <unistd.h>

#include "service.h"

static int g_pipe[2];

static void *drain_after_fault(void *argument)
{
	static char bytes[65536];

	(void)argument;
	for (;;) {
		if (is_faulty())
			usleep(10000);
		else if (read(g_pipe[0], bytes, sizeof(bytes)) <= 0)
			break;
	}
	return NULL;
}

static void prepare(void)
{
	if (pipe(g_pipe))
		abort();
	start_thread_named("log-reader", drain_after_fault);
}

static STEP void write_access_log(void)
{
	static const char lines[32768];

	if (write(g_pipe[1], lines, sizeof(lines)) < 0)
		abort();
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .prepare = prepare,
					    .handle = write_access_log };

	return run_service(&fault, argc, argv);
}
