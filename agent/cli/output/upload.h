/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the command line uploads to: --upload and --dsn-file.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_OUTPUT_UPLOAD_H
#define FGT_AGENT_CLI_OUTPUT_UPLOAD_H

#include <stdbool.h>

#include "agent/cli/options.h"
#include "agent/config/config.h"
#include "ringbuf/base/why.h"
#include "upload/deliver/dispatch.h"

/* Has the verb one of the flags, and was it given? */
bool fgt_upload_is_wanted(const struct fgt_arguments *arguments);

/*
 * The destination that the flags mean; NULL if they ask for none. Secrets come
 * out of files that this user may read, never from an argument. -EINVAL, and
 * the errors of fgt_destination_load(), with why.
 */
int fgt_upload_plan(const struct fgt_arguments *arguments,
		    const struct fgt_config *config,
		    struct fgt_destination **ret_destination,
		    struct fgt_why *why);

/* Returns it with another {seq}, which all tries of the next slice have. */
struct fgt_destination *
fgt_upload_numbered(struct fgt_destination *destination);

/*
 * Puts it into the spool of the configuration, from where the agent sends it.
 * Only what goes to a destination of the configuration: -ENOENT for another
 * one, and without a spool (why is left as it is); the errors of
 * fgt_spool_open_as_guest(), fgt_spooled_add() and fgt_destination_encode(),
 * with why.
 */
int fgt_upload_spool(const struct fgt_config *config,
		     const struct fgt_destination *destination,
		     const struct fgt_ring_slice *slice,
		     const struct fgt_format_options *options,
		     struct fgt_why *why);

/* One line on stderr about an upload that succeeded. */
void fgt_upload_report(const struct fgt_destination *destination,
		       const struct fgt_dispatch_outcome *outcome);

#endif
