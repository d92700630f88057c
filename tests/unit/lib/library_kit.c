/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets up an agent for a test of the library, takes both down. Runs in tests
 * only.
 */
#include "tests/unit/lib/library_kit.h"

#include <stdlib.h>

int library_set_up(void **state)
{
	struct fake_agent *agent = calloc(1, sizeof(*agent));

	fake_agent_init(agent);
	fake_agent_start(agent);
	*state = agent;
	return 0;
}

int library_tear_down(void **state)
{
	fgt_stop();
	fake_agent_done(*state);
	free(*state);
	return 0;
}

int library_start(const struct fake_agent *agent)
{
	const struct fgt_options options = { .size = sizeof(options),
					     .mode = FGT_AGENT,
					     .timeout_ms = LIBRARY_TIMEOUT_MS,
					     .socket = agent->path };

	return fgt_start(&options);
}

struct fgt_status library_status(void)
{
	struct fgt_status status = { .size = sizeof(status) };

	assert_int_equal(fgt_get_status(&status), 0);
	return status;
}
