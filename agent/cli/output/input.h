/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices from files, for the verbs that read them.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_OUTPUT_INPUT_H
#define FGT_AGENT_CLI_OUTPUT_INPUT_H

#include <sys/stat.h>

#include "agent/config/config.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"

/* The .fgt file at path, "-" is standard input; checked. ret_status: of the
 * file. Errno of open() and read(), -EMSGSIZE, those of fgt_slice_decode(). */
int fgt_input_read(const char *path, struct fgt_ring_slice **ret_slice,
		   struct stat *ret_status, struct fgt_why *why);

/* Files hold names as a rule; those that were cut without get them now.
 * -ENOMEM. */
int fgt_input_name(struct fgt_ring_slice *slice,
		   const struct fgt_config *config);

/* Both, by the default configuration. Their errors, and those of
 * fgt_config_load(). */
int fgt_input_load(const char *path, struct fgt_ring_slice **ret_slice,
		   struct fgt_why *why);

#endif
