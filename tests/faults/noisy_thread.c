/* SPDX-License-Identifier: Apache-2.0 */
/* A batch job of the service itself takes the CPUs. */
#include "service.h"

static STEP void compress_archive(void)
{
	while (is_faulty())
		burn_us(1000);
}

static void *run_part(void *argument)
{
	(void)argument;
	compress_archive();
	return NULL;
}

static void run_batch(void)
{
	for (int i = 0; i < 7; i++)
		start_thread_named("batch", run_part);
	compress_archive();
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .act = run_batch,
					    .actor = "batch" };

	return run_service(&fault, argc, argv);
}
