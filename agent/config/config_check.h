/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of a configuration that look at more than one key.
 */
#ifndef FGT_AGENT_CONFIG_CONFIG_CHECK_H
#define FGT_AGENT_CONFIG_CONFIG_CHECK_H

#include <stddef.h>

#include "agent/config/config.h"
#include "ringbuf/base/why.h"

/* where begins each message: "FILE:LINE" or "FILE". All: -EINVAL. */

/* Exactly one of pid, name, exe, cgroup. */
int fgt_config_check_target(const struct fgt_config_target *target,
			    const char *where, struct fgt_why *why);

/* A destination has a dsn_file and a unique name; without one it is named by
 * its number. Also -ENOMEM. */
int fgt_config_check_destination(struct fgt_config *config, size_t index,
				 const char *where, struct fgt_why *why);

#endif
