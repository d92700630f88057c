/* SPDX-License-Identifier: Apache-2.0 */
/* A writer keeps all readers of the configuration waiting. */
#include "service.h"

static STEP void parse_config(void)
{
	while (is_faulty())
		burn_us(1000);
}

static STEP void reload_config(void)
{
	pthread_rwlock_wrlock(&g_config_lock);
	parse_config();
	pthread_rwlock_unlock(&g_config_lock);
}

int main(int argc, char **argv)
{
	static const struct fault fault = { .act = reload_config,
					    .actor = "reloader" };

	return run_service(&fault, argc, argv);
}
