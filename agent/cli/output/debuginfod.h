/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions from a debuginfod server, where the environment variable
 * DEBUGINFOD_URLS names any. Runs in the main thread.
 */
#ifndef FGT_AGENT_CLI_OUTPUT_DEBUGINFOD_H
#define FGT_AGENT_CLI_OUTPUT_DEBUGINFOD_H

#include "agent/config/config.h"
#include "ringbuf/slice/slice.h"

/*
 * For frames without a name whose image has a build id: asks for the image's
 * debug file, for at most 10 s in all calls of this process, and has a helper
 * read it. Frames that it does not name keep what they have. No effect without
 * the variable. config: NULL: as it is by default.
 *
 * MT-Unsafe | AS-Unsafe
 */
void fgt_debuginfod_name(struct fgt_ring_slice *slice,
			 const struct fgt_config *config);

#endif
