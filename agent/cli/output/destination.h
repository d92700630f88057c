/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where --upload sends a slice: the DSN of a destination, and the sending.
 */
#ifndef FGT_AGENT_CLI_OUTPUT_DESTINATION_H
#define FGT_AGENT_CLI_OUTPUT_DESTINATION_H

#include "agent/config/config.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"
#include "upload/deliver/sentry_upload.h"

/*
 * The DSN of the destination called name (NULL or "": the first Sentry one).
 * dsn_file, if given, goes before the configuration. -EINVAL: no such
 * destination (why names the nearest), or none that speaks Sentry; errors of
 * fgt_dsn_read_file().
 */
int fgt_destination_find(const struct fgt_config *config, const char *name,
			 const char *dsn_file, struct fgt_dsn *ret_dsn,
			 struct fgt_why *why);

/* Sends it; as fgt_sentry_upload(), with what the configuration says. */
int fgt_destination_send(const struct fgt_config *config,
			 const struct fgt_dsn *dsn,
			 const struct fgt_ring_slice *slice,
			 enum fgt_state_frames state_frames,
			 struct fgt_upload_outcome *ret_outcome,
			 struct fgt_why *why);

#endif
