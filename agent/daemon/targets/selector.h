/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom a request means. A plain type.
 */
#ifndef FGT_AGENT_DAEMON_TARGETS_SELECTOR_H
#define FGT_AGENT_DAEMON_TARGETS_SELECTOR_H

#include <stdbool.h>
#include <stdint.h>

/* pid 0 and name NULL: everybody. */
struct fgt_selector {
	int32_t pid;
	const char *name;
	bool is_own; /* the process pid asks itself, for its own past */
};

#endif
