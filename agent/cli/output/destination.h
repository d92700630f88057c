/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The destination of --upload.
 */
#ifndef FGT_AGENT_CLI_OUTPUT_DESTINATION_H
#define FGT_AGENT_CLI_OUTPUT_DESTINATION_H

#include "agent/config/config.h"
#include "ringbuf/base/why.h"
#include "upload/deliver/dsn.h"

/*
 * The DSN of the destination called name (NULL or "": the first Sentry one).
 * dsn_file, if given, goes before the configuration. -EINVAL: no such
 * destination (why names the nearest), or not a Sentry one; errors of
 * fgt_dsn_read_file().
 */
int fgt_destination_find(const struct fgt_config *config, const char *name,
			 const char *dsn_file, struct fgt_dsn *ret_dsn,
			 struct fgt_why *why);

#endif
