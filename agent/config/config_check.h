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

/* Exactly one of dsn_file and url; gives it a name if it has none; the name is
 * not that of one before it. Also -ENOMEM. */
int fgt_config_check_destination(struct fgt_config *config, size_t index,
				 const char *where, struct fgt_why *why);

/* The url of a destination, once upload.allow_http is known (FAULTS N12). */
int fgt_config_check_url(const struct fgt_config *config, size_t index,
			 const char *where, struct fgt_why *why);

/* http.listen is ADDRESS:PORT. */
int fgt_config_check_listen(const struct fgt_config *config, const char *where,
			    struct fgt_why *why);

#endif
