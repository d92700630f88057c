/* SPDX-License-Identifier: Apache-2.0 */
/* A thread keeps all connections of a pool. */
#include <semaphore.h>
#include <unistd.h>

#include "service.h"

static sem_t g_connections;

static void prepare(void)
{
	sem_init(&g_connections, 0, 3);
}

static STEP void export_report(void)
{
	for (int i = 0; i < 3; i++)
		sem_wait(&g_connections);
	while (is_faulty())
		burn_us(1000);
	for (int i = 0; i < 3; i++)
		sem_post(&g_connections);
}

static STEP void acquire_connection(void)
{
	sem_wait(&g_connections);
	burn_us(50);
	sem_post(&g_connections);
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .prepare = prepare,
					    .handle = acquire_connection,
					    .act = export_report,
					    .actor = "reporter" };

	return run_service(&fault, argc, argv);
}
